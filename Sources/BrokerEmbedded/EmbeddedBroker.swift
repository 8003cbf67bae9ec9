@_exported public import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStore
public import Logging
internal import Synchronization

/// Broker in the process of its user: takes jobs, and merges them into a SQLite database, in order, exactly once, without
/// a server and without a socket. Any task may call it at any time; none of its calls blocks a thread of the pool.
///
/// ```swift
/// let broker = try await EmbeddedBroker.open(store: .file(path), model: .json(model))
/// let done = try await broker.process(employees, as: "Employee")
/// print(done.changes["Employee"]?.inserted ?? 0)
/// await broker.close()
/// ```
///
/// Code that is written against ``/Broker/BrokerService`` runs with it and with a `RemoteBroker`; a job of the same content and id is
/// the same job on both ways.
///
/// Jobs of one task that waits for each take effect in that order; of jobs that are sent at once, none waits for another
/// to be begun. Who sends faster than the store takes waits for room: nothing is gathered without bounds, and nothing is
/// refused for want of room that would fit alone.
public final class EmbeddedBroker: BrokerService {
    let owned: OwnedStore
    let requests: Requests
    private let folder: TemporaryStore?
    let path: String
    private let stopped = Answer<Void>()
    private let isStopping = Atomic(false)
    /// The ids of jobs without one are made here: a job that is cancelled is cancelled by its id.
    private let ids = JobIDs()
    private let observation: CallObservation

    init(
        _ owned: OwnedStore, path: String, folder: TemporaryStore?,
        observation: CallObservation
    ) {
        self.observation = observation
        self.owned = owned
        self.path = path
        self.folder = folder
        requests = Requests(owned.coordinator)
        owned.coordinator.onFailure { [weak requests] in requests?.fail($0) }
    }

    deinit {
        // A broker that is dropped without being stopped loses nothing: admitted jobs take effect.
        guard !isStopping.load(ordering: .relaxed) else { return }
        let name = StoppingStores.begin(path)
        owned.stopSoon { [folder] in
            withExtendedLifetime(folder) {}
            StoppingStores.end(name)
        }
    }

    // MARK: - Jobs

    /// Applies a job and waits until it is committed.
    ///
    /// Cancelling the task cancels the job, unless its merge has begun: the call then throws `CancellationError`, and the job
    /// has no effect. In every other case the call ends as if its task were not cancelled.
    ///
    /// - Throws: ``/Broker/BrokerError``; with ``/Broker/BrokerError/Code/outcomeUnknown`` when the disk failed: whether the job was
    ///   applied is known when the store has been opened again. Later calls are refused then with
    ///   ``/Broker/BrokerError/Code/storeUnavailable``, and the only useful call is ``close()``.
    @discardableResult public func process(_ job: Broker.Job) async throws -> Completion {
        try await observation.observing(job) { job in
            let id = try job.id?.checked() ?? ids.next()
            let outcome = try await requests.job(job.content(id: id, wantsAcceptance: false), id: id)
            do throws(BrokerError) {
                return try Completion(outcome, isBrief: job.reply == .none)
            } catch {
                throw error.endingTask
            }
        }
    }

    public func submit(_ job: Broker.Job) async throws -> SubmittedJob {
        try Task.checkCancellation()
        var job = job
        let finish = observation.begin(&job)
        let id: JobID
        let content: [UInt8]
        do {
            id = try job.id?.checked() ?? ids.next()
            content = try job.content(id: id, wantsAcceptance: true)
        } catch {
            finish(.failure(error))
            throw error
        }
        let accepted = Answer<SubmittedJob>()
        let ended = Answer<Completion>()
        // The job's end is waited for by a task of its own, which lives as long as the job. Cancelling it cancels the job.
        let task = Task { [requests, job] in
            do {
                let outcome = try await requests.job(content, id: id) { sequence in
                    accepted.finish(.success(SubmittedJob(id, sequence, ended)))
                }
                let completion = try Completion(outcome, isBrief: job.reply == .none)
                finish(.success(completion))
                ended.finish(.success(completion))
                // A duplicate is not accepted once more.
                accepted.finish(.success(SubmittedJob(completion.id, completion.sequence, ended)))
            } catch {
                let end = (error as? BrokerError)?.endingTask ?? error
                finish(.failure(end))
                ended.finish(.failure(error))
                accepted.finish(.failure(end))
            }
        }
        return try await accepted.value(onCancel: { if !accepted.isFinished { task.cancel() } })
    }

