internal import BrokerStore
internal import DequeModule

/// The jobs in flight by ticket and source, and the callers that wait until all jobs before a ticket have ended. A pure
/// value.
///
/// Jobs begin almost in the order of their tickets, and end exactly in that order.
struct CompletionBarrier {
    typealias Waiter = @Sendable () -> Void

    private var all = Line()
    /// The jobs of each source that has one in flight.
    private var lines: [Int: Line] = [:]
    /// Waiters whose condition is met, until ``takeReady()``.
    private var ready: [Waiter] = []

    /// - Parameter job: for those who look at the jobs in flight.
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

    /// Registers a waiter for the end of every job before the ticket. All of those jobs must have begun.
    ///
    /// - Returns: false when there is nothing to wait for; the waiter is then not registered.
    mutating func wait(before ticket: Int, _ waiter: @escaping Waiter) -> Bool { all.wait(before: ticket, waiter) }

    /// The same for the jobs of one source.
    mutating func wait(before ticket: Int, from source: Int, _ waiter: @escaping Waiter) -> Bool {
        lines[source]?.wait(before: ticket, waiter) ?? false
    }

    func job(at ticket: Int) -> AcceptedJob? { all.job(at: ticket) }

    /// Takes the waiters whose condition is met; the caller calls each once.
    mutating func takeReady() -> [Waiter] {
        guard !ready.isEmpty else { return [] }
        defer { ready = [] }
        return ready
    }

    private struct Line {
        /// The jobs in flight, by rising tickets.
        private(set) var jobs = Deque<(ticket: Int, job: AcceptedJob?)>()
        private var waiting = Deque<(ticket: Int, waiter: Waiter)>()

        /// No job is in flight, so no caller waits.
        var isEmpty: Bool { jobs.isEmpty }

        func job(at ticket: Int) -> AcceptedJob? { jobs.index(of: ticket) { $0.ticket }.flatMap { jobs[$0].job } }

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

        private func hasJob(before ticket: Int) -> Bool { jobs.first.map { $0.ticket < ticket } ?? false }

        var count: Int { jobs.count }

        func checkInvariants() throws(InvariantViolation) {
            try InvariantViolation.require(
                zip(jobs, jobs.dropFirst()).allSatisfy { $0.ticket < $1.ticket }, "the jobs in flight are in order")
            try InvariantViolation.require(
                waiting.allSatisfy { hasJob(before: $0.ticket) },
                "a caller waits only while a job before it is in flight")
            try InvariantViolation.require(
                zip(waiting, waiting.dropFirst()).allSatisfy { $0.ticket <= $1.ticket }, "waiters are in order")
        }
    }
}

extension CompletionBarrier {
    var count: Int { all.count }

    /// The first job in flight; nil when there is none.
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

    /// Checks the invariants in linear time: every job is in the line of all and in that of its source, a source without
    /// jobs is forgotten, and no waiter waits for nothing.
    func checkInvariants() throws(InvariantViolation) {
        try all.checkInvariants()
        for line in lines.values {
            try line.checkInvariants()
            try InvariantViolation.require(!line.isEmpty, "a source without jobs is forgotten")
        }
        try InvariantViolation.require(
            lines.values.reduce(0) { $0 + $1.count } == all.count, "each job is in the line of its source")
        try InvariantViolation.require(ready.isEmpty, "waiters whose jobs have ended are called")
    }
}

/// The position up to which every job has ended, and the callers that wait for one. Any thread may call.
package final class AppliedPosition: Sendable {
    typealias Waiter = @Sendable () -> Void

    /// Names a waiter.
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

    /// - Returns: nil when the position is reached: `notify` is not called then.
    func wait(for position: Int64, _ notify: @escaping Waiter) -> Wait? {
        state.withLock { state in
            guard position > state.position else { return nil }
            state.nextNumber += 1
            state.waiters[state.nextNumber] = (position, notify)
            return Wait(number: state.nextNumber)
        }
    }

    /// - Returns: false when the waiter was called, or is about to be.
    func forget(_ wait: Wait) -> Bool { state.withLock { $0.waiters.removeValue(forKey: wait.number) != nil } }
}
