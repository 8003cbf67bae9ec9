/// The sent jobs and their answers: a pure value, so that no job is counted twice or forgotten.
///
/// Times are nanoseconds of one clock. Each job ends once; a second end is counted in ``Totals/repeatedAnswers``, and a
/// job without an end is ``lost``.
package struct JobAccounts: Sendable {
    package struct Totals: Sendable, Equatable {
        package var sent = 0
        /// Committed, including those with rejected records.
        package var ok = 0
        /// Committed, but some of their records were rejected.
        package var withRejects = 0
        package var failed = 0
        /// The failed jobs for which there was no room.
        package var busy = 0
        /// Committed, but by another sending of theirs.
        package var duplicate = 0
        /// Answers to jobs that had ended.
        package var repeatedAnswers = 0
        /// Answers to nothing that was asked.
        package var strangeAnswers = 0
    }

    /// The content of an answer about a job.
    package struct JobEnd: Sendable, Equatable {
        package let job: Int
        package let intendedAt: UInt64
    }

    private enum State: UInt8 { case inFlight, ended }

    private var intended: [UInt64] = []
    private var states: [State] = []
    private var records: [Int32] = []
    private var inFlight = 0
    package private(set) var totals = Totals()
    /// Failures by their code, with the first message.
    package private(set) var failures: [String: (count: Int, message: String)] = [:]
    package private(set) var objects = ObjectCounts()

    package init() {}

    /// Jobs without an end.
    package var lost: Int { inFlight }
    package var sent: Int { totals.sent }

    /// Notes a job as sent and gives its number: 0, 1, 2 …
    ///
    /// - Parameter intendedAt: when it ought to have been sent; its latency begins then.
    package mutating func send(intendedAt: UInt64, records: Int) -> Int {
        intended.append(intendedAt)
        states.append(.inFlight)
        self.records.append(Int32(clamping: records))
        inFlight += 1
        totals.sent += 1
        return totals.sent - 1
    }

    package func records(of job: Int) -> Int { Int(records[job]) }

    /// When an `accepted` answers a job in flight; nil when it does not.
    package func accepted(_ job: Int?) -> UInt64? {
        guard let job, intended.indices.contains(job), states[job] == .inFlight else { return nil }
        return intended[job]
    }

    /// Notes an end.
    ///
    /// - Returns: nil when it ends nothing.
    package mutating func end(_ job: Int?, _ answer: Answer) -> JobEnd? {
        guard let job, intended.indices.contains(job) else {
            totals.strangeAnswers += 1
            return nil
        }
        guard states[job] == .inFlight else {
            totals.repeatedAnswers += 1
            return nil
        }
        states[job] = .ended
        inFlight -= 1
        if case .failed(let code, let message) = answer.kind {
            totals.failed += 1
            if code == "busy" { totals.busy += 1 }
            failures[code, default: (0, message)].count += 1
        } else {
            totals.ok += 1
            if answer.isDuplicate { totals.duplicate += 1 }
            if answer.objects.rejected > 0 { totals.withRejects += 1 }
            objects.add(answer.objects)
        }
        return JobEnd(job: job, intendedAt: intended[job])
    }
}