    public func completion(of id: JobID) async throws -> Completion {
        _ = try id.checked()
        let outcome: JobCompletion? = try await requests.ask(
            orOnCancellation: BrokerError.waitCancelled(id)
        ) { [owned] ticket, notify in
            owned.coordinator.await(id.text, before: ticket) { result in
                notify(result.mapError { BrokerError(.storeUnavailable, $0.message) })
            }
        }
        guard let outcome else { throw BrokerError.unknownJob(id) }
        return try Completion(outcome, isBrief: false)
    }

    public func cancel(_ id: JobID) async throws {
        _ = try id.checked()
        let result: Cancellation = try await requests.ask(
            orOnCancellation: BrokerError.waitCancelled(id)
        ) { [owned] ticket, notify in
            owned.coordinator.cancel(id.text, before: ticket) { notify(.success($0)) }
        }
        switch result {
        case .cancelled: return
        case .tooLate(let end):
            let reason = Cancellation.explanation(end, of: id.text)
            var error = BrokerError(.tooLate, reason.message, jobID: id)
            error.sequence = reason.committedAs
            throw error
        case .unknown: throw BrokerError.unknownJob(id)
        case .failed(let cause): throw BrokerError(.storeUnavailable, cause.message, jobID: id)
        }
    }

    // MARK: - Objects

    /// Fetches objects, in one answer. It sees every job that was run before.
    ///
    /// - Throws: ``/Broker/BrokerError`` with the code of the fault; `CancellationError`, and the fetch is interrupted.
    public func fetch(_ query: Query) async throws -> QueryResult {
        try await observation.observing(query) { QueryResult(try await requests.fetch(query)) }
    }

    /// The bookmark of that name; nil when there is none. It sees every job that was run before.
    ///
    /// - Throws: ``/Broker/BrokerError``
    public func bookmark(named name: String) async throws -> Broker.StoredBookmark? {
        try await requests.bookmark(named: name).map {
            Broker.StoredBookmark(name: name, value: $0.value, sequence: $0.sequence)
        }
    }

    // MARK: - The end

    /// Finishes the admitted jobs, and closes the store: it is one file then, and other processes may open it. Calls
    /// that still wait for room, and later calls, fail with `draining`. May be called any number of times; each call
    /// returns when the store is closed.
    public func close() async {
        guard !isStopping.exchange(true, ordering: .relaxed) else {
            // Only a cancelled task does not wait for it.
            return (try? await stopped.value()) ?? ()
        }
        requests.close()
        await owned.stop()
        folder?.delete()
        stopped.finish(.success(()))
    }
}

#if ServiceLifecycle || Programs || Replication
public import ServiceLifecycle

/// With the package trait `ServiceLifecycle`.
extension EmbeddedBroker: Service {}
#endif

extension EmbeddedBroker {
    /// Keeps the broker until the task is cancelled or a graceful shutdown begins (with the trait `ServiceLifecycle`, in a
    /// `ServiceGroup`); then closes it, as ``close()`` does.
    public func run() async {
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
        await close()
    }
}

extension QueryResult {
    init(_ found: FetchedObjects) {
        self.init(objects: RawJSON(found.bytes), hasMore: found.hasMore, last: found.last.map { RawJSON($0) })
    }
}

extension SubmittedJob {
    fileprivate init(_ id: JobID, _ sequence: Int64, _ ended: Answer<Completion>) {
        self.init(id: id, sequence: sequence) {
            try await ended.value(orOnCancellation: BrokerError.waitCancelled(id))
        }
    }
}

extension BrokerError {
    /// The error of a call that the job's end is the answer to: the job was cancelled because the task was.
    fileprivate var endingTask: any Error { code == .cancelled && Task.isCancelled ? CancellationError() : self }

    fileprivate static func unknownJob(_ id: JobID) -> BrokerError {
        BrokerError(
            .unknownJob,
            "No job with the id \"\(id)\" is known: it was never sent, or it ended so long ago that its outcome was "
                + "forgotten.", jobID: id)
    }
}

// Questions, and administration.
extension EmbeddedBroker {
    public func results(of query: Query) -> QueryResults {
        observation.results(of: query) { [self] in
            let stream = EmbeddedStream(requests, query)
            return { try await stream.next() }
        }
    }

    public func commits(for query: CommitQuery) -> Commits {
        observation.commits(query) { [self] in
            let feed = EmbeddedFeed(self, query)
            return { try await feed.next() }
        }
    }

