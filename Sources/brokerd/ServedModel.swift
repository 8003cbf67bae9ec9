import BrokerCommandLine
import BrokerModel
import BrokerModelSources
import BrokerStaging
import BrokerStore
import Foundation
import Logging
import Synchronization

/// The model of a server, which it reads again, and whose file it extends if the model evolves: then keys that only `_extra` has become
/// attributes, of the types that all their values fit.
final class ServedModel: Sendable {
    let files: [String]
    let store: String
    private let logger: Logger
    /// The text of the file that was extended, until the store has the attributes.
    private let before = Mutex<Data?>(nil)

    init(files: [String], store: String, _ logger: Logger) {
        (self.files, self.store, self.logger) = (files, store, logger)
    }

    /// - Parameter isDryRun: the file stays as it is.
    func read(isDryRun: Bool = false) -> Result<StagingPlan, Fault> {
        let file = ModelFile(files)
        do throws(ModelError) {
            let document = try file.document()
            let plan = try StagingPlan(ModelReader.read(document))
            return .success(plan.model.evolves ? extended(document, plan, isDryRun) : plan)
        } catch {
            let faults = error.faults.map(\.description).joined(separator: "; ")
            return .failure(Fault(.validationFailed, "The model \(file.name) cannot be used: \(faults)"))
        }
    }

    private func extended(_ document: ModelDocument, _ plan: StagingPlan, _ isDryRun: Bool) -> StagingPlan {
        do {
            guard files.count == 1 else { return plan }
            let store = store
            let changes = try ModelExtension(promotingIn: plan.model) { try Store.forEachExtra(path: store, $0) }
            guard !changes.isEmpty else { return plan }
            let extended = changes.applied(to: document)
            let wider = try StagingPlan(ModelReader.read(extended))
            guard !isDryRun else { return wider }
            let text = try Data(contentsOf: URL(filePath: files[0]))
            try Data((extended.root.indentedJSON + "\n").utf8).write(to: URL(filePath: files[0]), options: .atomic)
            before.withLock { $0 = text }
            return wider
        } catch {
            logger.warning(
                "Keys of _extra did not become attributes, and stay there; `broker model promote` names the fault: \(error)"
            )
            return plan
        }
    }

    /// The store has the model that was read, or keeps the one before.
    func ended(isApplied: Bool) {
        guard let text = before.withLock({ $0.take() }), !isApplied else { return }
        do {
            try text.write(to: URL(filePath: files[0]), options: .atomic)
        } catch {
            logger.error("\(files[0]) has attributes that the store has not, and could not be put back: \(error)")
        }
    }
}
