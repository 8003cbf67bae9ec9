@_exported public import Broker
internal import BrokerJSON
internal import BrokerWire
public import Logging
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import Tracing

/// A client of a Broker server, which connects, and connects again, by itself. Any task may call it at any time.
///
/// ```swift
/// let broker = RemoteBroker(.unixSocket(path))
/// try await broker.process(employees, as: "Employee")
/// ```
///
/// It connects with the first call, or when ``run()`` begins. When the connection is lost, all unanswered jobs are sent again in
/// order under the same ids, so that each job is applied exactly once.
///
/// Jobs of more than 1 MiB as they are sent, compressed, go over a second connection, which begins with the first of them: the others
/// do not wait for their frames. So jobs that are sent at once may take effect in any order; jobs of a task that waits for each,
/// with ``process(_:)`` or with ``submit(_:)``, take effect in its order.
public final class RemoteBroker: BrokerService {
    /// The connection for all but large jobs.
    let driver: SessionDriver
    let jobs: LargeJobs
    let configuration: RemoteBroker.Configuration
    let observation: CallObservation
    private let ids = JobIDs()
    private let nextNumber = Atomic(0)

    /// - Parameters:
    ///   - logger: receives what an operator should know: lost connections, what is sent again, a server that is busy. The end of
    ///     each call goes to `Logger.current` of its task: see <doc:Observing>.
    public convenience init(
        _ address: BrokerAddress, configuration: RemoteBroker.Configuration = RemoteBroker.Configuration(),
        logger: Logger = Logger(label: "broker.client", factory: { _ in SwiftLogNoOpLogHandler() })
    ) {
        self.init(address, configuration: configuration, logger: logger, beginning: .whenNeeded)
    }

    /// - Parameters:
    ///   - dialing: makes the connections; nil for the address.
    ///   - tracer: nil for the one that was bootstrapped.
    init(
        _ address: BrokerAddress, configuration: RemoteBroker.Configuration, logger: Logger,
        beginning: Session.Beginning, firstDelay: TimeAmount = Reconnection.firstDelay, _ dialing: Dialing? = nil,
        tracer: (any Tracer)? = nil
    ) {
        self.configuration = configuration
        observation = CallObservation(.client, name: configuration.name ?? "", tracer: tracer)
        let eventLoops = configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton
        @Sendable func makeDriver(_ beginning: Session.Beginning) -> SessionDriver {
            let session = Session(
                path: address.path,
                window: Session.Jobs(
                    maximumCount: max(1, configuration.maximumJobsInFlight),
                    maximumBytes: configuration.maximumBytesInFlight),
                patience: Session.Patience(configuration, firstDelay: firstDelay), beginning: beginning)
            let driver = SessionDriver(
                session: session, name: configuration.name, frameTime: TimeAmount(limited: configuration.frameTimeout),
                frameLimits: configuration.frameLimits, eventLoop: eventLoops.any(), dialing: dialing, logger: logger)
            driver.start()
            return driver
        }
        driver = makeDriver(beginning)
        jobs = LargeJobs(besides: driver) { makeDriver(.whenNeeded) }
    }

    deinit { close() }

    /// Closes the connections, and those of ``results(of:)`` and ``commits(for:)``. A job that was sent and is unanswered ends with
    /// ``/Broker/BrokerError/Code/outcomeUnknown``; other unanswered requests, and every later call, end with
    /// ``/Broker/BrokerError/Code/closed``, and an iteration over commits ends without an error.
    public func close() {
        let large = jobs.end()
        driver.close()
        large?.close()
    }

    // MARK: - Jobs

    /// Applies a job and waits until it is committed.
    ///
    /// Cancelling the task cancels the job: one that was not sent yet is dropped; for one that was sent, the client asks the
    /// server to cancel it. If the connection is lost before the server has answered that, the call ends with
    /// ``/Broker/BrokerError/Code/outcomeUnknown``, and the job is not sent again.
    ///
    /// - Throws: ``/Broker/BrokerError``
    @discardableResult public func process(_ job: Job) async throws -> Completion {
        try await requireFeatures(of: job)
        return try await observation.observing(job) { job in
            let completion = Answer<Completion>()
            let sent = try send(job, wantsAcceptance: false, JobWaiter(completion: completion))
            return try await completion.value(onCancel: { sent.cancel() })
        }
    }

    /// Sends a job and waits until the server has accepted it; the result has its outcome. A task that is cancelled while this
    /// waits cancels the job, unless the server has accepted it.
    ///
    /// - Throws: ``/Broker/BrokerError``
    public func submit(_ job: Job) async throws -> SubmittedJob {
        try await requireFeatures(of: job)
        var job = job
        let ended = observation.begin(&job)
        let accepted = Answer<Int64>()
        let waiter = JobWaiter(completion: Answer(), accepted: accepted, ended: ended)
        let sent: SentJob
        do {
            sent = try send(job, wantsAcceptance: true, waiter)
        } catch {
            ended(.failure(error))
            throw error
        }
        let sequence = try await accepted.value(onCancel: { sent.cancel() })
        return submitted(sent.place.id, sequence, waiter)
    }

