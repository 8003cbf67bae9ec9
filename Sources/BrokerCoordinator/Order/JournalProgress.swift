internal import BrokerModel
internal import DequeModule

/// The job table's knowledge of the journal: which jobs are in it, and the calls that wait for that. A pure value.
struct JournalProgress {
    private var journal: (any JobJournal)?
    /// By ticket: jobs that have no sequence yet, and so are not in the journal.
    private var waiting: [Int: JournalWrite] = [:]
    /// Sequences up to this one are in the journal, or never will be.
    private var loggedThrough: Int64 = 0
    /// In the order of sequences: the calls that report that a job is accepted.
    private var acceptances = Deque<(sequence: Int64, notify: @Sendable (Int64?) -> Void)>()
    /// By ticket: jobs that the journal could not store.
    private var faults: [Int: Fault] = [:]
    /// A cancellation that takes effect as soon as the journal has it.
    struct CancellationRequest {
        let job: RunningJobs.Found
        /// Answers the asker; nil for all but one of several jobs.
        let answer: (@Sendable (Cancellation) -> Void)?
    }

    /// By ticket, in the order of their entries: the cancellations for which the job's merge waits.
    private var cancellationRequests: [Int: [CancellationRequest]] = [:]

    var isOn: Bool { journal != nil }

    /// - Parameter sequence: the newest that is in the journal.
    mutating func begin(_ journal: any JobJournal, after sequence: Int64) {
        self.journal = journal
        loggedThrough = sequence
    }

    /// Whether the journal allows the merge of the job.
    func has(_ sequence: Int64, _ ticket: Int) -> Bool {
        sequence <= loggedThrough && cancellationRequests[ticket] == nil
    }

    /// Why the job of that ticket has failed.
    func fault(at ticket: Int) -> Fault? { faults.isEmpty ? nil : faults[ticket] }

    /// The job of that entry goes into the journal as soon as it has its sequence.
    mutating func willAppend(_ entry: JournalWrite) { waiting[entry.ticket] = entry }

    /// A job has its sequence.
    ///
    /// - Parameter notify: reports that it is accepted; retained until the journal has the job.
    /// - Returns: whether the job goes into the journal. If not, it is there already, or there is none.
    mutating func append(_ ticket: Int, _ sequence: Int64, _ notify: (@Sendable (Int64?) -> Void)?) -> Bool {
        guard let journal, var entry = waiting.removeValue(forKey: ticket) else { return false }
        entry.position = sequence
        if let notify { acceptances.append((sequence, notify)) }
        journal.append(entry)
        return true
    }

    /// A job that is in the journal, or on its way there, is to be cancelled.
    mutating func cancel(
        _ entry: JournalWrite, _ job: RunningJobs.Found, _ answer: (@Sendable (Cancellation) -> Void)?
    ) {
        cancellationRequests[entry.ticket, default: []].append(CancellationRequest(job: job, answer: answer))
        journal?.append(entry)
    }

    /// The first cancellation of that ticket has been decided.
    mutating func takeCancellation(at ticket: Int) -> CancellationRequest? {
        guard var known = cancellationRequests.removeValue(forKey: ticket) else { return nil }
        let first = known.removeFirst()
        if !known.isEmpty { cancellationRequests[ticket] = known }
        return first
    }

    /// The journal has stored the entries. Returns the calls that report it.
    mutating func logged(_ entries: [JournalWrite]) -> [@Sendable () -> Void] {
        for entry in entries where entry.kind == .job { loggedThrough = entry.position }
        return takeAcceptances()
    }

    /// The journal has no room for the entries: they are not reported as accepted.
    mutating func unjournaled(_ entries: [JournalWrite], _ fault: Fault) {
        for entry in entries where entry.kind == .job {
            loggedThrough = entry.position
            faults[entry.ticket] = fault
        }
        // Everything in the journal is reported already.
        while let first = acceptances.first, first.sequence <= loggedThrough { acceptances.removeFirst() }
    }

    private mutating func takeAcceptances() -> [@Sendable () -> Void] {
        var tasks: [@Sendable () -> Void] = []
        while let first = acceptances.first, first.sequence <= loggedThrough {
            acceptances.removeFirst()
            tasks.append { first.notify(first.sequence) }
        }
        return tasks
    }

    mutating func ended(_ ticket: Int) {
        if !faults.isEmpty { faults[ticket] = nil }
        // It never had a sequence.
        if !waiting.isEmpty { waiting[ticket] = nil }
    }
}

extension JournalProgress {
    /// Checks the invariants in linear time: what is reported as accepted is in the journal, in the order of sequences, and
    /// without a journal nothing waits for one.
    func checkInvariants() throws(InvariantViolation) {
        try InvariantViolation.require(
            acceptances.allSatisfy { $0.sequence > loggedThrough }, "jobs in the journal are reported as accepted")
        try InvariantViolation.require(
            zip(acceptances, acceptances.dropFirst()).allSatisfy { $0.sequence < $1.sequence },
            "acceptances are in the order of sequences")
        try InvariantViolation.require(
            cancellationRequests.values.allSatisfy { !$0.isEmpty }, "a decided cancellation is forgotten")
        try InvariantViolation.require(
            isOn || waiting.isEmpty && acceptances.isEmpty && faults.isEmpty && cancellationRequests.isEmpty,
            "without a journal nothing waits for one")
    }
}
