internal import Broker
internal import BrokerJSON
internal import BrokerRequests
internal import BrokerWire
internal import NIOCore

/// The receiver of a job's events.
struct JobWaiter: Sendable {
    let completion: Answer<Completion>
    /// Wants the job's sequence once it is accepted.
    var accepted: Answer<Int64>?
    /// Wants to know that the job is in the window.
    var admitted: Answer<Void>?

    func finish(_ result: Result<Completion, any Error>) {
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
/// 3. Whatever was added is answered once: by the server, by an error, or by its own withdrawal.
/// 4. A job whose task was cancelled is not written any more, and its outcome is not guessed. See ``cancel(_:frame:)``.
/// 5. An error is given to the job that it is about, or to none: no job gets one by guess. See ``BatchBackoff``.
struct Session: Sendable {
    enum Link: Sendable, Equatable {
        case disconnected
        case connecting(connection: Int)
        case connected(connection: Int)
        case closed
    }

    /// How a session begins.
    enum Beginning: Sendable {
        /// As connecting, with the connection number 1. It is tried once; when it fails, the session is closed.
        case atOnce
        /// As disconnected: the first request, or ``connect(at:)``, begins a connection, and tries again like a lost one.
        case whenNeeded
    }

    /// The times that a session keeps.
    struct Patience: Sendable {
        /// How long to be without a connection before what is unanswered fails.
        var reconnecting: TimeAmount
        /// How long a server may take for its welcome.
        var welcome: TimeAmount
        /// How long a server may send no answer while anything is unanswered; nil for any time.
        var answer: TimeAmount?
        var firstDelay = Reconnection.firstDelay
    }

    typealias Jobs = PendingJobs<JobWaiter>
    typealias RequestWaiter = Answer<ServerEnvelope>

    /// The actions of the driver, in this order: close, connect, write, deliver.
    struct Effects: Sendable {
        /// This connection is of no more use.
        var close: Int?
        var connect: Connect?
        /// Frames in order, for the connection in force.
        var write: [[UInt8]] = []
        var deliveries: [Delivery] = []
        /// For the operator.
        var notes: [Note] = []
    }

    /// Something that happened to a connection.
    enum Note: Sendable, Equatable {
        case connecting
        /// - Parameter resent: jobs that were sent before on another connection, and are sent again.
        case connected(resent: Int)
        /// It will be tried again when the connection is needed.
        case lost(reason: String)
        /// Everything unanswered has failed.
        case gaveUp(BrokerError, jobs: Int)
        case closed
    }

    struct Connect: Sendable, Equatable {
        let connection: Int
        let delay: TimeAmount
        /// When there must be a welcome.
        let deadline: NIODeadline
    }

    enum Delivery: Sendable {
        case welcomed(Result<ServerInformation, BrokerError>)
        case accepted(JobWaiter, sequence: Int64)
        case admitted(JobWaiter)
        case finished(JobWaiter, Result<Completion, BrokerError>)
        /// The job's task was cancelled, and the job was not sent, or was cancelled.
        case withdrawn(JobWaiter)
        case answered(RequestWaiter, Result<ServerEnvelope, BrokerError>)
    }

    let path: String
    let patience: Patience
    var link: Link
    var jobs: Jobs
    var requests = PendingRequests<RequestWaiter>()
    /// Until then the first connection is tried once, and the client does not exist for its caller.
    var wasWelcomed = false
    /// Set while a lost connection is to be had again, and until the new one has answered something.
    var reconnection: Reconnection?
    /// Set while it is to be found out whose an error is.
    var caution: BatchBackoff?
    /// When the newest answer came, or, if none has come since, when the oldest unanswered message was added. Only
    /// meaningful while anything is unanswered, and with a limit for answers.
    var waitingSince = NIODeadline.uptimeNanoseconds(0)
    /// Nothing more is taken; what is unanswered is finished.
    private(set) var isDraining = false
    private var lastConnection = 1

    init(path: String, window: Jobs, patience: Patience, beginning: Beginning = .atOnce) {
        self.path = path
        self.patience = patience
        jobs = window
        switch beginning {
        case .atOnce: link = .connecting(connection: 1)
        case .whenNeeded:
            link = .disconnected
            wasWelcomed = true
        }
    }

    // MARK: - What the caller does

    mutating func add(
        id: JobID, frame: [UInt8], waiter: JobWaiter, at now: @autoclosure () -> NIODeadline
    ) throws(BrokerError) -> (place: Jobs.Place, effects: Effects) {
        guard link != .closed, !isDraining else { throw .closed }
        if patience.answer != nil, isIdle { waitingSince = now() }
        let added = jobs.add(
            id: id, frame: frame, waiter: waiter, entersAtOnce: caution == nil, isSent: isConnected)
        guard let added else { throw .idInUse(id) }
        var effects = Effects()
        if added.hasEntered { send(frame, of: waiter, into: &effects) } else { admit(into: &effects) }
        connectIfNeeded(at: now(), into: &effects)
        return (added.place, effects)
    }

    /// - Parameter isSentOnce: it changes something: when its connection is lost, it fails and is not sent again.
    mutating func add(
        request number: Int, frame: [UInt8], waiter: RequestWaiter, isSentOnce: Bool = false, at now: NIODeadline
    ) throws(BrokerError) -> Effects {
        guard link != .closed, !isDraining else { throw .closed }
        if isIdle { waitingSince = now }
        let isSent = isConnected && caution == nil
        requests.add(number, frame: frame, waiter: waiter, isSentOnce: isSentOnce, isSent: isSent)
        var effects = Effects()
        if isSent { effects.write = [frame] }
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    /// Connects now, before there is a request.
    mutating func connect(at now: NIODeadline) -> Effects {
        var effects = Effects()
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    /// Takes nothing more from now on.
    mutating func drain() { isDraining = true }

    mutating func close() -> Effects {
        var effects = Effects()
        guard link != .closed else { return effects }
        effects.close = currentConnection
        link = .closed
        effects.notes.append(.closed)
        failAll(.closed, into: &effects)
        return effects
    }

    // MARK: - What connections do

    /// The connection is gone, or could not be made, or is of no more use.
    mutating func lost(_ connection: Int, reason: String, at now: NIODeadline) -> Effects {
        var effects = Effects()
        lost(connection, reason: reason, at: now, into: &effects)
        return effects
    }

    mutating func lost(_ connection: Int, reason: String, at now: NIODeadline, into effects: inout Effects) {
        guard connection == currentConnection else { return }
        effects.close = connection
        effects.write = []
        guard wasWelcomed else {
            return abandon(.cannotConnect(path: path, reason: reason), into: &effects)
        }
        effects.notes.append(.lost(reason: reason))
        giveUpWhatIsSentOnce(reason: reason, into: &effects)
        guard !isIdle else { return disconnect() }
        var reconnection =
            self.reconnection ?? Reconnection(patience: patience.reconnecting, firstDelay: patience.firstDelay)
        guard let delay = reconnection.delay(at: now) else {
            return abandon(.connectionLost(reason), into: &effects)
        }
        caution?.asked = nil
        connect(reconnection, after: delay, at: now, into: &effects)
    }

    /// The connection was to be made by now. One that is in force since then is left alone.
    mutating func deadlinePassed(_ connection: Int, at now: NIODeadline) -> Effects {
        guard link == .connecting(connection: connection) else { return Effects() }
        return lost(connection, reason: "the server did not answer the greeting in time", at: now)
    }

    /// Gives up the connection and the unanswered requests: another connection would end in the same way.
    mutating func abandon(_ error: BrokerError, into effects: inout Effects) {
        effects.close = currentConnection
        effects.notes.append(.gaveUp(error, jobs: jobs.count))
        if wasWelcomed {
            disconnect()
        } else {
            link = .closed
            effects.deliveries.append(.welcomed(.failure(error)))
        }
        failAll(error, into: &effects)
    }

    // MARK: - Parts

    /// Nothing is unanswered.
    var isIdle: Bool { jobs.isEmpty && requests.isEmpty }

    var isConnected: Bool { if case .connected = link { true } else { false } }

    var currentConnection: Int? {
        switch link {
        case .connecting(let connection), .connected(let connection): connection
        case .disconnected, .closed: nil
        }
    }

    /// Takes what fits into the window, and writes it if there is a connection; else the next one begins with it.
    mutating func admit(into effects: inout Effects) {
        guard caution == nil else { return }
        while let job = jobs.admit(isSent: isConnected) { send(job.frame, of: job.waiter, into: &effects) }
    }

    /// Writes the frame of a job that is in the window now.
    private func send(_ frame: [UInt8], of waiter: JobWaiter, into effects: inout Effects) {
        if isConnected { effects.write.append(frame) }
        if waiter.admitted != nil { effects.deliveries.append(.admitted(waiter)) }
    }

    private mutating func disconnect() {
        link = .disconnected
        reconnection = nil
        caution = nil
    }

    private mutating func connectIfNeeded(at now: @autoclosure () -> NIODeadline, into effects: inout Effects) {
        guard link == .disconnected else { return }
        let now = now()
        connect(
            Reconnection(patience: patience.reconnecting, firstDelay: patience.firstDelay), after: .zero, at: now,
            into: &effects)
    }

    private mutating func connect(
        _ reconnection: Reconnection, after delay: TimeAmount, at now: NIODeadline, into effects: inout Effects
    ) {
        var reconnection = reconnection
        let deadline = min(reconnection.deadline(at: now), now + delay + patience.welcome)
        self.reconnection = reconnection
        lastConnection += 1
        link = .connecting(connection: lastConnection)
        effects.notes.append(.connecting)
        effects.connect = Connect(connection: lastConnection, delay: delay, deadline: deadline)
    }

    private mutating func failAll(_ error: BrokerError, into effects: inout Effects) {
        for job in jobs.removeAll() {
            let error = job.wasSent ? error.doubting(job.id) : error
            effects.deliveries.append(.finished(job.waiter, .failure(error)))
        }
        for waiter in requests.removeAll() { effects.deliveries.append(.answered(waiter, .failure(error))) }
    }
}
