internal import BrokerJSON
internal import BrokerWire
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A connection to a Broker server, which comes back by itself. Any task may call it at any time.
///
/// Jobs of one task that waits for each take effect in that order; so do jobs that are ``enqueue(_:)``d one after the
/// other. When the connection is lost, everything unanswered is sent again in order under the same ids, so that each job
/// is applied exactly once.
public final class BrokerClient: Sendable {
    public struct Options: Sendable {
        /// A name for the server's logs.
        public var clientName: String?
        /// How long a server may take for its welcome, on each connection.
        public var connectTimeout = Duration.seconds(10)
        /// How long to be without a connection before what is unanswered fails: jobs that were sent with
        /// ``BrokerError/outcomeUnknown(id:cause:)``, the rest with ``BrokerError/connectionLost(reason:)``. It begins anew when the server has answered something; its welcome
        /// alone does not count, or a server that welcomes and closes would be tried for ever.
        public var reconnectDeadline = Duration.seconds(30)
        /// How long a server may send no answer while anything is unanswered, connected or not; nil for any time. What is
        /// unanswered then fails as after ``reconnectDeadline``, and the connection is closed. Welcomes are no answers.
        public var answerTimeout: Duration?
        /// How long a server's frame may take from its first byte to its last. Jobs have no such limit, because how long
        /// they take is known to those who send them: cancel the task.
        public var frameTimeout = Duration.seconds(30)
        /// Jobs that may be unanswered at once; more wait for room. 64 keeps a server's writer in groups of commits.
        public var maximumJobsInFlight = 64
        /// Bytes of frames that may be unanswered at once: four of the largest.
        public var maximumBytesInFlight = 4 * FrameLimits.largestPayloadCount

        public init(clientName: String? = nil) {
            self.clientName = clientName
        }
    }

    /// What the server said of itself when it was first connected to.
    public let server: ServerInformation

    private let driver: SessionDriver
    /// Random for each client, so that its ids are no other client's.
    private let idPrefix: String
    private let nextNumber = Atomic(0)

    private init(driver: SessionDriver, server: ServerInformation) {
        self.driver = driver
        self.server = server
        let random = String(UInt64.random(in: 0...UInt64.max), radix: 16)
        idPrefix = String(repeating: "0", count: 16 - random.utf8.count) + random + "-"
    }

    deinit { driver.close() }

    /// Connects and waits for the server's welcome. One attempt: what is not there now is told at once.
    ///
    /// - Throws: `cannotConnect`, `refused`, or `notUnderstood` by something that is no Broker.
    public static func connect(to path: String, options: Options = Options()) async throws -> BrokerClient {
        try await connect(to: path, options: options, firstDelay: Reconnection.firstDelay)
    }

    /// Talks to a server over sockets that somebody else connects.
    ///
    /// - Parameters:
    ///   - name: of the server, for errors.
    ///   - dial: gives the descriptor of a connected stream socket, which becomes the client's. Called for every
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
    /// A task that is cancelled while it waits wants its job no more. A job that was not sent yet is dropped; one that was
    /// sent the server is asked to take back. Either way `CancellationError` says that it has no effect. When its merge has
    /// begun it is too late, and the call ends as if nobody had cancelled it. If the connection is lost before the
    /// server has answered, the call ends with ``BrokerError/outcomeUnknown(id:cause:)``, and the job is not sent again.
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

    /// Sends a job and waits until the server has accepted it; its outcome comes through the ticket. Cancelling while this
    /// waits is as with ``process(_:as:id:onInvalid:reply:)-(Encodable,_,_,_,_)``, but for that the job may be accepted
    /// before it is taken back: then the ticket's completion tells what came of that.
    ///
    /// - Throws: `failed` when the job was refused, or another ``BrokerError``.
    public func submit(_ job: Job) async throws -> JobTicket {
        let accepted = Answer<Int64>()
        let waiter = JobWaiter(completion: Answer(), accepted: accepted)
        let place = try send(job, wantsAcceptance: true, waiter)
        let sequence = try await accepted.value(onCancel: { [driver] in driver.cancel(place) })
        return JobTicket(id: place.id.text, sequence: sequence, answer: waiter.completion, client: self)
    }

    /// Sends a job behind those already sent and returns when there is room for it among the jobs in flight, without
    /// waiting for the server. Called one after the other, jobs take effect in that order.
    ///
    /// - Throws: `CancellationError` when the task was cancelled while the job waited for room, and then it was not
    ///   sent; or a ``BrokerError``.
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
    ///   cancelled, which ends the waiting and nothing else.
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

    /// Closes the connection. A job that was sent and is unanswered ends with ``BrokerError/outcomeUnknown(id:cause:)``;
    /// everything else that is unanswered, and every later call, ends with ``BrokerError/closed``.
    public func close() async {
        driver.close()
    }

    /// - Parameters:
    ///   - isSentOnce: it changes something, and is not sent again when its connection is lost.
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
