#if Replication
internal import BrokerJSON
package import BrokerJournal
internal import CNATS
internal import Foundation

/// The entries of one run of a server: it appends them to a subject of its own, one group after the other, so that no failover of
/// NATS reorders or doubles them.
///
/// 1. Each group is sent under the expectation that the newest message of the subject is that of the group before. Of two attempts
///    to send a group only the first that arrives is stored.
/// 2. When an attempt has no answer, the newest message of the subject is looked up. If it is the group's, the group is stored;
///    else it is sent again, under the same expectation.
///
/// ``append(_:onWait:)`` is called by one thread at a time; any thread may call ``stop()``.
package final class Session: @unchecked Sendable {
    package let id: SessionID
    let stream: ReplicatedStream
    fileprivate let subject: String
    fileprivate let token = StopToken()
    // Only the thread that appends touches these: the position of the newest entry of the session, 0 before the first; and the
    // number of groups.
    private var position: Int64 = 0
    private var groups = 0

    /// A group waits for the servers.
    package struct Waiting: Sendable {
        /// Why the newest attempt to send the group had no answer.
        package let reason: String
        package let attempts: Int
        /// When the group was sent first, in microseconds of the monotonic clock.
        package let since: Int64
    }

    /// Without talking to the servers.
    package init(_ stream: ReplicatedStream, id: SessionID = SessionID()) {
        self.id = id
        self.stream = stream
        subject = Self.subject(of: id, in: stream.name)
    }

    static func subject(of id: SessionID, in stream: String) -> String { "\(stream).s.\(id)" }

    /// Ends ``append(_:)``, for ever.
    package func stop() {
        token.stop()
        stream.connection.wake()
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
        _ entries: [LogEntry], onWait report: (Waiting) -> Void = { _ in }
    ) throws(ReplicationError) -> ClosedRange<Int64> {
        let encoded = try Self.encode(entries, for: stream)
        groups += 1
        var attempt = GroupAppend(self, Group(name: "\(id)-\(groups)", entries: encoded), after: position)
        position = try attempt.run(report: report)
        return position - Int64(entries.count) + 1...position
    }

    /// Entries of one group: the limit of nats-server.
    package static let maximumCount = 1_000
    /// Bytes of all entries of a group, or one entry: a server holds a batch in memory until it is complete.
    package static let maximumBytes = 32 << 20

    static func encode(
        _ entries: [LogEntry], for stream: ReplicatedStream
    ) throws(ReplicationError) -> [[UInt8]] {
        precondition(!entries.isEmpty, "a group has an entry")
        var encoded: [[UInt8]] = []
        encoded.reserveCapacity(entries.count)
        var bytes = 0
        for entry in entries {
            encoded.append(try EntryEncoding.encode(entry, for: stream.identity))
            bytes += encoded[encoded.count - 1].count
        }
        guard entries.count <= maximumCount, entries.count == 1 || bytes <= maximumBytes else {
            throw ReplicationError(
                .tooLarge,
                "A group of \(entries.count) entries with \(bytes) bytes was not appended: at most \(maximumCount) entries and "
                    + "\(maximumBytes) bytes are allowed. Append it as several groups.")
        }
        return encoded
    }
}

extension ReplicatedStream {
    /// Appends the first entries of the stream, unless it has some. Blocks until it has, for as long as it has no quorum. Several
    /// servers may call it at once: the stream gets the entries of one.
    package func begin(with entries: [LogEntry]) throws(ReplicationError) {
        let id = entries.first.map { SessionID(number: $0.session) } ?? SessionID()
        var group = Group(name: "\(id)-first", entries: try Session.encode(entries, for: self))
        group.isFirst = true
        while try info(patience: nil).status.lastPosition == 0 {
            let outcome = group.send(
                to: Session.subject(of: id, in: name), after: 0, on: connection,
                deadline: monotonicMicroseconds() + Self.answerTime)
            switch outcome {
            case .stored: return
            case .stopped: throw .stopped
            case .refused(let failure) where !failure.isTemporary:
                // Another server may have been first.
                if try info(patience: nil).status.lastPosition == 0 { throw failure.error(of: connection) }
            case .refused, .unknown: try connection.pause(Self.attemptPause, nil)
            }
        }
    }

    /// Microseconds until the answer to a group is not expected any more.
    private static let answerTime: Int64 = 4_000_000
    /// Microseconds between two attempts.
    private static let attemptPause: Int64 = 100_000
}

/// Encoded entries on their way to the stream, as one atomic batch (ADR-50 of NATS): all of them are stored, at contiguous positions,
/// or none.
struct Group {
    /// The name that each attempt to send the group begins its batch's id with: the last message of the subject shows whether the
    /// group is in the stream.
    let name: String
    let entries: [[UInt8]]
    /// It is stored only as the first group of the whole stream.
    var isFirst = false
    /// An id names one batch: nats-server 2.15.1 does not let a batch begin again.
    private var attempts = 0

