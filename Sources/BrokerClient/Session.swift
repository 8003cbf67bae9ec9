internal import Broker
internal import BrokerWire
internal import NIOCore

/// The receiver of a job's events.
struct JobWaiter: Sendable {
    let completion: Answer<Completion>
    /// Wants the job's sequence once it is accepted.
    var accepted: Answer<Int64>?
    /// Wants to know that the job is in the window.
    var admitted: Answer<Void>?
    /// Called with the job's end.
    var ended: CallObservation.End?

    /// The job was cancelled because its task was: it has no effect. A submission that was accepted at that moment has returned, and
    /// its completion is the cancellation.
    func withdraw() {
        guard accepted?.isFinished == true else { return finish(.failure(CancellationError())) }
        finish(.failure(BrokerError.jobCancelled))
    }

    func finish(_ result: Result<Completion, any Error>) {
        ended?(result)
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
/// 5. An error fails the job or the request whose frame it names, or none: never one by guess.
/// 6. While the client runs, the session connects again by itself after each loss. See ``stayConnected(at:)``.
struct Session: Sendable {
    enum Link: Sendable, Equatable {
        case disconnected
        case connecting(connection: Int)
        case connected(connection: Int)
        case closed
    }

    /// How a session begins.
    enum Beginning: Sendable {
        /// As connecting, with the connection number 1. When no attempt succeeds in ``Patience/first``, the session is closed.
        case atOnce
        /// As disconnected: the first request, or ``stayConnected(at:)``, begins a connection, and tries again like a lost one.
        case whenNeeded
    }

    /// The times that a session keeps.
    struct Patience: Sendable {
        /// How long to be without a connection before what is unanswered fails.
        var reconnecting: TimeAmount
        /// How long a server may take for its welcome.
        var welcome: TimeAmount
        /// How long to try to make the first connection of a session that begins at once; zero for one attempt.
        var first = TimeAmount.zero
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
        /// There is no connection any more, or the first attempt to make one failed. Further attempts that fail are not noted.
        case lost(reason: String)
        /// There is no connection, and none is needed.
        case idle
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
    /// Until then the client does not exist for its caller.
    var wasWelcomed = false
    /// Set while a lost connection is to be had again, and until the new one has answered something.
    var reconnection: Reconnection?
    /// Frames that were written to the connection in force, the greeting among them: an error names one by its number.
    private var frameCount = 0
    /// When the newest answer came, or, if none has come since, when the oldest unanswered message was added. Only
    /// meaningful while anything is unanswered, and with a limit for answers.
    var waitingSince = NIODeadline.uptimeNanoseconds(0)
    /// Nothing more is taken; what is unanswered is finished.
    private(set) var isDraining = false
    /// A server has welcomed the client, now or before.
    private var wasReached = false
    /// A lost connection is made again though nothing is unanswered.
    private var staysConnected = false
    /// The connection was lost, and there was none since.
    var isLossNoted = false
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
        guard takesRequests else { throw .closed }
        if isIdle {
            if patience.answer != nil { waitingSince = now() }
            if reconnection != nil { beginWaiting(at: now()) }
        }
        let added = jobs.add(
            id: id, frame: frame, waiter: waiter, sentAs: nextFrame)
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
        guard takesRequests else { throw .closed }
        if isIdle {
            waitingSince = now
            beginWaiting(at: now)
        }
        requests.add(number, frame: frame, waiter: waiter, isSentOnce: isSentOnce, sentAs: nextFrame)
        var effects = Effects()
        if isConnected { write(frame, into: &effects) }
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    /// Connects now, before there is a request, and again after each loss, until the session is drained or closed.
    mutating func stayConnected(at now: NIODeadline) -> Effects {
        var effects = Effects()
        staysConnected = true
        connectIfNeeded(at: now, into: &effects)
        return effects
    }

    mutating func drain() {
        isDraining = true
        staysConnected = false
    }

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

    /// The first attempt of a session that begins at once; nil for another.
    mutating func begin(at now: NIODeadline) -> Connect? {
        guard case .connecting(let connection) = link else { return nil }
        var first = Reconnection(patience: patience.first, firstDelay: patience.firstDelay)
        first.restart(at: now)
        reconnection = first
        return Connect(connection: connection, delay: .zero, deadline: now + patience.welcome)
    }

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
            guard var first = reconnection, let delay = first.delay(at: now) else {
                return abandon(.cannotConnect(path: path, reason: reason), at: now, into: &effects)
            }
            return connect(first, after: delay, at: now, into: &effects)
        }
        if !isLossNoted { effects.notes.append(.lost(reason: reason)) }
        isLossNoted = true
        giveUpWhatIsSentOnce(reason: reason, into: &effects)
        guard !isIdle || staysConnected else {
            effects.notes.append(.idle)
            return disconnect()
        }
        var reconnection = self.reconnection ?? newReconnection
        if isIdle { reconnection.restart(at: now) }
        guard let delay = reconnection.delay(at: now) ?? (isIdle ? Reconnection.longestDelay : nil) else {
            let error = wasReached ? .connectionLost(reason) : BrokerError.cannotConnect(path: path, reason: reason)
            return abandon(error, at: now, into: &effects)
        }
        connect(reconnection, after: delay, at: now, into: &effects)
    }

    /// The connection was to be made by now. One that is in force since then is left alone.
    mutating func deadlinePassed(_ connection: Int, at now: NIODeadline) -> Effects {
        guard link == .connecting(connection: connection) else { return Effects() }
        return lost(connection, reason: "the server did not answer the greeting in time", at: now)
    }

    /// Gives up the connection and the unanswered requests: another connection would end in the same way. A session that stays
    /// connected tries again a little later, for requests that come then.
    mutating func abandon(_ error: BrokerError, at now: NIODeadline, into effects: inout Effects) {
        effects.close = currentConnection
        effects.notes.append(.gaveUp(error, jobs: jobs.count))
        if wasWelcomed {
            disconnect()
        } else {
            link = .closed
            effects.deliveries.append(.welcomed(.failure(error)))
        }
        failAll(error, into: &effects)
        guard staysConnected, link == .disconnected else { return }
        connect(newReconnection, after: Reconnection.abandonedDelay, at: now, into: &effects)
    }

    // MARK: - Parts

    var takesRequests: Bool { link != .closed && !isDraining }

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
        while let job = jobs.admit(sentAs: nextFrame) { send(job.frame, of: job.waiter, into: &effects) }
    }

