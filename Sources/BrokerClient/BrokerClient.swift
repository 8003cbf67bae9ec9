internal import BrokerJSON
internal import BrokerWire
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A connection to a Broker server, which reconnects by itself. Any task may call it at any time.
///
/// Jobs of one task that waits for each take effect in that order; so do jobs that are ``enqueue(_:)``d one after the
/// other. When the connection is lost, all unanswered jobs are sent again in order under the same ids, so that each job
/// is applied exactly once.
public final class BrokerClient: Sendable {
    public struct Options: Sendable {
        /// A name for the server's logs.
        public var clientName: String?
        /// The maximum time until a server's welcome, on each connection.
        public var connectTimeout = Duration.seconds(10)
        /// The maximum time without a connection. After it, unanswered requests fail: jobs that were sent with
        /// ``BrokerError/outcomeUnknown(id:cause:)``, the others with ``BrokerError/connectionLost(reason:)``. It
        /// restarts when the server has answered a request; a welcome alone does not count, or a server that welcomes
        /// and closes would be tried forever.
        public var reconnectDeadline = Duration.seconds(30)
        /// The maximum time without an answer while a request is unanswered, connected or not; nil for no limit.
        /// Unanswered requests then fail as after ``reconnectDeadline``, and the connection is closed. A welcome is no
        /// answer.
        public var answerTimeout: Duration?
        /// The maximum time of a server's frame from its first byte to its last. Jobs have no such limit, because their
        /// senders know how long they take: cancel the task.
        public var frameTimeout = Duration.seconds(30)
        /// The maximum number of unanswered jobs; others wait. 64 let a server's writer commit jobs in groups.
        public var maximumJobsInFlight = 64
        /// The maximum bytes of unanswered frames: four of the largest.
        public var maximumBytesInFlight = 4 * FrameLimits.largestPayloadCount

        public init(clientName: String? = nil) {
            self.clientName = clientName
        }
    }

    /// The server's description of itself, from the first connection.
    public let server: ServerInformation

    private let driver: SessionDriver
    /// Random for each client, so that its ids differ from those of other clients.
    private let idPrefix: String
    private let nextNumber = Atomic(0)

    private init(driver: SessionDriver, server: ServerInformation) {
        self.driver = driver
        self.server = server
        let random = String(UInt64.random(in: 0...UInt64.max), radix: 16)
        idPrefix = String(repeating: "0", count: 16 - random.utf8.count) + random + "-"
    }

    deinit { driver.close() }

    /// Connects and waits for the server's welcome. Makes one attempt and reports its failure at once.
    ///
    /// - Throws: `cannotConnect`, `refused`, or `notUnderstood` when the peer is no Broker.
    public static func connect(to path: String, options: Options = Options()) async throws -> BrokerClient {
        try await connect(to: path, options: options, firstDelay: Reconnection.firstDelay)
    }

    /// Uses sockets that the caller connects.
    ///
    /// - Parameters:
    ///   - name: the server's name in errors.
    ///   - dial: returns the descriptor of a connected stream socket, which the client then owns. Called for every
    ///     connection, on an event loop; must not block.
    package static func connect(
        to name: String, options: Options = Options(), dial: @escaping @Sendable () throws -> CInt
    ) async throws -> BrokerClient {
        try await connect(to: name, options: options, firstDelay: Reconnection.firstDelay, .descriptor(dial))
    }

    static func connect(
        to path: String, options: Options, firstDelay: TimeAmount, _ dialing: Dialing? = nil
    ) async throws -> BrokerClient {
        let window = Session.Jobs(
            maximumCount: max(1, options.maximumJobsInFlight), maximumBytes: options.maximumBytesInFlight)
        let patience = Session.Patience(
            reconnecting: timeAmount(options.reconnectDeadline), welcome: timeAmount(options.connectTimeout),
            answer: options.answerTimeout.map(timeAmount), firstDelay: firstDelay)
        let session = Session(path: path, window: window, patience: patience)
        let hello = try FrameEncoders().encode(ClientMessageWriter.hello(client: options.clientName))
        let driver = SessionDriver(
            session: session, hello: hello, frameTime: timeAmount(options.frameTimeout),
            eventLoop: MultiThreadedEventLoopGroup.singleton.any(), dialing: dialing)
        driver.start(deadline: .now() + patience.welcome)
        do {
            return BrokerClient(driver: driver, server: try await driver.welcome.value())
        } catch {
            driver.close()
            throw error
        }
    }