    init(name: String, entries: [[UInt8]]) {
        self.name = name
        self.entries = entries
    }

    enum Outcome {
        /// The position of the last entry.
        case stored(Int64)
        /// This attempt is not in the stream. An earlier one may be.
        case refused(JetStreamFailure)
        case unknown(String)
        case stopped
    }

    /// Sends the group once, after the newest message of the subject, which has that position, 0 if there is none; and waits for
    /// the answer until a time of the monotonic clock.
    mutating func send(
        to subject: String, after position: Int64, on connection: StreamConnection, deadline: Int64
    ) -> Outcome {
        attempts += 1
        var answer = StreamConnection.Answer.disconnected
        do throws(NATSFailure) {
            for index in entries.indices {
                let message = try NATSMessage(subject, entries[index], headers: headers(of: index, after: position))
                defer { message.destroy() }
                if index < entries.count - 1 {
                    try message.publish(on: connection.connection)
                } else {
                    answer = connection.request(message, deadline: deadline)
                }
            }
        } catch {
            return .unknown(error.text)
        }
        switch answer {
        case .message(let bytes): return outcome(of: bytes)
        case .noResponders: return .unknown("the stream has no leader")
        case .disconnected: return .unknown("the connection was lost")
        case .timedOut: return .unknown("there was no answer; the stream may have no quorum")
        case .stopped: return .stopped
        }
    }

    private func headers(of index: Int, after position: Int64) -> [(String, String)] {
        var headers = [("Nats-Batch-Id", "\(name)-\(attempts)"), ("Nats-Batch-Sequence", "\(index + 1)")]
        if index == 0 { headers.append(("Nats-Expected-Last-Subject-Sequence", "\(position)")) }
        if index == 0, isFirst { headers.append(("Nats-Expected-Last-Sequence", "0")) }
        if index == entries.count - 1 { headers.append(("Nats-Batch-Commit", "1")) }
        return headers
    }

    private func outcome(of answer: [UInt8]) -> Outcome {
        let parsed = StreamConnection.parse(answer) { ack in
            (position: ack["seq"]?.int64 ?? 0, count: Int(ack["count"]?.int64 ?? 0))
        }
        switch parsed {
        case .success(let ack) where ack.position >= ack.count && ack.count == entries.count:
            return .stored(ack.position)
        case .success, nil:
            return .unknown("the answer is \"\(String(decoding: answer.prefix(200), as: UTF8.self))\"")
        case .failure(let failure): return .refused(failure)
        }
    }

    /// Whether a batch of that id is an attempt to send this group.
    func isNamed(byBatch id: String) -> Bool { id.hasPrefix("\(name)-") }
}

/// One group on its way into the stream: it is sent, looked up and sent again until its fate is known.
struct GroupAppend {
    private let session: Session
    private var group: Group
    /// The newest message of the subject must be at this position.
    private var expected: Int64
    /// The position of the session's newest entry.
    private let position: Int64
    /// Attempts that may arrive yet.
    private var hasUnknownAttempt = false
    /// Every position up to this one was taken before the group was sent for the first time.
    private var taken: Int64
    private var attempts = 0
    private let start = monotonicMicroseconds()
    /// Since when the leader lacks the session's newest entry.
    private var shortness: (since: Int64, leader: String?)?

    /// Microseconds until the answer to a group of no bytes is not expected any more.
    private static let answerTime: Int64 = 4_000_000
    /// Bytes that every server stores in a microsecond at least.
    private static let slowestRate: Int64 = 2
    /// Microseconds between two attempts.
    private static let pauseTime: Int64 = 100_000
    /// As the other one, when the stream has no room.
    private static let fullPauseTime: Int64 = 1_000_000

    init(_ session: Session, _ group: Group, after position: Int64) {
        (self.session, self.group, self.position) = (session, group, position)
        (expected, taken) = (position, position)
    }

    private var stream: ReplicatedStream { session.stream }
    private var token: StopToken { session.token }

    /// `report` is called when the group has to wait. Returns the position of the last entry.
    mutating func run(report: (Session.Waiting) -> Void) throws(ReplicationError) -> Int64 {
        try stream.connection.checkStopped(token)
        // Nothing else fences the first group of a session from a stream that was created meanwhile.
        if position == 0 { taken = try stream.info(patience: nil, token).status.lastPosition }
        let time = Self.answerTime + Int64(group.entries.reduce(0) { $0 + $1.count }) / Self.slowestRate
        while true {
            attempts += 1
            let outcome = group.send(
                to: session.subject, after: expected, on: stream.connection, deadline: monotonicMicroseconds() + time)
            let reason: String
            var refusal: JetStreamFailure?
            switch outcome {
            case .stored(let last): return last
            case .stopped: throw .stopped
            case .unknown(let why):
                hasUnknownAttempt = true
                reason = why
            case .refused(let failure):
                reason = failure.text
                refusal = failure
            }
            report(Session.Waiting(reason: reason, attempts: attempts, since: start))
            if let last = try lookUp() { return last }
            if let refusal { try settle(refusal) }
            try stream.connection.pause(refusal?.hasNoRoom == true ? Self.fullPauseTime : Self.pauseTime, token)
        }
    }

