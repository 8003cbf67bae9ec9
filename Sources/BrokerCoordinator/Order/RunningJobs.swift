internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
internal import BrokerStore
internal import DequeModule

/// The jobs in flight by id, and the callers that await their ends. A pure value.
///
/// A caller that awaits an id is tied to the newest job of that id before the question that the caller may see. That job may
/// be one of several, sent again because the one before it failed or its answer was lost. So the caller gets
///  - the outcome of the committed job of the id, as soon as one is committed or turns out to have been: no later job of
///    the id can change it;
///  - else the failure of the job itself, and not that of a job before it.
struct RunningJobs {
    struct Waiter: Sendable {
        let asker: JobOwner
        let notify: @Sendable (JobCompletion) -> Void
    }

    /// Names a waiter, to remove it with ``forget(_:)``.
    struct Wait {
        fileprivate let id: JobID
        fileprivate let ticket: Int
        fileprivate let number: Int
    }

    struct Running {
        let job: AcceptedJob
        /// Waiters by a number that rises.
        var waiters: [Int: Waiter] = [:]
        /// The end of a cancelled job, which is known before its turn.
        var end: JobCompletion?

        var waitersInOrder: [Waiter] { waiters.isEmpty ? [] : waiters.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// By id, the jobs by rising tickets, in which order they end.
    private(set) var jobs: [JobID: ShortList<Running>] = [:]
    private var nextNumber = 0

    mutating func began(_ job: AcceptedJob) {
        let (id, job) = (job.key, Running(job: job))
        guard var known = jobs.removeValue(forKey: id) else { return jobs[id] = ShortList(job) }
        known.append(job)
        // Frames are opened out of order, though rarely by much.
        var position = known.count - 1
        while position > 0, known[position - 1].job.ticket > job.job.ticket {
            known.swapAt(position - 1, position)
            position -= 1
        }
        jobs[id] = known
    }

    /// The first job of an id has ended. Returns the waiters to call with that end, or with the committed job's.
    ///
    /// - Parameter isCommitted: a job of that id is committed: this one, or one before it.
    mutating func ended(_ id: JobID, isCommitted: Bool, owner committed: JobOwner?) -> [Waiter] {
        guard var others = jobs.removeValue(forKey: id) else { return [] }
        var called = others.remove(at: 0).waitersInOrder
        guard !others.isEmpty else { return called }
        for position in others.indices where isCommitted && !others[position].waiters.isEmpty {
            called += others[position].waitersInOrder.filter { $0.asker.maySee(jobOf: committed) }
            others[position].waiters = others[position].waiters.filter { !$0.value.asker.maySee(jobOf: committed) }
        }
        jobs[id] = others
        return called
    }

    /// Registers a waiter for the newest job before the question's ticket; nil when no job of that id is in flight that the asker
    /// may see.
    mutating func await(_ id: JobID, before ticket: Int?, _ waiter: Waiter) -> Wait? {
        let position = jobs[id]?.lastIndex { running in
            running.job.ticket < ticket ?? .max && waiter.asker.maySee(jobOf: running.job.owner)
        }
        guard let known = jobs[id], let position else { return nil }
        nextNumber += 1
        jobs[id]?[position].waiters[nextNumber] = waiter
        return Wait(id: id, ticket: known[position].job.ticket, number: nextNumber)
    }

    /// Removes a waiter; false when it has been called already.
    mutating func forget(_ wait: Wait) -> Bool {
        guard let position = jobs[wait.id]?.firstIndex(where: { $0.job.ticket == wait.ticket }) else { return false }
        return jobs[wait.id]?[position].waiters.removeValue(forKey: wait.number) != nil
    }

    /// The jobs of that id before a ticket that the asker may see, by rising tickets.
    func find(_ id: JobID, before ticket: Int?, as asker: JobOwner) -> [AcceptedJob] {
        jobs[id]?.map(\.job).filter { $0.ticket < ticket ?? .max && asker.maySee(jobOf: $0.owner) } ?? []
    }

    /// The job of that ticket is cancelled: its end is known before its turn. Returns its waiters.
    mutating func cancelled(_ id: JobID, at ticket: Int, _ end: JobCompletion) -> [Waiter] {
        guard let position = jobs[id]?.firstIndex(where: { $0.job.ticket == ticket }) else { return [] }
        defer {
            jobs[id]?[position].waiters = [:]
            jobs[id]?[position].end = end
        }
        return jobs[id]?[position].waitersInOrder ?? []
    }

    /// The end of the newest job of that id before a ticket, when every job in flight that the asker would wait for is
    /// cancelled; nil when there is none, or one of them may still be committed.
    func cancellation(of id: JobID, before ticket: Int?, as asker: JobOwner) -> JobCompletion? {
        let visible =
            jobs[id]?.filter { $0.job.ticket < ticket ?? .max && asker.maySee(jobOf: $0.job.owner) } ?? []
        guard visible.allSatisfy({ $0.end != nil }) else { return nil }
        return visible.last?.end
    }
}

extension AcceptedJob {
    /// Calls the observer, unless the job was cancelled, and the waiters for its id, with the outcome.
    func notify(_ waiters: [RunningJobs.Waiter], _ committedAt: Int64) {
        let completion = completion(committedAt)
        if skipReason != .cancelled { observer(.ended(completion)) }
        guard !waiters.isEmpty else { return }
        var shared = completion
        switch end {
        case .duplicate(let outcome), .conflict(_, let outcome):
            shared = JobCompletion(stored: outcome, id: id, isDuplicate: false, timing: nil)
        case nil, .completed, .failed: break
        }
        shared.objects = nil
        for waiter in waiters { waiter.notify(waiter.asker.maySee(jobOf: shared.owner) ? shared : completion) }
    }
}

/// Failures that were sent to clients but could not be written to the ledger, retained for `await` until they can. A pure
/// value.
///
/// Beyond ``maximumCount`` the oldest is forgotten, so that a store that takes no writes does not cost more and more memory.
struct UnrecordedFailures {
    /// The number of jobs in a transaction. Each failure holds the text of one error, some hundred bytes.
    static let maximumCount = 1_024

