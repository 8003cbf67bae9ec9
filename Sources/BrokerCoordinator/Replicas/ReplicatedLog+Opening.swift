#if Replication
package import BrokerReplication
internal import BrokerStore

extension ReplicatedEntry.Kind {
    /// The kind of a note; nil for a job or a change.
    fileprivate var ofNote: ReplicaNote.Kind? {
        switch self {
        case .replica: .replica
        case .checkpoint: .checkpoint
        case .upgrade: .upgrade
        case .job, .model, .limits: nil
        }
    }
}

extension ReplicatedEntry {
    init(_ note: ReplicaNote, of session: SessionID) {
        let kind: Kind =
            switch note.kind {
            case .replica: .replica
            case .checkpoint: .checkpoint
            case .upgrade: .upgrade
            }
        self.init(
            kind, session: session, isIDMade: true, isPrivileged: true, time: wallClockMilliseconds(),
            payload: note.payload)
    }
}

extension ReplicaNote {
    /// Nil for an entry of another kind, or of a later version.
    package init?(_ entry: ReplicatedEntry) {
        guard let kind = entry.kind.ofNote else { return nil }
        self.init(kind, entry.payload)
    }
}

extension ReplicatedStream {
    /// Appends a note of no server: an operator's. Blocks until it is in the stream.
    ///
    /// - Returns: its position.
    package func append(_ note: ReplicaNote) throws(ReplicationError) -> Int64 {
        let session = Session(self)
        return try session.append([ReplicatedEntry(note, of: session.id)]).upperBound
    }
}

extension StoreError {
    init(_ error: ReplicationError) { self.init(error.code == .full ? .full : .unavailable, error.message) }
}

extension SharedLogSource {
    /// A stream of NATS JetStream.
    ///
    /// - Parameters:
    ///   - replica: the name of this server, which no other one has.
    ///   - system: a connection of a user of the system account, which sees whether the servers sync each write; nil when that stays
    ///     unknown.
    package static func nats(
        _ address: StreamAddress, _ files: ConnectionFiles, replica: String,
        system: (address: StreamAddress, files: ConnectionFiles)?
    ) -> SharedLogSource {
        SharedLogSource { identity throws(StoreError) in
            let stream: ReplicatedStream
            do throws(ReplicationError) {
                let connection = try StreamConnection(address, files: files)
                let expected = identity.flatMap { StreamIdentity(String($0.dropFirst(prefix.count))) }
                stream = try ReplicatedStream.open(connection, expected: expected)
                if let system { try survey(system.address, system.files) }
            } catch {
                throw StoreError(error)
            }
            return try ReplicatedLog(stream, replica: replica, durability: system == nil ? .quorumMemory : .quorum)
        }
    }

    private static func survey(_ system: StreamAddress, _ files: ConnectionFiles) throws(ReplicationError) {
        let connection = try StreamConnection(system, files: files)
        defer { connection.stop() }
        try ServerSurvey(connection, patience: surveyPatience).check(connection)
    }

    /// Microseconds.
    private static var surveyPatience: Int64 { 10_000_000 }
}
#endif
