internal import Broker
internal import Synchronization

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

    /// The first connection.
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
