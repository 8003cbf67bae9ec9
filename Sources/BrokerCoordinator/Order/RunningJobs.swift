internal import BrokerStore
internal import DequeModule

/// The jobs in flight by id, and who awaits their ends. A pure value.
///
/// Who awaits an id is tied to the newest job of that id before the question that it may see. That job may be one of
/// several, sent again because the one before it failed or its answer was lost, so its end is told
///  - as soon as a job of the id is committed, or turns out to have been: the committed one's outcome, which no later job
///    of the id can change;
///  - else when the job itself has failed: its own failure, and not that of one before it.
struct RunningJobs {
    /// Who asked how a job ends.
    struct Waiter: Sendable {
        let asker: JobOwner
        let tell: @Sendable (JobCompletion) -> Void
    }

    /// One who awaits, to be named when it need not wait any longer.
    struct Wait {
        fileprivate let id: JobID
        fileprivate let place: Int
        fileprivate let number: Int
    }

    /// A job that may be taken back.
    struct Found {
        let place: Int
        let owner: JobOwner
        let observer: @Sendable (JobEvent) -> Void
    }

    private struct Running {
        let job: Found
        /// By number, which rises.
        var waiters: [Int: Waiter] = [:]
        /// The job's end, when it is known before its turn: it was cancelled.
        var end: JobCompletion?

        var waitersInOrder: [Waiter] { waiters.isEmpty ? [] : waiters.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// Of each id, in the order of places, which is that of their ends.
    private var jobs: [JobID: Deque<Running>] = [:]
    private var nextNumber = 0

    var isEmpty: Bool { jobs.isEmpty }

    mutating func began(
        _ id: JobID, _ place: Int, of owner: JobOwner, _ observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        let job = Running(job: Found(place: place, owner: owner, observer: observer))
        guard var others = jobs.updateValue([job], forKey: id) else { return }
        // Frames are opened out of order, though rarely by much.
        others.insert(job, at: (others.lastIndex { $0.job.place < place } ?? -1) + 1)
        jobs[id] = others
    }

    /// The first job of an id has ended. Gives back who is to be told: of that end, or of the committed job's.
    ///
    /// - Parameters:
    ///   - isCommitted: a job of that id is committed: this one, or one before it.
    ///   - committed: whose that one is.
    mutating func ended(_ id: JobID, isCommitted: Bool, owner committed: JobOwner?) -> [Waiter] {
        guard var others = jobs.removeValue(forKey: id) else { return [] }
        var told = others.removeFirst().waitersInOrder
        guard !others.isEmpty else { return told }
        for position in others.indices where isCommitted && !others[position].waiters.isEmpty {
            told += others[position].waitersInOrder.filter { $0.asker.maySee(jobOf: committed) }
            others[position].waiters = others[position].waiters.filter { !$0.value.asker.maySee(jobOf: committed) }
        }
        jobs[id] = others
        return told
    }

    /// Nil when no job of that id is in flight that the asker may see.
    ///
    /// - Parameter place: of the question; nil asks for the newest job there is.
    mutating func await(_ id: JobID, before place: Int?, _ waiter: Waiter) -> Wait? {
        let position = jobs[id]?.lastIndex { running in
            running.job.place < place ?? .max && waiter.asker.maySee(jobOf: running.job.owner)
        }
        guard let known = jobs[id], let position else { return nil }
        nextNumber += 1
        jobs[id]?[position].waiters[nextNumber] = waiter
        return Wait(id: id, place: known[position].job.place, number: nextNumber)
    }

    /// Forgets who awaits; false when it has been told already.
    mutating func forget(_ wait: Wait) -> Bool {
        guard let position = jobs[wait.id]?.firstIndex(where: { $0.job.place == wait.place }) else { return false }
        return jobs[wait.id]?[position].waiters.removeValue(forKey: wait.number) != nil
    }

    /// The jobs of that id before a place that the asker may see, in the order of their places.
    func find(_ id: JobID, before place: Int?, as asker: JobOwner) -> [Found] {
        (jobs[id] ?? []).map(\.job).filter { $0.place < place ?? .max && asker.maySee(jobOf: $0.owner) }
    }

    /// The end of the job at that place is known before its turn. Gives back the waiters for it.
    mutating func cancelled(_ id: JobID, at place: Int, _ end: JobCompletion) -> [Waiter] {
        guard let position = jobs[id]?.firstIndex(where: { $0.job.place == place }) else { return [] }
        defer {
            jobs[id]?[position].waiters = [:]
            jobs[id]?[position].end = end
        }
        return jobs[id]?[position].waitersInOrder ?? []
    }

    /// The end of the newest job of that id before a place, when every job in flight that the asker would wait for was
    /// cancelled; nil when there is none, or one of them may still be committed.
    func cancellation(of id: JobID, before place: Int?, as asker: JobOwner) -> JobCompletion? {
        let visible = (jobs[id] ?? []).filter {
            $0.job.place < place ?? .max && asker.maySee(jobOf: $0.job.owner)
        }
        guard visible.allSatisfy({ $0.end != nil }) else { return nil }
        return visible.last?.end
    }
}
