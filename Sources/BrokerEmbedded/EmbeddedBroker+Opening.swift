public import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore
internal import FoundationEssentials
public import Logging

extension EmbeddedBroker {
    /// Where a store is.
    public struct StoreLocation: Sendable, Hashable {
        /// Nil of a temporary one.
        let path: String?

        /// The path of the SQLite database, which is made if there is none.
        public static func file(_ path: String) -> StoreLocation { StoreLocation(path: path) }

        /// A new store, in memory where the system has a file system in memory, that is deleted when the broker is stopped or
        /// dropped.
        public static let temporary = StoreLocation(path: nil)
    }

    /// Where a model is.
    public struct ModelSource: Sendable, Hashable {
        enum Place: Hashable {
            case file(String)
            case json(RawJSON)
        }

        let place: Place

        /// A file, in the form of `protocol/model.schema.json`.
        public static func file(_ path: String) -> ModelSource { ModelSource(place: .file(path)) }

        /// JSON text, in the form of `protocol/model.schema.json`.
        public static func json(_ text: some JSONTextSource) -> ModelSource {
            ModelSource(place: .json(text.makeJSON()))
        }
    }

    /// Opens a store, or makes it, and makes it this process's own.
    ///
    /// - Parameters:
    ///   - model: what the entities are.
    ///   - overrides: models that change it, each what those before it say (`protocol/models.md`, Several models for one store).
    ///   - handlers: code that has a say while records become objects.
    ///   - logger: receives what an operator should know: another program that locks the store, a WAL that grows.
    /// - Throws: ``/Broker/BrokerError`` with ``/Broker/BrokerError/Code/invalidModel`` and a line for each fault, or with
    ///   ``/Broker/BrokerError/Code/cannotOpen``: another process owns the store, which the message names, or the store cannot be
    ///   made to fit the model without loss. No file was touched then.
    public static func open(
        store: StoreLocation, model: ModelSource, overrides: [ModelSource] = [], handlers: Handlers = Handlers(),
        configuration: EmbeddedBroker.Configuration = EmbeddedBroker.Configuration(),
        logger: Logger = Logger(label: "broker.embedded", factory: { _ in SwiftLogNoOpLogHandler() })
    ) async throws(BrokerError) -> EmbeddedBroker {
        try await open(
            store, model, overrides, handlers, configuration, logger, observation: CallObservation(.embedded))
    }

    static func open(
        _ store: StoreLocation, _ model: ModelSource, _ overrides: [ModelSource], _ handlers: Handlers,
        _ configuration: EmbeddedBroker.Configuration, _ logger: Logger, observation: CallObservation
    ) async throws(BrokerError) -> EmbeddedBroker {
        let texts = try ([model] + overrides).map { source throws(BrokerError) in try text(of: source) }
        let plan: StagingPlan
        do throws(ModelError) {
            var document = try ModelDocument(parsing: texts[0], source: overrides.isEmpty ? "" : "the model")
            for (index, text) in texts.enumerated().dropFirst() {
                document = document.merged(with: try ModelDocument(parsing: text, source: "override \(index)"))
            }
            let model = try ModelReader.read(document)
            plan = try StagingPlan(model, hooks: try handlers.hooks(for: model))
        } catch {
            throw BrokerError(.invalidModel, error.faults.map(\.description).joined(separator: "\n"))
        }
        let folder = store.path == nil ? try TemporaryStore() : nil
        let path = store.path ?? folder?.path ?? ""
        var settings = CoordinatorOptions(storePath: path, limits: configuration.limits)
        settings.store = configuration.store
        guard let removal = RemovalPolicy.Choice(rawValue: configuration.removedParts.rawValue) else {
            throw BrokerError(
                .unsupported, "There is no treatment of removed parts \"\(configuration.removedParts.rawValue)\".")
        }
        settings.store.removal = RemovalPolicy(removal)
        await StoppingStores.wait(path)
        do throws(StoreError) {
            return EmbeddedBroker(
                try await OwnedStore.open(plan: plan, options: settings, logger: logger), path: path, folder: folder,
                observation: observation)
        } catch {
            throw BrokerError(.cannotOpen, error.message)
        }
    }

