internal import BrokerWire
internal import NIOCore

/// Who wants to know what of a job.
struct JobWaiter: Sendable {
    let completion: Answer<CompletedMessage>
    /// Wants the job's sequence once it is accepted.
    var accepted: Answer<Int64>?
    /// Wants to know that the job is in the window.
    var admitted: Answer<Void>?

    func finish(_ result: Result<CompletedMessage, BrokerError>) {
        completion.finish(result)
        accepted?.finish(result.map(\.sequence))
        admitted?.finish(result.map { _ in })
    }
}

/// A client's conversation with a server over one connection after another: what is unanswered, and what to do when
/// something happens. A pure value: it touches no socket and no clock, and returns ``Effects`` for its driver.
///
/// ```
///                ┌──────────────── lost, nothing unanswered ───────────────┐
///                ▼                                                         │
/// (start) ▶ connecting ── welcome ──▶ connected ── lost, jobs unanswered ──┼─▶ connecting …
///                │                                                         ▼
///                └─ no time left: everything unanswered fails ─────▶ disconnected ── job or request ──▶ connecting
/// ```
///
/// Invariants:
/// 1. A job's frame is written to each connection once, in the order in which the jobs were added, until it is answered.
/// 2. Connections are numbered; what an older one says is ignored.
/// 3. Whatever was added is answered once: by the server, or by an error.
struct Session: Sendable {
    enum Link: Sendable, Equatable {
        case disconnected
        case connecting(connection: Int)
        case connected(connection: Int)
        case closed
    }

    typealias RequestWaiter = Answer<ServerEnvelope>

    /// What the driver is to do, in this order: close, connect, write, deliver.
    struct Effects: Sendable {
        /// This connection is of no more use.
        var close: Int?
        var connect: Connect?
        /// Frames in order, for the connection in force.
        var write: [[UInt8]] = []
        var deliveries: [Delivery] = []
    }

    struct Connect: Sendable, Equatable {
        let connection: Int
        let delay: TimeAmount
        let deadline: NIODeadline
    }

    enum Delivery: Sendable {
        case welcomed(Result<Welcome, BrokerError>)
        case accepted(JobWaiter, sequence: Int64)
        case admitted(JobWaiter)
        case finished(JobWaiter, Result<CompletedMessage, BrokerError>)
        case answered(RequestWaiter, Result<ServerEnvelope, BrokerError>)
    }

    let path: String
    let patience: TimeAmount
    let firstDelay: TimeAmount
    var link: Link
    var jobs: PendingJobs<JobWaiter>
    var requests = PendingRequests<RequestWaiter>()
    /// Until then the client does not exist for its caller: the first connection is tried once.
    var wasWelcomed = false
    /// Set while a lost connection is to be had again.
    var reconnection: Reconnection?
    /// What the server said before it went away, for the error.
    var lastReason: String?
    private var lastConnection = 1

    /// Starts as connecting, with the connection number 1.
    ///
    /// - Parameter patience: how long to try to connect again before what is unanswered fails.
    init(
        path: String, window: PendingJobs<JobWaiter>, patience: TimeAmount,
        firstDelay: TimeAmount = Reconnection.firstDelay
    ) {
        self.path = path
        self.patience = patience
        self.firstDelay = firstDelay
        link = .connecting(connection: 1)
        jobs = window
    }

    // MARK: - What the caller does

    mutating func add(
        id: String, frame: [UInt8], waiter: JobWaiter, at now: NIODeadline
    ) throws(BrokerError) -> Effects {
        guard link != .closed else { throw .closed }
        guard jobs.add(id: id, frame: frame, waiter: waiter) else { throw .idInUse(id) }
        var effects = Effects()
        admit(into: &effects)
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    mutating func add(
        request number: Int, frame: [UInt8], waiter: RequestWaiter, at now: NIODeadline
    ) throws(BrokerError) -> Effects {
        guard link != .closed else { throw .closed }
        requests.add(number, frame: frame, waiter: waiter)
        var effects = Effects()
        if case .connected = link { effects.write = [frame] }
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    mutating func close() -> Effects {
        var effects = Effects()
        effects.close = currentConnection
        link = .closed
        failAll(.closed, into: &effects)
        return effects
    }

    // MARK: - What connections do

    /// The connection is gone, or could not be made.
    mutating func lost(_ connection: Int, reason: String, at now: NIODeadline) -> Effects {
        guard connection == currentConnection else { return Effects() }
        let reason = lastReason ?? reason
        var effects = Effects()
        effects.close = connection
        guard wasWelcomed else {
            abandon(.cannotConnect(path: path, reason: reason), into: &effects)
            return effects
        }
        guard !jobs.isEmpty || !requests.isEmpty else {
            disconnect()
            return effects
        }
        var reconnection = self.reconnection ?? Reconnection(deadline: now + patience, firstDelay: firstDelay)
        guard let delay = reconnection.delay(at: now) else {
            abandon(.connectionLost(reason: reason), into: &effects)
            return effects
        }
        self.reconnection = reconnection
        connect(after: delay, deadline: reconnection.deadline, into: &effects)
        return effects
    }

    /// The connection was to be made by now. One that is in force since then is left alone.
    mutating func deadlinePassed(_ connection: Int, at now: NIODeadline) -> Effects {
        guard link == .connecting(connection: connection) else { return Effects() }
        return lost(connection, reason: "the server did not answer the greeting in time", at: now)
    }

    /// Gives up the connection, and what is unanswered with it: another one would come to the same.
    mutating func abandon(_ error: BrokerError, into effects: inout Effects) {
        effects.close = currentConnection
        if wasWelcomed {
            disconnect()
        } else {
            link = .closed
            effects.deliveries.append(.welcomed(.failure(error)))
        }
        failAll(error, into: &effects)
    }

    // MARK: - Parts

    var currentConnection: Int? {
        switch link {
        case .connecting(let connection), .connected(let connection): connection
        case .disconnected, .closed: nil
        }
    }

    /// Takes what fits into the window, and writes it if there is a connection; else the next one begins with it.
    mutating func admit(into effects: inout Effects) {
        while let job = jobs.admit() {
            if case .connected = link { effects.write.append(job.frame) }
            if job.waiter.admitted != nil { effects.deliveries.append(.admitted(job.waiter)) }
        }
    }

    private mutating func disconnect() {
        link = .disconnected
        reconnection = nil
        lastReason = nil
    }

    private mutating func connectIfNeeded(at now: NIODeadline, into effects: inout Effects) {
        guard link == .disconnected else { return }
        let reconnection = Reconnection(deadline: now + patience, firstDelay: firstDelay)
        self.reconnection = reconnection
        connect(after: .zero, deadline: reconnection.deadline, into: &effects)
    }

    private mutating func connect(after delay: TimeAmount, deadline: NIODeadline, into effects: inout Effects) {
        lastConnection += 1
        link = .connecting(connection: lastConnection)
        effects.connect = Connect(connection: lastConnection, delay: delay, deadline: deadline)
    }

    private mutating func failAll(_ error: BrokerError, into effects: inout Effects) {
        for waiter in jobs.removeAll() { effects.deliveries.append(.finished(waiter, .failure(error))) }
        for waiter in requests.removeAll() { effects.deliveries.append(.answered(waiter, .failure(error))) }
    }
}
