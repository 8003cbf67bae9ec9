#if Replication
internal import BrokerJSON
internal import BrokerJournal
package import BrokerReplication
internal import BrokerStore
internal import DequeModule

/// The log of several servers in a stream of NATS JetStream.
///
/// ```
/// append ──▶ queue ──▶ one group in flight, the next gathers ──▶ stream ──▶ read
///                                       └── stored, and next in order ────────┘
/// ```
///
/// A group that is stored, and whose positions follow the newest that was read, is delivered from memory: the stream delivers it
/// later, from a copy that may lack it for a while; then it must be the same.
final class ReplicatedLog: SharedLog {
    enum Waiting {
        case entry(LogEntry)
        case note(ReplicaNote)
    }

    struct Queue {
        var waiting: [Waiting] = []
        var isStopping = false
    }

    /// An entry on its way: the reader finds them in the order in which they were sent.
    enum SentEntry {
        case stored(Waiting)
        /// The stream has no room for it.
        case refused(LogEntry, StoreError)
    }

    struct Outbox {
        var sent = Deque<SentEntry>()
        /// Groups of entries that are stored, with the positions of their first ones.
        var stored = Deque<(first: Int64, entries: [ReplicatedEntry])>()
        /// Why nothing more is appended.
        var failure: StoreError?
    }

    /// The state of the reading thread, which alone touches it.
    final class ReaderState: @unchecked Sendable {
        var reader: StreamReader?
        var time: Int64 = 0
        /// The newest position that was delivered.
        var position: Int64 = 0
    }

    struct Positions {
        var last: Int64
        var waiting: String?
    }

    let identity: String
    let address: String
    let replica: String
    let durability: Durability
    let backlogEnd: Int64
    private let applied = Monitor<Int64>(0)
    let stream: ReplicatedStream
    let session: Session
    let queue = Monitor(Queue())
    let outbox = Monitor(Outbox())
    let reading = ReaderState()
    let positions: Monitor<Positions>
    private let appending = Monitor<Thread?>(nil)
    private let trimming = SerialThread(named: "trimming")

    /// Microseconds that a group waits before new jobs are refused: an election of the stream's leader takes up to that long.
    private static let patience: Int64 = 10_000_000
    /// Microseconds after which a server that appends nothing repeats its newest checkpoint, so that the others know that it lives.
    private static let heartbeat: Int64 = 3_600_000_000

    init(_ stream: ReplicatedStream, replica: String, durability: Durability) throws(StoreError) {
        self.stream = stream
        self.replica = replica
        self.durability = durability
        identity = SharedLogSource.prefix + stream.identity.description
        address = "\(stream.name) at \(stream.connection.address.hosts)"
        session = Session(stream)
        do throws(ReplicationError) {
            backlogEnd = try stream.status().lastPosition
        } catch {
            throw StoreError(error)
        }
        positions = Monitor(Positions(last: backlogEnd))
    }

    // MARK: - Beginning

    func first(_ own: LogBeginning) throws(StoreError) -> LogBeginning {
        let entries: [(ReplicatedEntry.Kind, [UInt8])] = [
            (.limits, Array(own.limits.text.utf8)),
            (.model, LogChange.model(own.model, .refuse).payload),
            (.upgrade, ReplicaNote.upgrade(fingerprint: own.fingerprint).payload),
        ]
        // They have a subject of their own: the session has appended nothing yet.
        let id = SessionID()
        do throws(ReplicationError) {
            try stream.begin(
                with: entries.map {
                    ReplicatedEntry(
                        $0.0, session: id, isIDMade: true, isPrivileged: true, time: wallClockMilliseconds(),
                        payload: $0.1)
                })
            let reader = StreamReader(stream, after: 0)
            defer { reader.stop() }
            var read: [DeliveredEntry] = []
            while read.count < entries.count, let next = try reader.read(bytes: 1) { read += next }
            return try Self.beginning(of: read.prefix(entries.count))
        } catch {
            throw StoreError(error)
        }
    }

    private static func beginning(of entries: ArraySlice<DeliveredEntry>) throws(ReplicationError) -> LogBeginning {
        var limits: LoggedLimits?
        var model: String?
        var fingerprint: String?
        for entry in entries {
            let (kind, payload) = (entry.entry.kind, entry.entry.payload)
            switch kind {
            case .limits: limits = LoggedLimits(String(decoding: payload, as: UTF8.self))
            case .model: if case .model(let text, _)? = LogChange(.model, payload) { model = text }
            case .upgrade: if case .upgrade(let digits)? = ReplicaNote(entry.entry) { fingerprint = digits }
            case .job, .replica, .checkpoint: break
            }
        }
        guard let limits, let model, let fingerprint, let last = entries.last else {
            throw .unknownPayload(at: entries.first?.position ?? 1)
        }
        return LogBeginning(
            limits: limits, model: model, fingerprint: fingerprint, position: last.position,
            time: entries.map(\.entry.time).max() ?? 0)
    }