    public func statistics() async throws -> Statistics {
        var writer = JSONWriter(capacity: 2_048)
        writer.object { owned.coordinator.writeStatistics(to: &$0) }
        return try Statistics(json: writer.bytes)
    }

    public func model() async throws -> ModelDescription {
        var writer = JSONWriter()
        owned.coordinator.model.write(to: &writer)
        return try ModelDescription(json: writer.bytes)
    }

    /// Does an administrative action: ``/Broker/AdminAction/pause``, ``/Broker/AdminAction/resume`` or
    /// ``/Broker/AdminAction/checkpoint``.
    ///
    /// - Throws: ``/Broker/BrokerError``; with ``/Broker/BrokerError/Code/unsupported`` for the others, which are about a server.
    @discardableResult public func administer(_ action: Broker.AdminAction) async throws -> AdminResult {
        try Task.checkCancellation()
        switch action {
        case .pause:
            guard owned.coordinator.pause() else {
                throw BrokerError(.busy, "The model is being changed. Pause again when that is done.")
            }
        case .resume: owned.coordinator.resume()
        case .checkpoint:
            let answer = Answer<Statistics.WAL>()
            owned.coordinator.checkpoint { result in
                answer.finish(
                    result.map { Statistics.WAL(bytes: $0.bytes, uncheckpointedPages: $0.uncheckpointedPages) }
                        .mapError { BrokerError(.storeUnavailable, $0.message) })
            }
            return AdminResult(wal: try await answer.value(orOnCancellation: BrokerError.actionWaitCancelled))
        case .drain, .reload:
            throw BrokerError(
                .unsupported,
                "An embedded broker does not `\(action.rawValue)`: stop it, and open the store again.")
        default: throw BrokerError(.unsupportedMessage, "There is no action \"\(action.rawValue)\".")
        }
        return AdminResult()
    }

    public func backUp(to file: String, replacing: Bool) async throws -> Backup {
        guard file.utf8.first == UInt8(ascii: "/") else {
            throw BrokerError(.unsupportedMessage, "The file of a backup is an absolute path; \"\(file)\" is none.")
        }
        try Task.checkCancellation()
        let answer = Answer<Backup>()
        let isCancelled = Atomic(false)
        owned.coordinator.backup(
            to: file, replaces: replacing, isWanted: { !isCancelled.load(ordering: .relaxed) }
        ) { end in
            switch end {
            case .done(let copy):
                answer.finish(.success(Backup(sequence: copy.sequence, byteCount: Int64(copy.bytes))))
            case .failed(let fault): answer.finish(.failure(BrokerError(fault)))
            case .stopped: answer.finish(.failure(CancellationError()))
            }
        }
        return try await answer.value(onCancel: { isCancelled.store(true, ordering: .relaxed) })
    }
}

/// One iteration over the answers to a query, which are made one at a time, when they are wanted.
actor EmbeddedStream {
    private let requests: Requests
    private let query: Query
    private let events = EventQueue<StreamEvent>()
    private var stream: FetchStream?
    private var isAtEnd = false

    init(_ requests: Requests, _ query: Query) {
        self.requests = requests
        self.query = query
    }

    deinit { stream?.cancel() }

    func next() async throws -> QueryResult? {
        guard !isAtEnd else { return nil }
        do {
            let stream = try await open()
            // One that has ended, because it was read slowly or the broker is stopped, would begin again from the first object.
            if events.isEmpty { stream.ask() }
            switch try await events.next() {
            case .objects(let objects):
                isAtEnd = !objects.hasMore
                return QueryResult(objects)
            case .failed(let fault): throw BrokerError(fault)
            case .stopped: throw BrokerError.stopped
            }
        } catch {
            isAtEnd = true
            stream?.cancel()
            throw error
        }
    }

    private func open() async throws -> FetchStream {
        if let stream { return stream }
        let opened = try await requests.stream(query) { [events] _, event in events.add(event) }
        stream = opened
        return opened
    }
}

