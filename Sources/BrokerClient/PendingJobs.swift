internal import Broker
internal import DequeModule
internal import Synchronization

/// The jobs that are not answered yet, in the order in which they were added: a window of them is in flight, the rest
/// waits for room. A pure value; `Waiter` is whatever wants the answer.
///
/// ```
/// add ──▶ waiting ──admit──▶ in flight ──remove──▶ gone
///            │                 └─ all of them are sent again, in order, on a new connection
///            └─ withdraw ──▶ gone ◀── withdraw, unless it was sent
/// ```
///
/// Invariants:
/// 1. Jobs enter the window in the order in which they were added.
/// 2. The window holds at most `maximumCount` jobs and `maximumBytes` of frames, or one job that is larger than that.
/// 3. An id is unanswered at most once.
struct PendingJobs<Waiter: Sendable>: Sendable {
    /// Names one job that was added, as its id alone does not: an id is free again once it is answered.
    struct Place: Sendable, Equatable {
        let id: JobID
        fileprivate let ordinal: Int
    }

    struct Job: Sendable {
        let place: Place
        /// The whole frame, stored until the answer arrives so that it can be sent again unchanged.
        let frame: [UInt8]
        let waiter: Waiter
        fileprivate(set) var isInFlight: Bool
        /// The number of its frame on the newest connection that it was written to; nil when it was written to none.
        fileprivate(set) var sentAs: Int?
        /// Its task was cancelled, and the server was asked to cancel it.
        fileprivate(set) var isCancelled = false

        var id: JobID { place.id }
        var wasSent: Bool { sentAs != nil }
    }

    let maximumCount: Int
    let maximumBytes: Int
    private var jobs: [JobID: Job] = [:]
    /// Some of them may have been withdrawn since.
    private(set) var waiting: Deque<Place> = []
    private(set) var inFlightCount = 0
    private var inFlightBytes = 0
    private var nextOrdinal = 0

    init(maximumCount: Int, maximumBytes: Int) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    var count: Int { jobs.count }
    var isEmpty: Bool { jobs.isEmpty }

    func contains(_ id: JobID) -> Bool { jobs.index(forKey: id) != nil }

    /// Those of all jobs, in no order.
    var waiters: [Waiter] { jobs.values.map(\.waiter) }

    /// Nil when a job of that id is unanswered; then nothing changes. ``admit(sentAs:)`` returns the jobs that may be sent.
    ///
    /// - Parameter frameNumber: with which it is written at once, if no other waits and there is room in the window; nil
    ///   without a connection.
    /// - Returns: also whether it is in the window.
    mutating func add(
        id: JobID, frame: [UInt8], waiter: Waiter, sentAs frameNumber: Int?
    ) -> (place: Place, hasEntered: Bool)? {
        guard jobs.index(forKey: id) == nil else { return nil }
        let place = Place(id: id, ordinal: nextOrdinal)
        nextOrdinal += 1
        let enters = waiting.isEmpty && hasRoom(for: frame)
        jobs[id] = Job(
            place: place, frame: frame, waiter: waiter, isInFlight: enters, sentAs: enters ? frameNumber : nil)
        if enters { entered(frame) } else { waiting.append(place) }
        return (place, enters)
    }

    private func hasRoom(for frame: [UInt8]) -> Bool {
        inFlightCount == 0 || (inFlightCount < maximumCount && inFlightBytes + frame.count <= maximumBytes)
    }

    private mutating func entered(_ frame: [UInt8]) {
        inFlightCount += 1
        inFlightBytes += frame.count
    }

    /// Takes the next job into the window; nil when none waits or there is no room.
    ///
    /// - Parameter frameNumber: with which it is written at once; nil without a connection.
    mutating func admit(sentAs frameNumber: Int?) -> Job? {
        while let place = waiting.first {
            guard let index = jobs.index(forKey: place.id), jobs.values[index].place == place else {
                waiting.removeFirst()
                continue
            }
            let job = jobs.values[index]
            guard hasRoom(for: job.frame) else { return nil }
            waiting.removeFirst()
            entered(job.frame)
            jobs.values[index].isInFlight = true
            jobs.values[index].sentAs = frameNumber
            return job
        }
        return nil
    }

    func inFlight(_ id: JobID) -> Job? { jobs[id].flatMap { $0.isInFlight ? $0 : nil } }