    func begin(
        after position: Int64, at time: Int64, reporting report: @escaping @Sendable (_ reason: String?) -> Void
    ) {
        reading.reader = StreamReader(stream, after: position)
        reading.time = time
        reading.position = position
        applied.withLock { $0 = position }
        appending.withLock { $0 = Thread(named: "append") { [self] in appendAll(report) } }
    }

    var backlog: Int { Int(max(0, backlogEnd - applied.withLock { $0 })) }

    // MARK: - Appending

    let takesCancellations = false

    func append(_ entry: LogEntry) { append(.entry(entry)) }

    func append(_ note: ReplicaNote) { append(.note(note)) }

    private func append(_ waiting: Waiting) {
        queue.signal { queue in
            queue.waiting.append(waiting)
            return queue.waiting.count == 1
        }
    }

    private func appendAll(_ report: @escaping @Sendable (_ reason: String?) -> Void) {
        var newest: ReplicaNote?
        var rest: [Waiting] = []
        // Notes that were refused with their group go with the next one.
        var lost: [Waiting] = []
        while outbox.withLock({ $0.failure == nil }) {
            if rest.isEmpty {
                guard let taken = take() else { return }
                rest = taken
            }
            if rest.isEmpty, let newest { rest = [.note(newest)] }
            rest = lost + rest
            lost = []
            let group = takeGroup(&rest)
            for case .note(let note) in group.map(\.waiting) { if case .checkpoint = note { newest = note } }
            if !group.isEmpty, !append(group, report) {
                lost = group.map(\.waiting).filter { if case .note = $0 { true } else { false } }
            }
        }
    }

    /// Waits for entries; none when there were none for long, nil at the end.
    private func take() -> [Waiting]? {
        let taken: [Waiting]?? = queue.wait(until: monotonicMicroseconds() + Self.heartbeat) { queue in
            guard !queue.waiting.isEmpty else { return queue.isStopping ? .some(nil) : nil }
            defer { queue.waiting.removeAll(keepingCapacity: queue.waiting.count < 4_096) }
            return queue.waiting
        }
        return taken ?? []
    }

    private func takeGroup(_ rest: inout [Waiting]) -> [(waiting: Waiting, entry: ReplicatedEntry)] {
        var group: [(waiting: Waiting, entry: ReplicatedEntry)] = []
        var bytes = 0
        for waiting in rest {
            let entry = entry(of: waiting)
            bytes += entry.payload.count + 256
            guard group.isEmpty || group.count < Session.maximumCount && bytes <= Session.maximumBytes else { break }
            group.append((waiting, entry))
        }
        rest.removeFirst(group.count)
        return group
    }

    private func entry(of waiting: Waiting) -> ReplicatedEntry {
        switch waiting {
        case .entry(let entry):
            let kind: ReplicatedEntry.Kind =
                switch entry.kind {
                case .job: .job
                case .model: .model
                case .limits: .limits
                case .cancellation: preconditionFailure("a shared log takes no cancellations")
                }
            return ReplicatedEntry(
                kind, session: session.id, id: entry.id.text, isIDMade: entry.isIDMade, mayDelete: entry.mayDelete,
                isPrivileged: entry.isPrivileged, user: entry.owner.user, time: entry.time, payload: entry.payload())
        case .note(let note): return ReplicatedEntry(note, of: session.id)
        }
    }

    /// - Returns: false when the stream refused the group.
    private func append(
        _ group: [(waiting: Waiting, entry: ReplicatedEntry)], _ report: @Sendable (_ reason: String?) -> Void
    ) -> Bool {
        // The reader may find them before the answer comes.
        outbox.withLock { outbox in for item in group { outbox.sent.append(.stored(item.waiting)) } }
        var isReported = false
        defer { if isReported { report(nil) } }
        do throws(ReplicationError) {
            let stored = try session.append(group.map(\.entry)) { waiting in
                let reason = Self.noQuorum(waiting.reason)
                positions.withLock { $0.waiting = reason }
                guard monotonicMicroseconds() - waiting.since >= Self.patience else { return }
                isReported = true
                report(reason)
            }
            outbox.withLock { $0.stored.append((first: stored.lowerBound, entries: group.map(\.entry))) }
            reading.reader?.interrupt()
            positions.withLock {
                $0.last = max($0.last, stored.upperBound)
                $0.waiting = nil
            }
            return true
        } catch {
            switch error.code {
            case .full, .tooLarge, .refused:
                positions.withLock { $0.waiting = nil }
                refuse(group.map(\.waiting), StoreError(error))
                return false
            case .stopped: outbox.withLock { $0.failure = StoreError(error) }
            default:
                outbox.withLock { $0.failure = StoreError(error) }
                reading.reader?.interrupt()
            }
            return true
        }
    }

    /// The group is not in the stream: it is the newest that was sent.
    private func refuse(_ group: [Waiting], _ error: StoreError) {
        outbox.withLock { outbox in
            outbox.sent.removeLast(group.count)
            for case .entry(let entry) in group { outbox.sent.append(.refused(entry, error)) }
        }
        reading.reader?.interrupt()
    }

    private static func noQuorum(_ reason: String) -> String {
        "The log takes no entries now (\(reason)): most of its servers must be reachable. Accepted jobs wait and are not "
            + "lost. Send this one again later."
    }