    /// Writes the frame of a job that is in the window now.
    private mutating func send(_ frame: [UInt8], of waiter: JobWaiter, into effects: inout Effects) {
        if isConnected { write(frame, into: &effects) }
        if waiter.admitted != nil { effects.deliveries.append(.admitted(waiter)) }
    }

    /// The number of the next frame on the connection; nil without one.
    private var nextFrame: Int? { isConnected ? frameCount + 1 : nil }

    private mutating func write(_ frame: [UInt8], into effects: inout Effects) {
        effects.write.append(frame)
        frameCount += 1
    }

    /// The time without a connection counts from when something is unanswered.
    private mutating func beginWaiting(at now: NIODeadline) {
        switch link {
        case .connecting: reconnection?.restart(at: now)
        case .connected: reconnection = nil
        case .disconnected, .closed: break
        }
    }

    private var newReconnection: Reconnection {
        Reconnection(patience: patience.reconnecting, firstDelay: patience.firstDelay)
    }

    private mutating func disconnect() {
        link = .disconnected
        isLossNoted = false
        reconnection = nil
    }

    private mutating func connectIfNeeded(at now: @autoclosure () -> NIODeadline, into effects: inout Effects) {
        guard link == .disconnected else { return }
        let now = now()
        connect(newReconnection, after: .zero, at: now, into: &effects)
    }