    /// Takes an answered job out of the window; nil when none of that id is in flight.
    mutating func remove(_ id: JobID) -> Waiter? {
        guard let index = jobs.index(forKey: id), jobs.values[index].isInFlight else { return nil }
        let job = jobs.remove(at: index).value
        inFlightCount -= 1
        inFlightBytes -= job.frame.count
        return job.waiter
    }

    /// The job of that place; nil when it was answered or withdrawn.
    subscript(place: Place) -> Job? { jobs[place.id].flatMap { $0.place == place ? $0 : nil } }

    /// Takes out a job that still waits for room; nil when it does not: then it is in flight, or was answered.
    ///
    /// - Parameter fromWindow: also one that is in flight and was not sent yet.
    mutating func withdraw(_ place: Place, fromWindow: Bool = false) -> Waiter? {
        guard let job = self[place], !job.wasSent, fromWindow || !job.isInFlight else { return nil }
        if job.isInFlight { return remove(place.id) }
        jobs[place.id] = nil
        // `admit` ignores cancelled jobs; they must not pile up while nothing is admitted.
        let waitingCount = jobs.count - inFlightCount
        if waiting.count > 2 * waitingCount + 16 {
            waiting.removeAll { place in jobs[place.id]?.place != place }
        }
        return job.waiter
    }

    /// The server is asked to take that job back.
    mutating func noteCancelled(_ place: Place) {
        guard self[place] != nil else { return }
        jobs[place.id]?.isCancelled = true
    }

    /// Removes the jobs that the server was asked to cancel, in order.
    mutating func removeCancelled() -> [(id: JobID, waiter: Waiter)] {
        let cancelled = allInFlight.filter(\.isCancelled)
        for job in cancelled { _ = remove(job.id) }
        return cancelled.map { ($0.id, $0.waiter) }
    }

    /// How many were written to a connection before and are still unanswered.
    var resendCount: Int { jobs.values.lazy.filter(\.wasSent).count }

    /// The frames of what is in flight, in order, to be written now: after that many others.
    mutating func sendAll(after frameCount: Int) -> [[UInt8]] {
        let sent = allInFlight
        for (index, job) in sent.enumerated() { jobs[job.id]?.sentAs = frameCount + index + 1 }
        return sent.map(\.frame)
    }

    /// The job in flight whose frame has that number on the connection in force.
    func job(sentAs frameNumber: Int) -> JobID? { jobs.values.first { $0.isInFlight && $0.sentAs == frameNumber }?.id }

    /// The jobs that must be sent again on a new connection, in order.
    var allInFlight: [Job] { jobs.values.filter(\.isInFlight).sorted { $0.place.ordinal < $1.place.ordinal } }

    /// Empties everything; the jobs in order.
    mutating func removeAll() -> [Job] {
        let all = jobs.values.sorted { $0.place.ordinal < $1.place.ordinal }
        jobs = [:]
        waiting = []
        inFlightCount = 0
        inFlightBytes = 0
        return all
    }
}

/// The unanswered requests that are no jobs (`ping`, `stats`, `jobs`, `model`, `await`, `fetch`, `bookmark`, `cancel`, `admin`), by the number that
/// is their `tag`.
struct PendingRequests<Waiter: Sendable>: Sendable {
    private struct Request: Sendable {
        let frame: [UInt8]
        let waiter: Waiter
        let isSentOnce: Bool
        /// As of a job.
        var sentAs: Int?
    }

    private var requests: [Int: Request] = [:]

    var count: Int { requests.count }
    var isEmpty: Bool { requests.isEmpty }

    /// - Parameters:
    ///   - isSentOnce: it changes something, and must not be sent again.
    ///   - frameNumber: with which it is written at once; nil without a connection.
    mutating func add(_ number: Int, frame: [UInt8], waiter: Waiter, isSentOnce: Bool, sentAs frameNumber: Int?) {
        requests[number] = Request(frame: frame, waiter: waiter, isSentOnce: isSentOnce, sentAs: frameNumber)
    }

    mutating func remove(_ number: Int) -> Waiter? { requests.removeValue(forKey: number)?.waiter }

    /// The unanswered request that an answer with this `tag` is for; nil when it is none of ours.
    func number(tag: [UInt8]?) -> Int? {
        guard let tag, let number = Int(String(decoding: tag, as: UTF8.self)) else { return nil }
        return requests[number] == nil ? nil : number
    }