    // MARK: - The rest

    /// Checkpoints say which entries may be trimmed.
    func applied(through position: Int64) {}

    func trim(through position: Int64) {
        trimming.run([
            { [self] in
                do throws(ReplicationError) {
                    try stream.trim(through: position)
                } catch {
                    // A later checkpoint trims these entries with others.
                }
            }
        ])
    }

    var lastPosition: Int64 { positions.withLock { $0.last } }

    var waiting: String? { positions.withLock { $0.waiting } ?? reading.reader?.state.waiting }

    func write(to writer: inout JSONWriter) {
        let (waiting, last) = (queue.withLock { $0.waiting.count }, lastPosition)
        writer.member("kind", "nats")
        writer.member("stream", stream.name)
        writer.member("identity", stream.identity.description)
        writer.member("replica", replica)
        writer.member("durability", durability.rawValue)
        writer.member("waiting", waiting)
        writer.member("last", last)
        let connection = stream.connection.state
        writer.member("connected", connection.isConnected)
        if let server = connection.server { writer.member("server", server) }
        if let cause = self.waiting { writer.member("cause", cause) }
    }

    func stop() {
        queue.update { $0.isStopping = true }
        session.stop()
        reading.reader?.stop()
        appending.withLock { $0 }?.join()
        trimming.stop()
        stream.stop()
    }
}

/// Entries in the order of their positions, from the stream and from memory.
extension ReplicatedLog {
    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
        guard let reader = reading.reader else { preconditionFailure("the log was not begun") }
        while true {
            var items = takeRefused() + (try takeStored())
            if !items.isEmpty { return items }
            if let failure = outbox.withLock({ $0.failure }), !queue.withLock({ $0.isStopping }) { throw failure }
            let entries: [DeliveredEntry]?
            do throws(ReplicationError) {
                entries = try reader.read(bytes: bytes)
            } catch {
                throw StoreError(error)
            }
            guard let entries else { return nil }
            for delivered in entries {
                guard delivered.position > reading.position else {
                    guard delivered.entry.session == session.id else { throw LogViolation.unexpectedJob.error }
                    continue
                }
                items.append(try item(of: delivered.entry, at: delivered.position))
                items += takeRefused()
            }
            if let last = entries.last { positions.withLock { $0.last = max($0.last, last.position) } }
            if !items.isEmpty { return items }
        }
    }

    /// Own entries that the stream refused and that are next, in the order in which they were appended.
    private func takeRefused() -> [LogItem] {
        outbox.withLock { outbox in
            var items: [LogItem] = []
            while case .refused(let entry, let error)? = outbox.sent.first {
                outbox.sent.removeFirst()
                items.append(.refused(entry, error))
            }
            return items
        }
    }

    /// Own entries that the stream has stored, as far as everything before them was delivered.
    private func takeStored() throws(StoreError) -> [LogItem] {
        var items: [LogItem] = []
        while let group = takeStoredGroup() {
            for (index, entry) in group.entries.enumerated() where group.first + Int64(index) > reading.position {
                items.append(try item(of: entry, at: group.first + Int64(index)))
                items += takeRefused()
            }
        }
        return items
    }

    private func takeStoredGroup() -> (first: Int64, entries: [ReplicatedEntry])? {
        outbox.withLock { outbox in
            guard let first = outbox.stored.first?.first, first <= reading.position + 1 else { return nil }
            return outbox.stored.removeFirst()
        }
    }

    private func item(of entry: ReplicatedEntry, at position: Int64) throws(StoreError) -> LogItem {
        reading.time = max(reading.time, entry.time)
        reading.position = position
        let time = reading.time
        let place = LogPlace(position: position, time: time)
        let isOwn = entry.session == session.id
        var own: Waiting?
        if isOwn {
            own = outbox.withLock { outbox -> Waiting? in
                guard case .stored(let waiting)? = outbox.sent.first else { return nil }
                outbox.sent.removeFirst()
                return waiting
            }
            guard own != nil else { throw LogViolation.unexpectedJob.error }
        }
        switch entry.kind {
        case .job:
            if case .entry(let waiting)? = own {
                let stored = LogPlace(position: position, time: time, durableAt: monotonicMicroseconds())
                return .job(ticket: waiting.ticket, stored, payload: entry.payload)
            }
            let job = JournaledJob(
                sequence: position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                mayDelete: entry.mayDelete, isPrivileged: entry.isPrivileged, time: time, isCancelled: false)
            return .other(job, payload: entry.payload)
        case .model, .limits:
            var ticket: Int?
            if case .entry(let waiting)? = own { ticket = waiting.ticket }
            return .change(
                LoggedChange(
                    kind: entry.kind == .model ? .model : .limits, payload: entry.payload, place: place, ticket: ticket)
            )
        case .replica, .checkpoint, .upgrade:
            guard let note = ReplicaNote(entry) else { throw StoreError(.unknownPayload(at: position)) }
            return .note(note, LogMark(position: position, time: time, content: entry.payload), isOwn: isOwn)
        }
    }
}

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
