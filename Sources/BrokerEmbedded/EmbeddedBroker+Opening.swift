public import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerRequests
internal import BrokerStaging
internal import BrokerStore
public import Logging

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

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
    ///   - overrides: models that change it, each what those before it say (`protocol/core-data.md`).
    ///   - handlers: code that has a say while records become objects.
    ///   - logger: receives what an operator should know: another program that locks the store, a WAL that grows.
    /// - Throws: ``/Broker/BrokerError`` with ``/Broker/BrokerError/Code/invalidModel`` and a line for each fault, or with
    ///   ``/Broker/BrokerError/Code/cannotOpen``: another process owns the store, which the message names, or the store cannot be
    ///   made to fit the model without loss. No file was touched then.
    public static func open(
        store: StoreLocation, model: ModelSource, overrides: [ModelSource] = [], handlers: Handlers = Handlers(),
        configuration: EmbeddedBrokerConfiguration = EmbeddedBrokerConfiguration(),
        logger: Logger = Logger(label: "broker.embedded", factory: { _ in SwiftLogNoOpLogHandler() })
    ) async throws(BrokerError) -> EmbeddedBroker {
        try await open(
            store, model, overrides, handlers, configuration, logger, observation: JobObservation(.embedded))
    }

    static func open(
        _ store: StoreLocation, _ model: ModelSource, _ overrides: [ModelSource], _ handlers: Handlers,
        _ configuration: EmbeddedBrokerConfiguration, _ logger: Logger, observation: JobObservation
    ) async throws(BrokerError) -> EmbeddedBroker {
        let document = try document(model, overrides)
        let plan: StagingPlan
        do throws(ModelError) {
            let model = try ModelReader.read(try document.get())
            plan = try StagingPlan(model, hooks: try handlers.hooks(for: model))
        } catch {
            throw BrokerError(.invalidModel, error.faults.map(\.description).joined(separator: "\n"))
        }
        let folder = store.path == nil ? try TemporaryStore() : nil
        let path = store.path ?? folder?.path ?? ""
        var settings = CoordinatorOptions(storePath: path, limits: configuration.limits)
        settings.store = configuration.store
        await StoppingStores.wait(path)
        do throws(StoreError) {
            return EmbeddedBroker(
                try await OwnedStore.open(plan: plan, options: settings, logger: logger), path: path, folder: folder,
                observation: observation)
        } catch {
            throw BrokerError(.cannotOpen, error.message)
        }
    }

    private static func document(
        _ model: ModelSource, _ overrides: [ModelSource]
    ) throws(BrokerError) -> Result<ModelDocument, ModelError> {
        let texts = [try text(of: model)] + (try overrides.map { source throws(BrokerError) in try text(of: source) })
        return Result { () throws(ModelError) in
            var document = try ModelDocument(parsing: texts[0], source: overrides.isEmpty ? "" : "the model")
            for (index, text) in texts.enumerated().dropFirst() {
                document = document.merged(with: try ModelDocument(parsing: text, source: "override \(index)"))
            }
            return document
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