    /// The frames of all, in order, to be written now: after that many others. What was sent before asks and changes nothing, so
    /// that is safe.
    mutating func sendAll(after frameCount: Int) -> [[UInt8]] {
        let sent = requests.sorted { $0.key < $1.key }
        for (index, request) in sent.enumerated() { requests[request.key]?.sentAs = frameCount + index + 1 }
        return sent.map(\.value.frame)
    }

    /// The unanswered request whose frame has that number on the connection in force.
    func number(sentAs frameNumber: Int) -> Int? { requests.first { $0.value.sentAs == frameNumber }?.key }

    /// Takes out what was sent and must not be sent again, in order.
    mutating func removeSentOnce() -> [Waiter] {
        let gone = requests.filter { $0.value.isSentOnce && $0.value.sentAs != nil }.sorted { $0.key < $1.key }
        for (number, _) in gone { requests[number] = nil }
        return gone.map(\.value.waiter)
    }

    mutating func removeAll() -> [Waiter] {
        defer { requests = [:] }
        return requests.sorted { $0.key < $1.key }.map(\.value.waiter)
    }
}

/// The jobs of a client by their connections: a large frame takes long to send, so jobs with one have a second connection, and the
/// frames of the other jobs do not wait for it.
///
/// Invariants:
/// 1. A job stays on the connection that it was added to: it is sent again, and cancelled, there.
/// 2. An id that a caller chose is unanswered on one connection only.
/// 3. Nothing is added to a second connection after the begin of a shutdown, or after the client is closed.
final class LargeJobs: Sendable {
    /// Bytes of the largest frame that goes over the first connection. A megabyte takes a Unix socket less than a millisecond.
    static let longestSmallFrame = 1 << 20

    private struct State: Sendable {
        /// Nil until the first large job.
        var driver: SessionDriver?
        /// No second connection may be begun.
        var hasEnded = false
    }

    private let first: SessionDriver
    private let makeDriver: @Sendable () -> SessionDriver
    private let state = Mutex(State())

    /// - Parameter makeDriver: makes the second connection, which connects when it is needed.
    init(besides first: SessionDriver, makeDriver: @escaping @Sendable () -> SessionDriver) {
        self.first = first
        self.makeDriver = makeDriver
    }

    /// The second connection; nil when there was no large job.
    var driver: SessionDriver? { state.withLock { $0.driver } }

    /// Adds a job to the connection that fits its frame.
    ///
    /// - Parameter isChosen: the caller chose the id; others are all different.
    /// - Throws: ``BrokerError/Code/idInUse`` or ``BrokerError/Code/closed``.
    func add(
        id: JobID, isChosen: Bool, frame: [UInt8], waiter: JobWaiter
    ) throws(BrokerError) -> SentJob {
        let isLarge = frame.count > Self.longestSmallFrame
        guard isLarge || isChosen else { return try add(id, frame, waiter, to: first) }
        // Held while the job is added, so that two jobs of one id cannot be added at once, one to each connection.
        return try state.withLock { state throws(BrokerError) in
            let other = isLarge ? first : state.driver
            if other?.hasJob(id) == true { throw .idInUse(id) }
            guard isLarge else { return try add(id, frame, waiter, to: first) }
            guard !state.hasEnded else { throw .closed }
            let driver = state.driver ?? makeDriver()
            state.driver = driver
            return try add(id, frame, waiter, to: driver)
        }
    }

    private func add(
        _ id: JobID, _ frame: [UInt8], _ waiter: JobWaiter, to driver: SessionDriver
    ) throws(BrokerError) -> SentJob {
        SentJob(driver: driver, place: try driver.add(id: id, frame: frame, waiter: waiter))
    }

    /// The connection that has the unanswered job of that id; the first one when none has. A question about a job follows it on its
    /// connection, so that the server has read the job before.
    func driver(of id: JobID) -> SessionDriver {
        guard let driver, driver.hasJob(id) else { return first }
        return driver
    }

    /// Returns when the large jobs that are unanswered now have ended, or when the task is cancelled.
    func waitForUnanswered() async throws {
        guard let driver else { return }
        for waiter in driver.unansweredWaiters {
            _ = try? await waiter.completion.value()
            try Task.checkCancellation()
        }
    }

    /// Begins no second connection from now on.
    ///
    /// - Returns: the one that there is.
    func end() -> SessionDriver? {
        state.withLock { state in
            state.hasEnded = true
            return state.driver
        }
    }
}