/// One iteration over the commits of the store. The next part is read when it is wanted.
actor EmbeddedFeed {
    private let broker: EmbeddedBroker
    private let query: CommitQuery
    private let events = EventQueue<FeedEvent>()
    private var subscription: FeedSubscription?
    private var commits: ArraySlice<FeedCommit> = []
    private var isAtEnd = false

    init(_ broker: EmbeddedBroker, _ query: CommitQuery) {
        self.broker = broker
        self.query = query
    }

    deinit { subscription?.cancel() }

    func next() async throws -> Commit? {
        guard !isAtEnd else { return nil }
        do {
            if let commit = commits.popFirst() { return try Commit(commit) }
            let subscription = try await open()
            while true {
                switch try await events.next() {
                case .opened(let after, _):
                    if query.after == nil { return Commit(sequence: after) }
                case .commits(let part):
                    subscription.ask()
                    commits = part[...]
                    if let commit = commits.popFirst() { return try Commit(commit) }
                case .failed(let fault): throw BrokerError(fault)
                case .stopped:
                    isAtEnd = true
                    return nil
                }
            }
        } catch {
            isAtEnd = true
            subscription?.cancel()
            throw error
        }
    }

    private func open() async throws -> FeedSubscription {
        if let subscription { return subscription }
        let opened = try await broker.requests.subscribe(query) { [events] _, event in events.add(event) }
        subscription = opened
        opened.ask()
        return opened
    }
}

/// The events of a stream or of a subscription until they are taken. One call waits at a time.
private final class EventQueue<Event: Sendable>: Sendable {
    private struct State: Sendable {
        var events: [Event] = []
        var waiting: Answer<Void>?
    }

    private let state = Mutex(State())

    var isEmpty: Bool { state.withLock { $0.events.isEmpty } }

    func add(_ event: Event) {
        let waiting = state.withLock { state in
            state.events.append(event)
            return state.waiting
        }
        waiting?.finish(.success(()))
    }

    func next() async throws -> Event {
        while true {
            let arrival = Answer<Void>()
            let event = state.withLock { state -> Event? in
                guard state.events.isEmpty else { return state.events.removeFirst() }
                state.waiting = arrival
                return nil
            }
            if let event { return event }
            try await arrival.value()
        }
    }
}

extension Commit {
    fileprivate init(_ commit: FeedCommit) throws(BrokerError) {
        self.init(
            sequence: commit.sequence, id: commit.id.map { JobID($0) },
            changes: try JSONDocument(ofStore: commit.changes).withRoot { Completion.Changes.byEntity($0) },
            keys: commit.keys.map { RawJSON($0) })
    }
}

/// Runs code with a broker in this process whose store is new, and gone afterwards: for tests.
///
/// ```swift
/// @Test func imports() async throws {
///     try await withTemporaryBroker(model: .json(model)) { try await importStaff($0) }
/// }
/// ```
///
/// The store is not synced to a disk, and is in memory where the system has a file system in memory.
///
/// - Throws: ``/Broker/BrokerError`` when the model is not valid, or what `body` throws.
@discardableResult public func withTemporaryBroker<Value>(
    model: EmbeddedBroker.ModelSource, handlers: EmbeddedBroker.Handlers = EmbeddedBroker.Handlers(),
    logger: Logger = Logger(label: "broker.embedded", factory: { _ in SwiftLogNoOpLogHandler() }),
    isolation: isolated (any Actor)? = #isolation, _ body: (EmbeddedBroker) async throws -> Value
) async throws -> Value {
    var configuration = EmbeddedBroker.Configuration()
    configuration.durability = .off
    configuration.workers = 1
    let broker = try await EmbeddedBroker.open(
        store: .temporary, model: model, handlers: handlers, configuration: configuration, logger: logger)
    do {
        let value = try await body(broker)
        await broker.close()
        return value
    } catch {
        await broker.close()
        throw error
    }
}

internal import Glibc

/// The stores whose brokers were dropped and are still finishing their jobs. Opening such a store waits for that: otherwise it
/// would be refused for the sake of this very process.
enum StoppingStores {
    private static let stopping = Mutex<[String: Answer<Void>]>([:])

    /// - Returns: the name of the store for ``end(_:)``, which the file may not have any more then.
    static func begin(_ path: String) -> String {
        let name = resolved(path)
        stopping.withLock { $0[name] = Answer() }
        return name
    }

    static func end(_ name: String) { stopping.withLock { $0.removeValue(forKey: name) }?.finish(.success(())) }

    /// Returns when no dropped broker uses the store of that path, or when the task is cancelled.
    static func wait(_ path: String) async {
        guard let end = stopping.withLock({ $0[resolved(path)] }) else { return }
        try? await end.value()
    }

    /// The path without symbolic links and dots, so that a file has one name here; that of a file which does not exist as it is.
    private static func resolved(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }
}