    /// A year at most, so that adding it to now is always possible.
    private static func timeAmount(_ duration: Duration) -> TimeAmount {
        TimeAmount(min(max(duration, .zero), .seconds(365 * 86_400)))
    }

    // MARK: - Jobs

    /// Applies a record or an array of records, and waits until they are committed.
    ///
    /// Cancelling the task cancels the job: a job that was not sent yet is dropped; for one that was sent, the client
    /// asks the server to cancel it. In both cases `CancellationError` means that the job has no effect. When its merge
    /// has begun it is too late, and the call ends as if the task were not cancelled. If the connection is lost before
    /// the server has answered, the call ends with ``BrokerError/outcomeUnknown(id:cause:)``, and the job is not sent
    /// again.
    ///
    /// An attribute that is nil is not in the record, so it leaves the column as it is; see ``Nullable`` for one that clears it.
    ///
    /// - Parameter records: values that can be encoded; see ``JSON/init(encoding:)``.
    /// - Throws: `failed` when the job was refused or went wrong, or another ``BrokerError``.
    public func process(
        _ records: some Encodable, as entity: String, id: String? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(operations: [.process(records, as: entity)], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Applies a record or an array of records that is JSON text, and waits until they are committed; else as
    /// the same method with values.
    ///
    /// - Throws: `invalidJSON` when the text is not exactly one JSON value, and nothing is sent then; or another
    ///   ``BrokerError``.
    public func process(
        json: some JSONTextSource, as entity: String, id: String? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary
    ) async throws -> Completion {
        let operation = Job.Operation.process(json: json, as: entity)
        return try await process(Job(operations: [operation], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Applies a record or an array of records that is JSON text in bytes; else as
    /// ``process(json:as:id:onInvalid:reply:)``.
    public func process(
        _ json: [UInt8], as entity: String, id: String? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(json: json, as: entity, id: id, onInvalid: onInvalid, reply: reply)
    }

    /// Applies a job and waits until it is committed; cancelling is as with
    /// ``process(_:as:id:onInvalid:reply:)-(Encodable,_,_,_,_)``.
    ///
    /// - Throws: `failed` when the job was refused or went wrong, or another ``BrokerError``.
    public func process(_ job: Job) async throws -> Completion {
        let completion = Answer<Completion>()
        let place = try send(job, wantsAcceptance: false, JobWaiter(completion: completion))
        return try await completion.value(onCancel: { [driver] in driver.cancel(place) })
    }

    /// Sends a job and waits until the server has accepted it; the ticket has its outcome. Cancelling while this waits
    /// is as with ``process(_:as:id:onInvalid:reply:)-(Encodable,_,_,_,_)``, except that the job may be accepted before
    /// it is cancelled: then the ticket's completion has the result.
    ///
    /// - Throws: `failed` when the job was refused, or another ``BrokerError``.
    public func submit(_ job: Job) async throws -> JobTicket {
        let accepted = Answer<Int64>()
        let waiter = JobWaiter(completion: Answer(), accepted: accepted)
        let place = try send(job, wantsAcceptance: true, waiter)
        let sequence = try await accepted.value(onCancel: { [driver] in driver.cancel(place) })
        return JobTicket(id: place.id.text, sequence: sequence, answer: waiter.completion, client: self)
    }

    /// Sends a job after those already sent and returns when there is room for it among the jobs in flight, without
    /// waiting for the server. Jobs of consecutive calls take effect in that order.
    ///
    /// - Throws: `CancellationError` when the task was cancelled while the job waited for room; the job was then not
    ///   sent. Or a ``BrokerError``.
    public func enqueue(_ job: Job) async throws -> SentJob {
        let admitted = Answer<Void>()
        let waiter = JobWaiter(completion: Answer(), admitted: admitted)
        let place = try send(job, wantsAcceptance: false, waiter)
        try await admitted.value(onCancel: { [driver] in driver.withdraw(place) })
        return SentJob(id: place.id.text, answer: waiter.completion, client: self)
    }

    private func send(_ job: Job, wantsAcceptance: Bool, _ waiter: JobWaiter) throws -> Session.Jobs.Place {
        try Task.checkCancellation()
        let id = job.id ?? idPrefix + String(number())
        guard JobID.byteCounts.contains(id.utf8.count) else { throw BrokerError.invalidID(id) }
        let frame = try driver.encoders.encode(try job.content(id: id, wantsAcceptance: wantsAcceptance))
        return try driver.add(id: JobID(id), frame: frame, waiter: waiter)
    }

    // MARK: - Requests

    /// The outcome of a job by its id, now or when it ends.
    ///
    /// - Throws: `failed` as the job failed, `refused` with the code `unknownJob`, or `outcomeUnknown` when the task is
    ///   cancelled, which only ends the wait.
    public func await(id: String) async throws -> Completion {
        let answer = try await request(orOnCancellation: BrokerError.waitCancelled(id)) {
            ClientMessageWriter.await(id: id, tag: $0)
        }
        switch answer.message {
        case .completed(let message): return Completion(message)
        case .failed(let failed):
            throw BrokerError.failed(
                .init(id: failed.id ?? id, sequence: failed.sequence, fault: BrokerError.Fault(failed.error)))
        default: throw unexpected(answer, to: "await")
        }
    }

    /// Returns when the server has answered.
    public func ping() async throws {
        let answer = try await request { ClientMessageWriter.ping(tag: $0) }
        guard case .pong = answer.message else { throw unexpected(answer, to: "ping") }
    }

    /// The server's counters: the `stats` message of the protocol.
    public func stats() async throws -> JSON {
        let answer = try await request { ClientMessageWriter.stats(tag: $0) }
        guard case .stats = answer.message else { throw unexpected(answer, to: "stats") }
        let text = answer.document.text
        return withExtendedLifetime(text) { JSON(text.bytes) }
    }

    /// The model in force.
    public func model() async throws -> JSON {
        let answer = try await request { ClientMessageWriter.model(tag: $0) }
        guard case .model(let json) = answer.message else { throw unexpected(answer, to: "model") }
        return JSON(json)
    }

    /// Closes the connection. A job that was sent and is unanswered ends with
    /// ``BrokerError/outcomeUnknown(id:cause:)``; other unanswered requests, and every later call, end with
    /// ``BrokerError/closed``.
    public func close() async {
        driver.close()
    }

    /// - Parameters:
    ///   - isSentOnce: the request changes something, and is not sent again when its connection is lost.
    ///   - cancellation: thrown when the task is cancelled after the request was made.
    func request(
        isSentOnce: Bool = false, orOnCancellation cancellation: any Error = CancellationError(),
        _ content: (_ tag: RawJSON) -> [UInt8]
    ) async throws -> ServerEnvelope {
        try Task.checkCancellation()
        let number = number()
        let waiter = Answer<ServerEnvelope>()
        let frame = try driver.encoders.encode(content(.integer(number)))
        try driver.add(request: number, frame: frame, waiter: waiter, isSentOnce: isSentOnce)
        return try await waiter.value(orOnCancellation: cancellation)
    }

    func unexpected(_ answer: ServerEnvelope, to type: String) -> BrokerError {
        if case .error(let error) = answer.message { return .refused(BrokerError.Fault(error.error)) }
        return .protocolViolation(reason: "the server answered `\(type)` with another message")
    }

    /// Jobs in flight, and those that wait for room.
    var unansweredJobCount: Int { driver.unansweredJobCount }

    private func number() -> Int { nextNumber.add(1, ordering: .relaxed).newValue }
}