    private(set) var failures: [JobID: (job: StoreJob, outcome: JobCompletion)] = [:]

    var isEmpty: Bool { failures.isEmpty }

    var jobs: [StoreJob] { failures.values.map(\.job).sorted { $0.sequence < $1.sequence } }

    /// The jobs that the asker may see, the newest first, with their completions.
    func newest(as asker: JobOwner) -> [(job: StoreJob, outcome: JobCompletion)] {
        failures.values.filter { asker.maySee(jobOf: $0.job.owner) }.sorted { $0.job.sequence > $1.job.sequence }
    }

    func outcome(of id: JobID, as asker: JobOwner) -> JobCompletion? {
        failures[id].flatMap { asker.maySee(jobOf: $0.job.owner) ? $0.outcome : nil }
    }

    mutating func keep(_ job: StoreJob, _ outcome: JobCompletion) {
        failures[JobID(job.id)] = (job, outcome)
        guard failures.count > Self.maximumCount else { return }
        let oldest = failures.min { $0.value.job.sequence < $1.value.job.sequence }
        if let oldest { failures[oldest.key] = nil }
    }

    mutating func remove(_ jobs: [StoreJob]) {
        for job in jobs where failures[JobID(job.id)]?.job.sequence == job.sequence { failures[JobID(job.id)] = nil }
    }
}

/// The jobs in flight by ticket and source, and the callers that wait until all jobs before a ticket have ended. A pure
/// value.
///
/// Jobs begin almost in the order of their tickets, and end exactly in that order.
struct CompletionBarrier {
    typealias Waiter = @Sendable () -> Void

    private(set) var all = Line()
    private(set) var lines: [Int: Line] = [:]
    /// Waiters whose condition is met, until ``takeReady()``.
    private(set) var ready: [Waiter] = []

    mutating func began(_ ticket: Int, from source: Int, _ job: AcceptedJob? = nil) {
        all.began(ticket, job)
        lines[source, default: Line()].began(ticket, nil)
    }

