#if Replication
/// One group on its way into the stream: it is sent, looked up and sent again until its fate is known.
struct GroupAppend {
    private let stream: ReplicatedStream
    private let subject: String
    private let token: StopToken
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
    private var shortness: Shortness?

    /// Since when the leader lacks the session's newest entry.
    private struct Shortness {
        let since: Int64
        let leader: String?
    }

    /// Microseconds until the answer to a group of no bytes is not expected any more.
    private static let answerTime: Int64 = 4_000_000
    /// Bytes that every server stores in a microsecond at least.
    private static let slowestRate: Int64 = 2
    /// Microseconds between two attempts.
    private static let pauseTime: Int64 = 100_000
    /// As the other one, when the stream has no room.
    private static let fullPauseTime: Int64 = 1_000_000

    init(stream: ReplicatedStream, subject: String, token: StopToken, group: Group, position: Int64) {
        self.stream = stream
        self.subject = subject
        self.token = token
        self.group = group
        self.position = position
        expected = position
        taken = position
    }

    /// - Parameter report: called when the group has to wait.
    /// - Returns: the position of the last entry.
    mutating func run(report: (SessionState.Waiting) -> Void) throws(ReplicationError) -> Int64 {
        try stream.connection.checkStopped(token)
        // Nothing else fences the first group of a session from a stream that was created meanwhile.
        if position == 0 { taken = try stream.info(patience: nil, token).status.lastPosition }
        let time = Self.answerTime + Int64(group.entries.reduce(0) { $0 + $1.count }) / Self.slowestRate
        while true {
            attempts += 1
            let outcome = group.send(
                to: subject, after: expected, on: stream.connection, deadline: monotonicMicroseconds() + time, token)
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
            report(SessionState.Waiting(reason: reason, attempts: attempts, since: start))
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
        let last = try stream.lastMessage(of: subject, token)
        if let last, group.isNamed(byBatch: last.batch) { return last.position }
        let found = last?.position ?? 0
        if found == expected {
            shortness = nil
            return nil
        }
        guard found < expected else {
            throw ReplicationError(
                .sessionTaken,
                "Another program has published to \(subject), the subject of this session, at position \(found). Nothing is "
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
            shortness = Shortness(since: monotonicMicroseconds(), leader: status.leader)
            return
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
#endif
