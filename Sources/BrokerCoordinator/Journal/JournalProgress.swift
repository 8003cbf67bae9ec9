internal import BrokerModel
internal import DequeModule

/// What the flight knows of its log: which jobs are in it, and who waits for that. A pure value.
struct JournalProgress {
    private var log: (any JobJournal)?
    /// By place: jobs that have no sequence yet, and so no place in the log.
    private var waiting: [Int: JournalWrite] = [:]
    /// Sequences up to this one are in the log, or never will be.
    private var loggedThrough: Int64 = 0
    /// In the order of sequences: who is told that a job is accepted.
    private var acceptances = Deque<(sequence: Int64, tell: @Sendable (Int64?) -> Void)>()
    /// By place: jobs that the log could not take.
    private var faults: [Int: Fault] = [:]
    /// A job that is to be taken back as soon as the log knows.
    struct CancellationRequest {
        let job: RunningJobs.Found
        /// Tells who asked for it; nil of one of several jobs.
        let answer: (@Sendable (Cancellation) -> Void)?
    }

    /// By place, in the order in which they are logged: what holds a job back from its merge.
    private var cancellationRequests: [Int: [CancellationRequest]] = [:]

    var isOn: Bool { log != nil }

    /// - Parameter sequence: the newest that is in the log.
    mutating func begin(_ log: any JobJournal, after sequence: Int64) {
        self.log = log
        loggedThrough = sequence
    }

    /// The job may be merged, as far as the log is concerned.
    func has(_ sequence: Int64, _ place: Int) -> Bool {
        sequence <= loggedThrough && cancellationRequests[place] == nil
    }

    /// Why the job at that place is none.
    func fault(at place: Int) -> Fault? { faults.isEmpty ? nil : faults[place] }

    /// The job of that entry goes into the log as soon as it has its sequence.
    mutating func willLog(_ entry: JournalWrite) { waiting[entry.place] = entry }

    /// A job has its sequence.
    ///
    /// - Parameter tell: tells that it is accepted; kept until the log has the job.
    /// - Returns: whether that is so. If not, it is in the log already, or there is none.
    mutating func log(_ place: Int, _ sequence: Int64, _ tell: (@Sendable (Int64?) -> Void)?) -> Bool {
        guard let log, var entry = waiting.removeValue(forKey: place) else { return false }
        entry.position = sequence
        if let tell { acceptances.append((sequence, tell)) }
        log.append(entry)
        return true
    }

    /// A job that is in the log, or on its way there, is to be taken back.
    mutating func cancel(
        _ entry: JournalWrite, _ job: RunningJobs.Found, _ answer: (@Sendable (Cancellation) -> Void)?
    ) {
        cancellationRequests[entry.place, default: []].append(CancellationRequest(job: job, answer: answer))
        log?.append(entry)
    }

    /// The first wish about that place has been decided.
    mutating func takeWish(at place: Int) -> CancellationRequest? {
        guard var known = cancellationRequests.removeValue(forKey: place) else { return nil }
        let first = known.removeFirst()
        if !known.isEmpty { cancellationRequests[place] = known }
        return first
    }

    /// The log has taken the entries. Gives back who is to be told.
    mutating func logged(_ entries: [JournalWrite]) -> [@Sendable () -> Void] {
        for entry in entries where entry.kind == .job { loggedThrough = entry.position }
        return takeAcceptances()
    }

    /// The log has no room for the entries: nobody is told that they are accepted.
    mutating func unjournaled(_ entries: [JournalWrite], _ fault: Fault) {
        for entry in entries where entry.kind == .job {
            loggedThrough = entry.position
            faults[entry.place] = fault
        }
        // All that is in the log is told already.
        while let first = acceptances.first, first.sequence <= loggedThrough { acceptances.removeFirst() }
    }

    private mutating func takeAcceptances() -> [@Sendable () -> Void] {
        var tasks: [@Sendable () -> Void] = []
        while let first = acceptances.first, first.sequence <= loggedThrough {
            acceptances.removeFirst()
            tasks.append { first.tell(first.sequence) }
        }
        return tasks
    }

    mutating func ended(_ place: Int) {
        if !faults.isEmpty { faults[place] = nil }
        // It never had a sequence.
        if !waiting.isEmpty { waiting[place] = nil }
    }
}