    /// Ends the append with a refusal that is final: when an earlier attempt may still arrive, it is not.
    private func settle(_ refusal: JetStreamFailure) throws(ReplicationError) {
        guard !hasUnknownAttempt else { return }
        switch refusal.code {
        case JetStreamFailure.wrongLastSequence, JetStreamFailure.wrongLastSequenceInFlight,
            JetStreamFailure.batchIncomplete:
            return
        default:
            if !refusal.isTemporary { throw refusal.error(of: stream.connection) }
        }
    }

    // MARK: - The newest message of the subject

    /// - Returns: the position of the last entry when the group is in the stream.
    private mutating func lookUp() throws(ReplicationError) -> Int64? {
        let last = try stream.lastMessage(of: session.subject, token)
        if let last, group.isNamed(byBatch: last.batch) { return last.position }
        let found = last?.position ?? 0
        if found == expected {
            shortness = nil
            return nil
        }
        guard found < expected else {
            throw ReplicationError(
                .sessionTaken,
                "Another program has published to \(session.subject), the subject of this session, at position \(found). Nothing is "
                    + "appended any more. Let only Broker publish there, then start again.")
        }
        let info = try stream.info(patience: nil, token)
        if info.status.firstPosition > expected, found == 0 {
            try expectNothing(info.status)
        } else {
            try checkShortness(info.status)
        }
        return nil
    }

    /// The session's newest entry was trimmed: the stream has no message of the subject.
    private mutating func expectNothing(_ status: StreamStatus) throws(ReplicationError) {
        // Nothing that was stored after the first attempt may have been trimmed, else the group may have been, too.
        guard !hasUnknownAttempt || status.firstPosition <= taken + 1 else {
            throw ReplicationError(
                .trimmed,
                "The log \(stream.name) was trimmed up to position \(status.firstPosition - 1) while a group was being appended: it "
                    + "is not known whether the group was in it. Trim only what every replica has applied. Start again."
            )
        }
        if !hasUnknownAttempt { taken = max(taken, status.lastPosition) }
        expected = 0
        shortness = nil
    }

    /// A leader that was just elected may not have applied everything yet. One that lacks the entry for long has lost it.
    private mutating func checkShortness(_ status: StreamStatus) throws(ReplicationError) {
        guard let since = shortness, since.leader == status.leader else {
            return shortness = (since: monotonicMicroseconds(), leader: status.leader)
        }
        guard monotonicMicroseconds() - since.since >= stream.requirements.settlingTime else { return }
        throw stream.endsBefore(position, status)
    }
}

extension ReplicatedStream {
    func endsBefore(_ position: Int64, _ status: StreamStatus) -> ReplicationError {
        ReplicationError(
            .endsBefore,
            "The log \(name) at \(connection.address.hosts) ends at position \(status.lastPosition) and has lost position \(position), "
                + "which was in it. Restore the servers' disks, or begin with a new log and new stores.")
    }
}

extension ReplicatedStream {
    /// The newest message of a subject, and its batch, "" for none; nil when the stream has no message of the subject.
    ///
    /// The leader answers: a direct get may be answered by another server, which may not have the newest message yet.
    func lastMessage(of subject: String, _ token: StopToken?) throws(ReplicationError) -> (
        position: Int64, batch: String
    )? {
        var writer = JSONWriter()
        writer.object { $0.member("last_by_subj", subject) }
        let answer = try connection.call(
            "$JS.API.STREAM.MSG.GET.\(name)", writer.bytes, patience: nil, token,
            read: { answer in
                let message = answer["message"]
                return (
                    position: message?["seq"]?.int64 ?? 0, batch: Self.batch(of: message?["hdrs"]?.string ?? "")
                )
            })
        switch answer {
        case .success(let message): return message
        case .failure(let failure) where failure.code == JetStreamFailure.noMessage: return nil
        case .failure(let failure):
            // Servers that have just started may not know the stream yet.
            guard failure.code == JetStreamFailure.streamNotFound else { throw failure.error(of: connection) }
            _ = try info(patience: nil, token)
            return try lastMessage(of: subject, token)
        }
    }

    /// The id of the batch in headers that are encoded in Base64.
    static func batch(of headers: String) -> String {
        let text = String(decoding: Data(base64Encoded: headers) ?? Data(), as: UTF8.self)
        for line in text.split(whereSeparator: { $0.isNewline }) where line.hasPrefix("Nats-Batch-Id:") {
            return String(line.dropFirst("Nats-Batch-Id:".count).drop { $0 == " " })
        }
        return ""
    }
}
#endif