    private static func text(of source: ModelSource) throws(BrokerError) -> JSONText {
        switch source.place {
        case .json(let json): return JSONText(copying: json.bytes)
        case .file(let path):
            do throws(RegularFile.Refusal) {
                return JSONText(copying: try RegularFile.bytes(of: path, limit: ModelLimits.largestFile))
            } catch {
                throw BrokerError(.invalidModel, "The model \(path) \(error.reason).")
            }
        }
    }
}

/// The folder of a temporary store; deleted with this object.
final class TemporaryStore: Sendable {
    let path: String
    private let folder: String

    /// The file system in memory of Linux; elsewhere, the system's folder for temporary files.
    private static let memory = "/dev/shm"

    init() throws(BrokerError) {
        let files = FileManager.default
        let place = files.isWritableFile(atPath: Self.memory) ? Self.memory : files.temporaryDirectory.path
        folder = "\(place)/broker-\(UUID().uuidString)"
        path = "\(folder)/store.sqlite"
        do {
            try files.createDirectory(
                atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            throw BrokerError(.cannotOpen, "The folder of a temporary store cannot be made: \(error)")
        }
    }

    func delete() { try? FileManager.default.removeItem(atPath: folder) }

    deinit { delete() }
}

extension EmbeddedBroker {
    /// How much a broker takes on at once, and how durable it is.
    public struct Configuration: Sendable {
        /// When SQLite waits for the disk.
        public struct Durability: Sendable, Hashable {
            let synchronous: Synchronous

            /// At every COMMIT: a completed job survives a power failure.
            public static let full = Durability(synchronous: .full)
            /// When the WAL is copied: a completed job survives a crash of the process, not of the machine.
            public static let normal = Durability(synchronous: .normal)
            /// Never: for tests, and for stores that can be made again.
            public static let off = Durability(synchronous: .off)
        }

        var limits = CoordinatorLimits()
        var store = StoreOptions()

        /// The defaults.
        public init() {}

        /// Threads that stage large jobs; there is one more for small ones. As many as there are processors, at least two.
        public var workers: Int {
            get { limits.workers }
            set { limits.workers = max(1, newValue) }
        }

        /// Bytes of memory for one job: some five times the bytes of its JSON. 128 MiB.
        public var jobMemory: Int {
            get { limits.jobMemory }
            set { limits.jobMemory = newValue }
        }

        /// Bytes of memory for the jobs in work, but for the first. 64 MiB.
        public var memory: Int {
            get { limits.memory }
            set { limits.memory = newValue }
        }

        /// ``Durability/full``.
        public var durability: Durability {
            get { Durability(synchronous: store.synchronous) }
            set { store.synchronous = newValue.synchronous }
        }

        /// How many outcomes are remembered, and with them the ids that are applied once. A million.
        public var outcomesKept: Int {
            get { store.retention.count }
            set { store.retention.count = newValue }
        }

        /// For how long. A week.
        public var outcomesKeptFor: Duration {
            get { .seconds(store.retention.seconds) }
            set { store.retention.seconds = Int(newValue.components.seconds) }
        }

        /// Bytes of the keys that are stored for followers of the feed, the oldest deleted first; 0 stores none. 64 MiB.
        public var feedBytes: Int {
            get { store.feedBytes }
            set { store.feedBytes = max(0, newValue) }
        }

        /// The treatment of tables and columns that the model no longer has. ``/Broker/RemovedParts/refuse``: the store is not opened, and
        /// the error lists them.
        public var removedParts = RemovedParts.refuse

        /// Permissions of the store's files, whatever the umask is; nil makes new ones readable by their owner only and does not
        /// change existing ones.
        public var fileMode: UInt32? {
            get { store.fileMode }
            set { store.fileMode = newValue }
        }
    }
}
