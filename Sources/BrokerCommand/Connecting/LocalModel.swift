import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerModelSources
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
        let hasFile = access(file, F_OK) == 0
        do throws(StoreError) {
            guard let plan = try Store.planInForce(path: store) else {
                guard hasFile else { return nil }
                self = .files([file])
                return
            }
            self = hasFile && !Self.isOutdated(file, plan.model) ? .files([file]) : .inForce(plan)
        } catch {
            // To open it with the file's model says the same.
            guard hasFile else { throw CommandFailure(.failed, error.message) }
            self = .files([file])
        }
    }

    /// Both were inferred and are as they were then, but the file was not written again when the store's was extended.
    private static func isOutdated(_ file: String, _ model: Model) -> Bool {
        guard InferredMark.isUnedited(model), let document = try? ModelFile([file]).document(),
            let other = try? ModelReader.read(document)
        else { return false }
        return other.inferred != model.inferred && InferredMark.isUnedited(other)
    }

    /// `app.model.json` of `app.sqlite`.
    static func file(besideStore store: String) -> String {
        for ending in [".sqlite3", ".sqlite", ".db"] where store.hasSuffix(ending) {
            return store.dropLast(ending.count) + ".model.json"
        }
        return store + ".model.json"
    }

    /// The model as a tree, to be changed.
    func documentAndPlan() throws -> (ModelDocument, StagingPlan) {
        switch self {
        case .files(let files): return try ModelFile(files).readOrComplain()
        case .inForce(let plan):
            var writer = JSONWriter()
            plan.model.write(to: &writer)
            return (try ModelDocument(parsing: JSONText(copying: writer.bytes)), plan)
        case .inferred(let model): return (model.document, model.plan)
        }
    }

    /// Says which model is used.
    func report() {
        switch self {
        case .files(let files):
            Program.complain("broker: the model is \(files[0]), beside the store; --model selects another.")
        case .inForce: Program.complain("broker: the model is the one in the store; --model selects another.")
        case .inferred: break
        }
    }

    /// - Throws: when the model has faults, which are not reported.
    func silentPlan() throws(CommandFailure) -> StagingPlan {
        switch self {
        case .files(let files): try ModelFile(files).plan()
        case .inForce(let plan): plan
        case .inferred(let model): model.plan
        }
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