    /// Sends a job after those already sent and returns when there is room for it among the jobs in flight, without
    /// waiting for the server. Jobs of consecutive calls take effect in that order.
    ///
    /// - Throws: `CancellationError` when the task was cancelled while the job waited for room; the job was then not
    ///   sent. Or a ``/Broker/BrokerError``.
    package func enqueue(_ job: Job) async throws -> SubmittedJob {
        try await requireFeatures(of: job)
        let admitted = Answer<Void>()
        let waiter = JobWaiter(completion: Answer(), admitted: admitted)
        // In the order of the calls, and so on one connection, however large it is.
        let (id, frame) = try encode(job, wantsAcceptance: false)
        let place = try driver.add(id: id, frame: frame, waiter: waiter)
        try await admitted.value(onCancel: { driver.withdraw(place) })
        return submitted(id, 0, waiter)
    }

    /// An earlier server ignores fields that it does not know: it would commit a dry run, delete without a limit, store no
    /// bookmark, apply an operation whatever its object is, and read records by other names.
    private func requireFeatures(of job: Job) async throws {
        for feature in job.usedFeatures { try await require(feature) }
    }

    func require(_ feature: String) async throws {
        guard try await serverInformation().features.contains(feature) else {
            throw BrokerError(
                .unsupported, "The server is of an earlier version, which does not know `\(feature)`. Nothing was sent."
            )
        }
    }

    /// The result keeps the client, and so the connection, until the outcome is read.
    private func submitted(_ id: JobID, _ sequence: Int64, _ waiter: JobWaiter) -> SubmittedJob {
        SubmittedJob(id: id, sequence: sequence) { [self, answer = waiter.completion] in
            defer { withExtendedLifetime(self) {} }
            return try await answer.value(orOnCancellation: BrokerError.waitCancelled(id))
        }
    }

    private func send(_ job: Job, wantsAcceptance: Bool, _ waiter: JobWaiter) throws -> SentJob {
        let (id, frame) = try encode(job, wantsAcceptance: wantsAcceptance)
        return try jobs.add(id: id, isChosen: job.id != nil, frame: frame, waiter: waiter)
    }

    private func encode(_ job: Job, wantsAcceptance: Bool) throws -> (JobID, frame: [UInt8]) {
        try Task.checkCancellation()
        let id = try job.id?.checked() ?? ids.next()
        return (id, try driver.encoders.encode(try job.content(id: id, wantsAcceptance: wantsAcceptance)))
    }

    public func completion(of id: JobID) async throws -> Completion { try await self.completion(of: id, after: nil) }

    /// The outcome of a job by its id, from a server that shares its log with others: as ``completion(of:)`` when the server has applied
    /// everything up to a sequence.
    ///
    /// - Parameter sequence: of the job, as another server has given it.
    /// - Throws: also ``/Broker/BrokerError/Code/notYet`` when the server has not applied it within ten seconds.
    public func completion(of id: JobID, after sequence: Int64?) async throws -> Completion {
        _ = try id.checked()
        let answer = try await request(
            "await", on: jobs.driver(of: id), orOnCancellation: BrokerError.waitCancelled(id)
        ) {
            $0.member("id", id.text)
            if let sequence { $0.member("after", sequence) }
        }
        switch answer.message {
        case .completed(let completion): return completion
        case .failed(var failed):
            failed.jobID = failed.jobID ?? id
            throw failed.ofJob
        default: throw unexpected(answer, to: "await")
        }
    }

    public func cancel(_ id: JobID) async throws {
        _ = try id.checked()
        do {
            let answer = try await request(
                "cancel", on: jobs.driver(of: id), isSentOnce: true, orOnCancellation: BrokerError.waitCancelled(id)
            ) { $0.member("id", id.text) }
            guard case .cancelled = answer.message else { throw unexpected(answer, to: "cancel") }
        } catch let error as BrokerError {
            throw error.code == .connectionLost ? error.doubting(id) : error
        }
    }

    // MARK: - Requests

