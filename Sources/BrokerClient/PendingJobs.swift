internal import DequeModule

/// The jobs that are not answered yet, in the order in which they were added: a window of them is in flight, the rest
/// waits for room. A pure value; `Waiter` is whatever wants the answer.
///
/// ```
/// add ──▶ waiting ──admit──▶ in flight ──remove──▶ gone
///                              └─ all of them are sent again, in order, on a new connection
/// ```
///
/// Invariants:
/// 1. Jobs enter the window in the order in which they were added.
/// 2. The window holds at most `maximumCount` jobs and `maximumBytes` of frames, or one job that is larger than that.
/// 3. An id is unanswered at most once.
struct PendingJobs<Waiter: Sendable>: Sendable {
    struct Job: Sendable {
        let id: String
        /// The whole frame, kept until the answer so that it can be sent again as it was.
        let frame: [UInt8]
        let waiter: Waiter
        fileprivate let ordinal: Int
        fileprivate(set) var isInFlight = false
    }

    let maximumCount: Int
    let maximumBytes: Int
    private var jobs: [String: Job] = [:]
    private var waiting: Deque<String> = []
    private var inFlightCount = 0
    private var inFlightBytes = 0
    private var nextOrdinal = 0

    init(maximumCount: Int, maximumBytes: Int) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    var isEmpty: Bool { jobs.isEmpty }

    /// False when a job of that id is unanswered; then nothing changes. ``admit()`` tells what may be sent.
    mutating func add(id: String, frame: [UInt8], waiter: Waiter) -> Bool {
        guard jobs[id] == nil else { return false }
        jobs[id] = Job(id: id, frame: frame, waiter: waiter, ordinal: nextOrdinal)
        nextOrdinal += 1
        waiting.append(id)
        return true
    }

    /// Takes the next job into the window; nil when none waits or there is no room.
    mutating func admit() -> Job? {
        guard let id = waiting.first, let job = jobs[id] else { return nil }
        let fits = inFlightCount < maximumCount && inFlightBytes + job.frame.count <= maximumBytes
        guard fits || inFlightCount == 0 else { return nil }
        waiting.removeFirst()
        inFlightCount += 1
        inFlightBytes += job.frame.count
        jobs[id]?.isInFlight = true
        return job
    }

    /// The job of that id, if it is in flight.
    func inFlight(_ id: String) -> Job? { jobs[id].flatMap { $0.isInFlight ? $0 : nil } }

    /// Takes an answered job out of the window; nil when none of that id is in flight.
    mutating func remove(_ id: String) -> Waiter? {
        guard let job = inFlight(id) else { return nil }
        jobs[id] = nil
        inFlightCount -= 1
        inFlightBytes -= job.frame.count
        return job.waiter
    }

    /// What must be sent again on a new connection, in order.
    var allInFlight: [Job] { jobs.values.filter(\.isInFlight).sorted { $0.ordinal < $1.ordinal } }

    /// Empties everything; the waiters in order.
    mutating func removeAll() -> [Waiter] {
        let waiters = jobs.values.sorted { $0.ordinal < $1.ordinal }.map(\.waiter)
        jobs = [:]
        waiting = []
        inFlightCount = 0
        inFlightBytes = 0
        return waiters
    }
}
