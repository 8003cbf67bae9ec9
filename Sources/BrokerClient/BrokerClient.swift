internal import BrokerJSON
public import BrokerWire
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
        /// How long to try to connect again before what is unanswered fails with ``BrokerError/connectionLost(reason:)``.
        public var reconnectDeadline = Duration.seconds(30)
        /// Jobs that may be unanswered at once; more wait for room. 64 keeps a server's writer in groups of commits.
        public var maximumJobsInFlight = 64
        /// Bytes of frames that may be unanswered at once: four of the largest.
        public var maximumBytesInFlight = 4 * FrameLimits.largestPayloadCount

        public init(clientName: String? = nil) {
            self.clientName = clientName
        }
    }

    /// What the server said of itself when it was first connected to.
    public let welcome: Welcome

    private let driver: SessionDriver
    /// Random for each client, so that its ids are no other client's.
    private let idPrefix: String
    private let nextNumber = Atomic(0)

    private init(driver: SessionDriver, welcome: Welcome) {
        self.driver = driver
        self.welcome = welcome
        let random = String(UInt64.random(in: 0...UInt64.max), radix: 16)
        idPrefix = String(repeating: "0", count: 16 - random.utf8.count) + random + "-"
    }

    deinit { driver.close() }

    /// Connects and waits for the server's welcome. One attempt: what is not there now is told at once.
    ///
    /// - Throws: `cannotConnect`, `refused`, or `notUnderstood` by something that is no Broker.
    public static func connect(
        to path: String, options: Options = Options()
    ) async throws(BrokerError) -> BrokerClient {
        try await connect(to: path, options: options, firstDelay: Reconnection.firstDelay)
    }

    static func connect(
        to path: String, options: Options, firstDelay: TimeAmount
    ) async throws(BrokerError) -> BrokerClient {
        let window = PendingJobs<JobWaiter>(
            maximumCount: max(1, options.maximumJobsInFlight), maximumBytes: options.maximumBytesInFlight)
        let patience = TimeAmount(options.reconnectDeadline)
        let session = Session(path: path, window: window, patience: patience, firstDelay: firstDelay)
        let hello = try FrameEncoders().encode(ClientMessageWriter.hello(client: options.clientName))
        let driver = SessionDriver(
            session: session, hello: hello, eventLoop: MultiThreadedEventLoopGroup.singleton.any())
        driver.start(deadline: .now() + patience)
        do throws(BrokerError) {
            return BrokerClient(driver: driver, welcome: try await driver.welcome.value())
        } catch {
            driver.close()
            throw error
        }
    }

    // MARK: - Jobs

    /// Applies records as JSON text, a record or an array of records, and waits until they are committed.
    ///
    /// - Throws: `failed` when the job was refused or went wrong, or another ``BrokerError``.
    public func process(
        _ json: [UInt8], as entity: String, id: String? = nil, onInvalid: JobMessage.OnInvalid = .fail,
        reply: JobMessage.Reply = .summary
    ) async throws(BrokerError) -> Completion {
        var job = Job.process(json, as: entity)
        job.id = id
        job.onInvalid = onInvalid
        job.reply = reply
        return try await process(job)
    }

    /// Applies values that can be encoded, a record or an array of records, and waits until they are committed.
    ///
    /// - Throws: `failed` when the job was refused or went wrong, or another ``BrokerError``.
    public func process(
        _ records: some Encodable, as entity: String, id: String? = nil, onInvalid: JobMessage.OnInvalid = .fail,
        reply: JobMessage.Reply = .summary
    ) async throws(BrokerError) -> Completion {
        var job = try Job.process(records, as: entity)
        job.id = id
        job.onInvalid = onInvalid
        job.reply = reply
        return try await process(job)
    }

    /// Applies a job and waits until it is committed.
    public func process(_ job: Job) async throws(BrokerError) -> Completion {
        let waiter = JobWaiter(completion: Answer())
        _ = try send(job, notify: .completed, waiter)
        return try await waiter.completion.value()
    }

    /// Sends a job and waits until the server has accepted it; its outcome comes through the ticket.
    public func submit(_ job: Job) async throws(BrokerError) -> JobTicket {
        let accepted = Answer<Int64>()
        let waiter = JobWaiter(completion: Answer(), accepted: accepted)
        let id = try send(job, notify: [.accepted, .completed], waiter)
        let sequence = try await accepted.value()
        return JobTicket(id: id, sequence: sequence, answer: waiter.completion, client: self)
    }

    /// Sends a job behind those already sent and returns when there is room for it among the jobs in flight, without
    /// waiting for the server. Called one after the other, jobs take effect in that order.
    public func enqueue(_ job: Job) async throws(BrokerError) -> SentJob {
        let admitted = Answer<Void>()
        let waiter = JobWaiter(completion: Answer(), admitted: admitted)
        let id = try send(job, notify: .completed, waiter)
        try await admitted.value()
        return SentJob(id: id, answer: waiter.completion, client: self)
    }

    private func send(_ job: Job, notify: JobMessage.Notify, _ waiter: JobWaiter) throws(BrokerError) -> String {
        let id = job.id ?? idPrefix + String(number())
        var message = JobMessageWriter(id: id, operations: job.operations)
        message.onInvalid = job.onInvalid
        message.reply = job.reply
        message.notify = notify
        message.isLenient = job.isLenient
        try driver.add(id: id, frame: try driver.encoders.encode(message.content()), waiter: waiter)
        return id
    }

    // MARK: - Requests

    /// The outcome of a job by its id, now or when it ends.
    ///
    /// - Throws: `failed` as the job failed, or `refused` with the code `unknownJob`.
    public func await(id: String) async throws(BrokerError) -> Completion {
        let answer = try await request { ClientMessageWriter.await(id: id, tag: $0) }
        switch answer.message {
        case .completed(let completed): return completed
        case .failed(let failed): throw .failed(failed)
        default: throw unexpected(answer, to: "await")
        }
    }

    /// Returns when the server has answered.
    public func ping() async throws(BrokerError) {
        let answer = try await request { ClientMessageWriter.ping(tag: $0) }
        guard case .pong = answer.message else { throw unexpected(answer, to: "ping") }
    }

    /// The server's counters: the `stats` message as JSON text.
    public func stats() async throws(BrokerError) -> [UInt8] {
        let answer = try await request { ClientMessageWriter.stats(tag: $0) }
        guard case .stats = answer.message else { throw unexpected(answer, to: "stats") }
        let text = answer.document.text
        return withExtendedLifetime(text) { Array(text.bytes) }
    }

    /// The model in force as JSON text.
    public func model() async throws(BrokerError) -> [UInt8] {
        let answer = try await request { ClientMessageWriter.model(tag: $0) }
        guard case .model(let json) = answer.message else { throw unexpected(answer, to: "model") }
        return json
    }

    /// Closes the connection. What is unanswered fails with ``BrokerError/closed``.
    public func close() async {
        driver.close()
    }

    private func request(_ content: (_ tag: [UInt8]) -> [UInt8]) async throws(BrokerError) -> ServerEnvelope {
        let number = number()
        let waiter = Answer<ServerEnvelope>()
        let frame = try driver.encoders.encode(content(Array(String(number).utf8)))
        try driver.add(request: number, frame: frame, waiter: waiter)
        return try await waiter.value()
    }

    private func unexpected(_ answer: ServerEnvelope, to type: String) -> BrokerError {
        if case .error(let error) = answer.message { return .refused(error) }
        return .notUnderstood(WireError(.unsupportedMessage, "the server answered `\(type)` with another message"))
    }

    private func number() -> Int { nextNumber.add(1, ordering: .relaxed).newValue }
}