    /// - Parameters:
    ///   - type: of the message.
    ///   - driver: of the connection; nil for the first.
    ///   - isSentOnce: the request changes something, and is not sent again when its connection is lost.
    ///   - cancellation: thrown when the task is cancelled after the request was made.
    func request(
        _ type: String, on driver: SessionDriver? = nil, isSentOnce: Bool = false,
        orOnCancellation cancellation: any Error = CancellationError(),
        _ members: (inout JSONWriter) throws -> Void = { _ in }
    ) async throws -> ServerEnvelope {
        try Task.checkCancellation()
        let number = nextNumber.add(1, ordering: .relaxed).newValue
        let waiter = Answer<ServerEnvelope>()
        let content = try MessageWriter.message(type, tag: Array("\(number)".utf8), members)
        let frame = try self.driver.encoders.encode(content)
        try (driver ?? self.driver).add(request: number, frame: frame, waiter: waiter, isSentOnce: isSentOnce)
        return try await waiter.value(orOnCancellation: cancellation)
    }

    func unexpected(_ answer: ServerEnvelope, to type: String) -> BrokerError {
        if case .error(var error, _) = answer.message {
            // It is about the request, which may have the id of a job.
            error.jobID = nil
            return error
        }
        return .protocolViolation("the server answered `\(type)` with another message")
    }
}

#if ServiceLifecycle || Programs || Replication
public import ServiceLifecycle

/// With the package trait `ServiceLifecycle`.
extension RemoteBroker: Service {}
#endif

extension RemoteBroker {
    /// The state of the connection, and how it changes: the current state comes first. It ends when the client is closed. A reader
    /// that is slow misses states, but never the newest.
    public var connectionStates: AsyncStream<BrokerConnectionState> { driver.states.read() }

    /// Connects, and keeps the client until the task is cancelled or a graceful shutdown begins; then closes it.
    ///
    /// While it runs, the client connects to a server that starts later, and connects again after each loss, whether calls wait
    /// or not. A call waits for the connection as long as ``RemoteBroker/Configuration/reconnectDeadline``.
    ///
    /// A graceful shutdown (with the trait `ServiceLifecycle`, in a `ServiceGroup`) takes no further calls, ends the iterations over
    /// ``commits(for:)``, and finishes what is unanswered and the iterations over ``results(of:)`` that have begun, at most for
    /// ``RemoteBroker/Configuration/shutdownTimeout``. Cancelling the task closes the client at once: jobs that were sent and are
    /// unanswered end with ``/Broker/BrokerError/Code/outcomeUnknown``.
    public func run() async {
        driver.stayConnected()
        let end = Answer<Void>()
        #if ServiceLifecycle || Programs || Replication
        await withGracefulShutdownHandler {
            try? await end.value()
        } onGracefulShutdown: {
            end.finish(.success(()))
        }
        #else
        try? await end.value()
        #endif
        if !Task.isCancelled { await finishUnanswered() }
        close()
    }

    /// At most for the time of the configuration.
    private func finishUnanswered() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [driver, large = jobs.end()] in
                async let drained: Void = driver.drain()
                await large?.drain()
                await drained
            }
            group.addTask { [configuration] in try? await Task.sleep(for: configuration.shutdownTimeout) }
            await group.next()
            group.cancelAll()
        }
    }
}

extension RemoteBroker {
    /// Fetches any number of objects, in answers of which all are of one moment. They see every job that was completed before.
    ///
    /// Each iteration has a connection of its own, which ends with it. A reader that is too slow gets
    /// ``/Broker/BrokerError/Code/snapshotExpired``: see `protocol/predicates.md`.
    public func results(of query: Query) -> QueryResults {
        observation.results(of: query) { [self] in
            let stream = FetchStream(client: self, query: query)
            return { try await stream.next() }
        }
    }

    /// One iteration over the answers to a query.
    private actor FetchStream {
        private let client: RemoteBroker
        private let query: Query
        private var connection: StreamConnection?
        private var isAtEnd = false

        init(client: RemoteBroker, query: Query) {
            self.client = client
            self.query = query
        }

        func next() async throws -> QueryResult? {
            guard !isAtEnd else { return nil }
            do {
                let connection = try await open()
                let result = try client.queryResult(try await connection.next())
                isAtEnd = !result.hasMore
                if isAtEnd { self.connection = nil }
                return result
            } catch {
                isAtEnd = true
                connection = nil
                throw client.driver.streamEnd(error)
            }
        }

        private func open() async throws -> StreamConnection {
            if let connection { return connection }
            let content = try MessageWriter.message("fetch") { try query.write(isStreamed: true, to: &$0) }
            // The client's own connection waits for a server that is not running yet, and reports a lost connection. Where it was
            // made before, only the stream's connection reports that.
            _ = try await client.serverInformation()
            let opened = try await client.driver.openStream(sending: client.driver.encoders.encode(content))
            connection = opened
            return opened
        }
    }
}

/// A job, and the connection that it was added to.
struct SentJob: Sendable {
    let driver: SessionDriver
    let place: Session.Jobs.Place

    /// The job is not wanted any more: it is not sent, or the server is asked to cancel it.
    func cancel() { driver.cancel(place) }
}
