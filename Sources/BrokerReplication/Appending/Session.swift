#if Replication
internal import Synchronization

/// The entries of one run of a server: it appends them to a subject of its own, one group after the other, so that no failover of
/// NATS reorders or doubles them.
///
/// 1. Each group is sent under the expectation that the newest message of the subject is that of the group before. Of two attempts
///    to send a group only the first that arrives is stored.
/// 2. When an attempt has no answer, the newest message of the subject is looked up. If it is the group's, the group is stored;
///    else it is sent again, under the same expectation.
///
/// ``append(_:)`` is called by one thread at a time; any thread may call ``stop()`` and read ``state``.
package final class Session: Sendable {
    package let id: SessionID
    let stream: ReplicatedStream
    private let subject: String
    private let token = StopToken()
    private let progress: Mutex<Progress>

    private struct Progress {
        /// That of the newest entry of the session; 0 before the first.
        var position: Int64 = 0
        var groups: UInt64 = 0
        var isAppending = false
        var waiting: SessionState.Waiting?
    }

    /// Begins a session of its own, without talking to the servers.
    package convenience init(_ stream: ReplicatedStream) { self.init(stream, id: SessionID()) }

    init(_ stream: ReplicatedStream, id: SessionID) {
        self.id = id
        self.stream = stream
        subject = Self.subject(of: id, in: stream.name)
        progress = Mutex(Progress())
    }

    static func subject(of id: SessionID, in stream: String) -> String { "\(stream).s.\(id)" }

    /// Ends ``append(_:)``, for ever.
    package func stop() {
        token.stop()
        stream.connection.wake()
    }

    package var state: SessionState {
        progress.withLock { SessionState(position: $0.position, waiting: $0.waiting) }
    }

    /// Appends entries: all of them, or none. Blocks until it is known which, for as long as the stream has no quorum.
    ///
    /// - Parameters:
    ///   - entries: 1 to ``maximumCount``, of at most ``maximumBytes`` together unless it is a single one.
    ///   - report: called on the calling thread after each attempt whose fate is unknown, or that was refused.
    /// - Returns: their positions, in the order of the entries.
    /// - Throws: A refusal (``ReplicationError/Code/full``, ``ReplicationError/Code/tooLarge``,
    ///   ``ReplicationError/Code/refused``): the group is not in the stream, and the session can go on. A halt
    ///   (``ReplicationError/Code/anotherStream``, ``ReplicationError/Code/endsBefore``, ``ReplicationError/Code/trimmed``,
    ///   ``ReplicationError/Code/sessionTaken``), or ``ReplicationError/Code/stopped``: the group may be in the stream.
    package func append(
        _ entries: [ReplicatedEntry], onWait report: (SessionState.Waiting) -> Void = { _ in }
    ) throws(ReplicationError) -> ClosedRange<Int64> {
        try appendEncoded(Self.encode(entries, for: stream), onWait: report)
    }

    /// As ``append(_:onWait:)``, of bytes.
    func appendEncoded(
        _ entries: [[UInt8]], onWait report: (SessionState.Waiting) -> Void = { _ in }
    ) throws(ReplicationError) -> ClosedRange<Int64> {
        let (position, number) = progress.withLock { progress in
            precondition(!progress.isAppending, "two threads append to one session")
            progress.isAppending = true
            progress.groups += 1
            return (progress.position, progress.groups)
        }
        defer {
            progress.withLock {
                $0.isAppending = false
                $0.waiting = nil
            }
        }
        var attempt = GroupAppend(
            stream: stream, subject: subject, token: token, group: Group(name: "\(id)-\(number)", entries: entries),
            position: position)
        let last = try attempt.run { waiting in
            self.progress.withLock { $0.waiting = waiting }
            report(waiting)
        }
        progress.withLock { $0.position = last }
        return last - Int64(entries.count) + 1...last
    }

    /// Entries of one group.
    package static let maximumCount = Group.maximumCount
    /// Bytes of the entries of one group.
    package static let maximumBytes = Group.maximumBytes

    static func encode(
        _ entries: [ReplicatedEntry], for stream: ReplicatedStream
    ) throws(ReplicationError) -> [[UInt8]] {
        precondition(!entries.isEmpty, "a group has an entry")
        var encoded: [[UInt8]] = []
        encoded.reserveCapacity(entries.count)
        var bytes = 0
        for entry in entries {
            encoded.append(try EntryEncoding.encode(entry, for: stream.identity))
            bytes += encoded[encoded.count - 1].count
        }
        guard entries.count <= Group.maximumCount, entries.count == 1 || bytes <= Group.maximumBytes else {
            throw ReplicationError(
                .tooLarge,
                "A group of \(entries.count) entries with \(bytes) bytes was not appended: at most \(Group.maximumCount) entries and "
                    + "\(Group.maximumBytes) bytes are allowed. Append it as several groups.")
        }
        return encoded
    }
}

/// A session, as an operator sees it.
package struct SessionState: Sendable {
    package struct Waiting: Sendable {
        /// Why the newest attempt to send the group had no answer.
        package let reason: String
        /// The attempts so far.
        package let attempts: Int
        /// When the group was sent first, in microseconds of the monotonic clock.
        package let since: Int64
    }

    /// That of the newest appended entry; 0 before the first.
    package let position: Int64
    /// nil unless a group waits for the servers.
    package let waiting: Waiting?
}
#endif
