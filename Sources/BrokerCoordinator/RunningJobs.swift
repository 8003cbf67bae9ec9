internal import DequeModule

/// The jobs in flight by id, and who awaits their ends. A pure value.
///
/// Who awaits an id is tied to the newest job of that id before the question. That job may be one of several, sent again
/// because the one before it failed or its answer was lost, so its end is told
///  - as soon as a job of the id is committed, or turns out to have been: the committed one's outcome, which no later job
///    of the id can change;
///  - else when the job itself has failed: its own failure, and not that of one before it.
struct RunningJobs {
    typealias Waiter = @Sendable (ToldOutcome) -> Void

    /// One who awaits, to be named when it need not wait any longer.
    struct Wait {
        fileprivate let id: JobID
        fileprivate let place: Int
        fileprivate let number: Int
    }

    private struct Running {
        let place: Int
        /// By number, which rises.
        var waiters: [Int: Waiter] = [:]

        var waitersInOrder: [Waiter] { waiters.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// Of each id, in the order of places, which is that of their ends.
    private var jobs: [JobID: Deque<Running>] = [:]
    private var nextNumber = 0

    var isEmpty: Bool { jobs.isEmpty }

    mutating func began(_ id: JobID, _ place: Int) {
        // Frames are opened out of order, though rarely by much.
        let position = (jobs[id]?.lastIndex { $0.place < place } ?? -1) + 1
        jobs[id, default: []].insert(Running(place: place), at: position)
    }

    /// The first job of an id has ended. Gives back who is to be told: of that end, or of the committed job's.
    ///
    /// - Parameter isCommitted: a job of that id is committed: this one, or one before it.
    mutating func ended(_ id: JobID, isCommitted: Bool) -> [Waiter] {
        guard let ended = jobs[id]?.popFirst() else { return [] }
        var told = ended.waitersInOrder
        if jobs[id]?.isEmpty == true { jobs[id] = nil }
        guard isCommitted, let others = jobs[id] else { return told }
        for position in others.indices where !others[position].waiters.isEmpty {
            told += others[position].waitersInOrder
            jobs[id]?[position].waiters = [:]
        }
        return told
    }

    /// Nil when no job of that id is in flight.
    ///
    /// - Parameter place: of the question; nil asks for the newest job there is.
    mutating func await(_ id: JobID, before place: Int?, _ waiter: @escaping Waiter) -> Wait? {
        guard let known = jobs[id],
            let position = known.lastIndex(where: { job in place.map { job.place < $0 } ?? true })
        else { return nil }
        nextNumber += 1
        jobs[id]?[position].waiters[nextNumber] = waiter
        return Wait(id: id, place: known[position].place, number: nextNumber)
    }

    /// Forgets who awaits; false when it has been told already.
    mutating func forget(_ wait: Wait) -> Bool {
        guard let position = jobs[wait.id]?.firstIndex(where: { $0.place == wait.place }) else { return false }
        return jobs[wait.id]?[position].waiters.removeValue(forKey: wait.number) != nil
    }
}
