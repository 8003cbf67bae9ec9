import BrokerCommandLine
import BrokerStaging
import BrokerStore
import Glibc

/// The model of a store that a command opens itself: what `--model` names, else the file beside the store, else the model
/// in force, which the store holds.
enum LocalModel {
    /// Each changes what those before it say.
    case files([String])
    case inForce(StagingPlan)
    /// Written beside the store once that is open.
    case inferred(Inference)

    /// The model of a store without `--model`; nil when there is none.
    init?(ofStore store: String) throws(CommandFailure) {
        let file = Self.file(besideStore: store)
        guard access(file, F_OK) != 0 else {
            self = .files([file])
            return
        }
        do throws(StoreError) {
            guard let plan = try Store.planInForce(path: store) else { return nil }
            self = .inForce(plan)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }

    /// `app.model.json` of `app.sqlite`.
    static func file(besideStore store: String) -> String {
        for ending in [".sqlite3", ".sqlite", ".db"] where store.hasSuffix(ending) {
            return store.dropLast(ending.count) + ".model.json"
        }
        return store + ".model.json"
    }

    /// - Throws: when the model has faults; they are on standard error.
    func plan() throws(CommandFailure) -> StagingPlan {
        switch self {
        case .files(let files): try ModelFile(files).planOrComplain()
        case .inForce(let plan): plan
        case .inferred(let model): model.plan
        }
    }
}
