public import BrokerClient
public import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerStaging
public import BrokerStore
internal import BrokerWire
public import Logging
internal import Synchronization

/// Broker in the process of its user: takes jobs, and merges them into a SQLite database, in order, exactly once, without
/// a server and without a socket. Any task may call it at any time; none of its calls blocks a thread of the pool.
///
/// ```swift
/// let broker = try await EmbeddedBroker.open(store: "app.sqlite", model: .init(modelText))
/// let outcome = try await broker.run(.process(employees, as: "Employee"))
/// print(outcome.changes["Employee"]?.inserted ?? 0)
/// await broker.stop()
/// ```
///
/// Jobs, outcomes and errors are those of `BrokerClient`, so what is written against one is easily moved to the other; a
/// job of the same content and id is the same job on both ways.
///
/// Jobs of one task that waits for each take effect in that order; of jobs that are sent at once, none waits for another
/// to be begun. Who sends faster than the store takes waits for room: nothing is gathered without bounds, and nothing is
/// refused for want of room that would fit alone.
public final class EmbeddedBroker: Sendable {
    public typealias Job = BrokerClient.Job
    public typealias Operation = BrokerClient.Job.Operation
    public typealias Completion = BrokerClient.Completion
    public typealias Fetch = BrokerClient.Fetch
    public typealias Fetched = BrokerClient.Fetched
    public typealias JSON = BrokerClient.JSON
    public typealias Failure = BrokerError

    /// How much is taken on at once, and how durable it is.
    public struct Options: Sendable {
        public var limits = CoordinatorLimits()
        public var store = StoreOptions()
        /// Receives what an operator should know: another program that locks the store, a WAL that grows.
        public var logger: Logger

        public init(logger: Logger = Logger(label: "broker")) { self.logger = logger }
    }

    private let owned: OwnedStore
    private let requests: Requests
    private let stopped = Answer<Void>()
    private let isStopping = Atomic(false)

    private init(_ owned: OwnedStore) {
        self.owned = owned
        requests = Requests(owned.coordinator)
        owned.coordinator.onFailure { [weak requests] in requests?.fail($0) }
    }

    deinit {
        // A broker that is dropped without being stopped loses nothing: admitted jobs take effect.
        if !isStopping.load(ordering: .relaxed) { owned.stopSoon() }
    }

    /// Opens a store, or makes it, and makes it this process's own.
    ///
    /// - Parameters:
    ///   - path: of the SQLite database.
    ///   - model: what the entities are, as `protocol/model.schema.json` has it.
    ///   - overrides: models that change it, each what those before it say (`protocol/core-data.md`).
    ///   - handlers: code that has a say while records become objects.
    /// - Throws: ``OpeningError``; no file was touched then. Among others when another process owns the store, which it
    ///   names, and when the store cannot be made to fit the model without loss.
    public static func open(
        store path: String, model: JSON, overrides: [JSON] = [], handlers: Handlers = Handlers(),
        options: Options = Options()
    ) async throws(OpeningError) -> EmbeddedBroker {
        let plan: StagingPlan
        do throws(ModelError) {
            let model = try ModelReader.read(try document(model, overrides))
            plan = try StagingPlan(model, hooks: try handlers.hooks(for: model))
        } catch {
            throw OpeningError(reason: .model, message: error.faults.map(\.description).joined(separator: "\n"))
        }
        var settings = CoordinatorOptions(storePath: path, limits: options.limits)
        settings.store = options.store
        do throws(StoreError) {
            return EmbeddedBroker(try await OwnedStore.open(plan: plan, options: settings, logger: options.logger))
        } catch {
            throw OpeningError(reason: .store, message: error.message)
        }
    }

    private static func document(_ model: JSON, _ overrides: [JSON]) throws(ModelError) -> ModelDocument {
        let first = overrides.isEmpty ? "" : "the model"
        var document = try ModelDocument(parsing: JSONText(copying: model.bytes), source: first)
        for (index, override) in overrides.enumerated() {
            let text = JSONText(copying: override.bytes)
            document = document.merged(with: try ModelDocument(parsing: text, source: "override \(index + 1)"))
        }
        return document
    }

    // MARK: - Jobs

    /// Applies operations as one job, one after the other and together or not at all, and waits until they are committed.
    ///
    /// - Throws: as ``run(_:)``, or what the making of an operation throws.
    public func run(
        _ operations: Operation..., id: String? = nil, onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await run(Job(operations: operations, id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Applies a job and waits until it is committed.
    ///
    /// Cancelling the task cancels a job that still waits for room, and a job with an id whose merge has not begun: the call
    /// then throws `CancellationError`, and the job has no effect. In every other case the call ends as if its task were not
    /// cancelled.
    ///
    /// - Parameter job: a job with an id is applied once, however often it is run, also by a later process. Paths of
    ///   rejections and faults are JSON Pointers into the job's message, such as `/json/3/hired_at`, or
    ///   `/operations/1/json/…` where it has several operations.
    /// - Throws: `BrokerError.failed` when the job failed or came too late, `refused` when it is no job, `invalidJSON`
    ///   when a text in it is not exactly one JSON value; `outcomeUnknown` when the disk failed: whether it was applied
    ///   is known when the store has been opened again. Later calls are `refused` then with `storeUnavailable`, and the
    ///   only useful call is ``stop()``.
    public func run(_ job: Job) async throws -> Completion {
        let outcome = try await requests.job(
            JSONText(copying: try job.content(id: job.id, wantsAcceptance: false)), id: job.id ?? "")
        return try Completion(outcome, isBrief: job.reply == .none)
    }

    // MARK: - Objects

    /// Fetches objects as JSON: `decode` of the result makes values of them. It sees every job that was run before.
    ///
    /// - Throws: `BrokerError.refused` with the code of the fault; `CancellationError`, and the fetch is interrupted.
    public func fetch(_ fetch: Fetch) async throws -> Fetched {
        let content = ClientMessageWriter.fetch(members: try fetch.members())
        let found = try await requests.fetch(JSONText(copying: content))
        return Fetched(objects: JSON(found.bytes), hasMore: found.hasMore)
    }

    /// Calls that wait for room.
    var waitingCount: Int { requests.waitingCount }

    /// The calls that were admitted and have not ended.
    var inFlightCount: Int { owned.coordinator.admittedCount }

    /// Jobs are staged, but not merged, until ``resumeMerging()``.
    func pauseMerging() -> Bool { owned.coordinator.pause() }

    func resumeMerging() { owned.coordinator.resume() }

    // MARK: - The end

    /// Finishes the admitted jobs, and closes the store: it is one file then, and other processes may open it. Calls
    /// that still wait for room, and later calls, fail with `draining`. May be called any number of times; each call
    /// returns when the store is closed.
    public func stop() async {
        guard !isStopping.exchange(true, ordering: .relaxed) else {
            // Only a cancelled task does not wait for it.
            return (try? await stopped.value()) ?? ()
        }
        requests.close()
        await owned.stop()
        stopped.finish(.success(()))
    }
}

/// A store could not be opened.
public struct OpeningError: Error, Sendable, CustomStringConvertible {
    public enum Reason: Sendable {
        /// The model is wrong.
        case model
        /// The store belongs to another process, cannot be opened, or does not fit the model.
        case store
    }

    public let reason: Reason
    /// What happened and the remedy; for a model, a line for each fault.
    public let message: String

    public var description: String { message }
}