    private mutating func connect(
        _ reconnection: Reconnection, after delay: TimeAmount, at now: NIODeadline, into effects: inout Effects
    ) {
        var reconnection = reconnection
        let greeted = now + delay + patience.welcome
        let deadline = isIdle && wasWelcomed ? greeted : min(reconnection.deadline(at: now), greeted)
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

/// The limit for a server that sends no answers, of sessions that have one.
extension Session {
    mutating func heard(_ arrivals: [Arrival], at now: NIODeadline) {
        if patience.answer != nil, arrivals.contains(where: { !$0.isWelcome }) { waitingSince = now }
    }

    /// Fails everything unanswered when the server has sent no answer for as long as it may.
    mutating func checkSilence(at now: NIODeadline) -> Effects {
        var effects = Effects()
        guard let limit = patience.answer, !isIdle, now - waitingSince >= limit else { return effects }
        let milliseconds = limit.nanoseconds / 1_000_000
        let seconds = milliseconds % 1_000 == 0 ? "\(milliseconds / 1_000) s" : "\(milliseconds) ms"
        abandon(.connectionLost("the server has sent no answer for \(seconds)"), at: now, into: &effects)
        return effects
    }

    /// When to check next; nil when there is no limit, and after the end.
    func nextSilenceCheck(at now: NIODeadline) -> NIODeadline? {
        guard let limit = patience.answer, link != .closed else { return nil }
        return (isIdle ? now : waitingSince) + limit
    }
}

extension Arrival {
    fileprivate var isWelcome: Bool {
        if case .message(let envelope) = self, case .welcome = envelope.message { true } else { false }
    }
}

/// Jobs that are not wanted any more.
///
/// ```
///              not sent ── cancel ──▶ dropped: CancellationError
/// sent, connection lost ── cancel ──▶ outcomeUnknown, and not sent again
/// sent ── cancel ──▶ the server is asked, once ──┬─ failed `cancelled` ──▶ CancellationError
///                                                ├─ any other end ──▶ that end
///                                                └─ connection lost ──▶ outcomeUnknown, and not sent again
/// ```
extension Session {
    /// The `tag` of a `cancel` for which no task waits. Its answer is ignored, because the end of the job has the same
    /// information.
    static let cancelTag = Array(#""cancel""#.utf8)

    /// That job is cancelled: it is not sent, or the server is asked to cancel it.
    ///
    /// - Parameter frame: of the message that asks for it, with ``cancelTag``.
    mutating func cancel(_ place: Jobs.Place, frame: [UInt8]) -> Effects {
        guard let job = jobs[place], job.wasSent else { return withdraw(place, fromWindow: true) }
        var effects = Effects()
        guard !job.isCancelled else { return effects }
        if isConnected {
            jobs.noteCancelled(place)
            write(frame, into: &effects)
        } else if jobs.remove(job.id) != nil {
            // Written again on the next connection, it might take effect after all.
            let error = BrokerError.connectionLost("its task was cancelled before there was another one")
                .doubting(job.id)
            effects.deliveries = [.finished(job.waiter, .failure(error))]
            admit(into: &effects)
        }
        return effects
    }

    /// No task waits for that job any more: if it still waits for room, it will not be sent.
    ///
    /// - Parameter fromWindow: nor if it is in flight and was not sent yet.
    mutating func withdraw(_ place: Jobs.Place, fromWindow: Bool = false) -> Effects {
        var effects = Effects()
        guard let waiter = jobs.withdraw(place, fromWindow: fromWindow) else { return effects }
        effects.deliveries = [.withdrawn(waiter)]
        // The job may have been too large for the available room, and those after it may not be.
        admit(into: &effects)
        return effects
    }

    /// The server has taken the job back. True when its task had wished for that.
    mutating func endCancelled(_ id: JobID, into effects: inout Effects) -> Bool {
        guard jobs.inFlight(id)?.isCancelled == true, let waiter = jobs.remove(id) else { return false }
        reconnection = nil
        effects.deliveries.append(.withdrawn(waiter))
        admit(into: &effects)
        return true
    }

    /// The connection is lost: what was written to it and must not be written to another.
    mutating func giveUpWhatIsSentOnce(reason: String, into effects: inout Effects) {
        let error = BrokerError.connectionLost(reason)
        for (id, waiter) in jobs.removeCancelled() {
            effects.deliveries.append(.finished(waiter, .failure(error.doubting(id))))
        }
        for waiter in requests.removeSentOnce() { effects.deliveries.append(.answered(waiter, .failure(error))) }
    }
}

/// A message that arrived on a connection.
enum Arrival: Sendable {
    /// The `completed` of a job in its plain form.
    case completion(Completion)
    case message(ServerEnvelope)
    /// None of the following bytes can be read.
    case unreadable(WireError)
}

extension Session {
    /// The messages of a connection, one after the other.
    mutating func received(_ arrivals: [Arrival], on connection: Int, at now: NIODeadline) -> Effects {
        var effects = Effects()
        heard(arrivals, at: now)
        for arrival in arrivals {
            // Each may be the last that counts.
            guard connection == currentConnection else { break }
            switch arrival {
            case .completion(let completion):
                ended(completion.id, .success(completion), on: connection, at: now, into: &effects)
            case .message(let envelope): received(envelope, on: connection, at: now, into: &effects)
            case .unreadable(let error): received(error, on: connection, at: now, into: &effects)
            }
        }
        return effects
    }

    private mutating func received(
        _ envelope: ServerEnvelope, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if let number = requests.number(tag: envelope.tag) {
            return answer(number, .success(envelope), into: &effects)
        }
        if envelope.tag == Self.cancelTag { return }
        switch envelope.message {
        case .completed(let completion):
            ended(completion.id, .success(completion), on: connection, at: now, into: &effects)
        case .failed(let failed):
            let error = failed.ofJob
            if let id = error.jobID {
                if error.code == .cancelled, endCancelled(id, into: &effects) { break }
                ended(id, .failure(error), on: connection, at: now, into: &effects)
            } else {
                lost(connection, reason: error.description, at: now, into: &effects)
            }
        case .accepted(let id, let sequence):
            guard let job = jobs.inFlight(JobID(id)) else { break }
            reconnection = nil
            effects.deliveries.append(.accepted(job.waiter, sequence: sequence))
        case .welcome(let welcome): welcomed(welcome, on: connection, at: now, into: &effects)
        case .error(let error, let frame): refused(error, frame, on: connection, at: now, into: &effects)
        // Answers for which no task waits any more, and unrequested messages of newer servers.
        case .progress, .cancelled, .done, .pong, .stats, .jobs, .rejects, .model, .objects, .bookmark, .subscribed,
            .committed, .other:
            break
        }
    }

    /// Bytes of a connection cannot be read.
    private mutating func received(
        _ error: WireError, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard wasWelcomed else { return abandon(.protocolViolation("\(error)"), at: now, into: &effects) }
        lost(connection, reason: "the server's answer does not follow this protocol: \(error)", at: now, into: &effects)
    }

    /// Everything unanswered is sent (again) in order, and then whatever has room.
    private mutating func welcomed(
        _ welcome: ServerInformation, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard link == .connecting(connection: connection) else { return }
        effects.deliveries.append(.welcomed(.success(welcome)))
        link = .connected(connection: connection)
        if !wasWelcomed { reconnection = nil }
        wasWelcomed = true
        wasReached = true
        isLossNoted = false
        reconnection?.connected(at: now)
        effects.notes.append(.connected(resent: jobs.resendCount))
        // The greeting was the first.
        frameCount = 1
        for frame in jobs.sendAll(after: frameCount) { write(frame, into: &effects) }
        for frame in requests.sendAll(after: frameCount) { write(frame, into: &effects) }
        admit(into: &effects)
    }

    /// The server has answered a job.
    ///
    /// Each job in flight is answered once, under its own id. An answer under an id that is not in flight is an answer that
    /// another job lacks, so that job would wait without end: all are sent again over another connection.
    private mutating func ended(
        _ id: JobID, _ result: Result<Completion, BrokerError>, on connection: Int, at now: NIODeadline,
        into effects: inout Effects
    ) {
        if jobs.inFlight(id) == nil, jobs.inFlightCount > 0 {
            let name = String(decoding: id.text.utf8.prefix(128), as: UTF8.self)
            let reason = "the server answered a job \"\(name)\" that this client has not in flight"
            return lost(connection, reason: reason, at: now, into: &effects)
        }
        finish(id, result, into: &effects)
    }

    mutating func finish(
        _ id: JobID, _ result: Result<Completion, BrokerError>, into effects: inout Effects
    ) {
        guard let waiter = jobs.remove(id) else { return }
        reconnection = nil
        effects.deliveries.append(.finished(waiter, result))
        admit(into: &effects)
    }

    mutating func answer(
        _ number: Int, _ result: Result<ServerEnvelope, BrokerError>, into effects: inout Effects
    ) {
        guard let waiter = requests.remove(number) else { return }
        reconnection = nil
        effects.deliveries.append(.answered(waiter, result))
    }

    /// An error that has no `id` fails what was sent as the frame that it names, and the server closes the connection.
    private mutating func refused(
        _ error: BrokerError, _ frame: Int?, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard wasWelcomed else { return abandon(error, at: now, into: &effects) }
        if case .connecting = link, error.code != .busy {
            // It does not want us any more, and would say so again.
            return abandon(.connectionLost(error.description), at: now, into: &effects)
        }
        if let id = error.jobID {
            return ended(id, .failure(Self.ending(error, of: id)), on: connection, at: now, into: &effects)
        }
        if isConnected, let frame {
            if let id = jobs.job(sentAs: frame) {
                finish(id, .failure(Self.ending(error, of: id)), into: &effects)
            } else if let number = requests.number(sentAs: frame) {
                answer(number, .failure(error), into: &effects)
            }
        }
        lost(connection, reason: error.description, at: now, into: &effects)
    }

    /// The meaning of an `error` about a job. An error of the server itself does not show that nothing was done.
    static func ending(_ error: BrokerError, of id: JobID) -> BrokerError {
        error.code == .internal ? .outcomeUnknown(id, noAnswer: error.description) : error
    }
}