    mutating func ended(_ ticket: Int, from source: Int) {
        all.ended(ticket, &ready)
        guard let line = lines.index(forKey: source) else { return }
        lines.values[line].ended(ticket, &ready)
        if lines.values[line].isEmpty { lines.remove(at: line) }
    }

    /// Registers a waiter for the end of every job before the ticket; all of them must have begun. False when there is nothing to
    /// wait for; the waiter is then not registered.
    mutating func wait(before ticket: Int, _ waiter: @escaping Waiter) -> Bool { all.wait(before: ticket, waiter) }

    mutating func wait(before ticket: Int, from source: Int, _ waiter: @escaping Waiter) -> Bool {
        lines[source]?.wait(before: ticket, waiter) ?? false
    }

    /// Takes the waiters whose condition is met; the caller calls each once.
    mutating func takeReady() -> [Waiter] {
        guard !ready.isEmpty else { return [] }
        defer { ready = [] }
        return ready
    }

    struct Line {
        /// The jobs in flight, by rising tickets.
        private(set) var jobs = Deque<(ticket: Int, job: AcceptedJob?)>()
        private(set) var waiting = Deque<(ticket: Int, waiter: Waiter)>()

        var isEmpty: Bool { jobs.isEmpty }

        mutating func began(_ ticket: Int, _ job: AcceptedJob?) {
            let position = (jobs.lastIndex { $0.ticket < ticket } ?? -1) + 1
            jobs.insert((ticket, job), at: position)
        }

        mutating func ended(_ ticket: Int, _ ready: inout [Waiter]) {
            if let position = jobs.index(of: ticket, by: { $0.ticket }) { jobs.remove(at: position) }
            while let first = waiting.first, !hasJob(before: first.ticket) {
                ready.append(first.waiter)
                waiting.removeFirst()
            }
        }

        mutating func wait(before ticket: Int, _ waiter: @escaping Waiter) -> Bool {
            guard hasJob(before: ticket) else { return false }
            let position = (waiting.lastIndex { $0.ticket <= ticket } ?? -1) + 1
            waiting.insert((ticket, waiter), at: position)
            return true
        }

        func hasJob(before ticket: Int) -> Bool { jobs.first.map { $0.ticket < ticket } ?? false }
    }
}

extension CompletionBarrier {
    var count: Int { all.jobs.count }

    var oldest: AcceptedJob? { all.jobs.first?.job }

    /// The first jobs in flight that the asker may see, at most that many.
    func oldest(_ count: Int, as asker: JobOwner) -> [AcceptedJob] {
        var found: [AcceptedJob] = []
        for (_, job) in all.jobs {
            guard found.count < count else { break }
            if let job, asker.maySee(jobOf: job.owner) { found.append(job) }
        }
        return found
    }
}

/// The position up to which every job has ended, and the callers that wait for one. Any thread may call.
package final class AppliedPosition: Sendable {
    typealias Waiter = @Sendable () -> Void

    package struct Wait: Sendable {
        fileprivate let number: Int
    }

    private struct State {
        var position: Int64
        var nextNumber = 0
        var waiters: [Int: (position: Int64, notify: Waiter)] = [:]
    }

    private let state: Monitor<State>

    init(_ position: Int64) { state = Monitor(State(position: position)) }

    var position: Int64 { state.withLock { $0.position } }

    func reached(_ position: Int64) -> [Waiter] {
        state.withLock { state in
            guard position > state.position else { return [] }
            state.position = position
            guard !state.waiters.isEmpty else { return [] }
            let ready = state.waiters.filter { $0.value.position <= position }.sorted { $0.key < $1.key }
            for (number, _) in ready { state.waiters[number] = nil }
            return ready.map(\.value.notify)
        }
    }

    /// Nil when the position is reached: `notify` is not called then.
    func wait(for position: Int64, _ notify: @escaping Waiter) -> Wait? {
        state.withLock { state in
            guard position > state.position else { return nil }
            state.nextNumber += 1
            state.waiters[state.nextNumber] = (position, notify)
            return Wait(number: state.nextNumber)
        }
    }

    /// False when the waiter was called, or is about to be.
    func forget(_ wait: Wait) -> Bool { state.withLock { $0.waiters.removeValue(forKey: wait.number) != nil } }
}
