import BrokerCommandLine
import BrokerStaging
import BrokerStore
import Foundation
import Glibc
import Synchronization

/// The store of a dry run without a server: the store itself where it would be opened unchanged, else a new one or a copy in
/// a temporary folder, so that no store, model or lock is made and nothing is migrated.
struct TrialStore: Sendable {
    let path: String

    init(of store: String, plan: StagingPlan) throws {
        let exists = access(store, F_OK) == 0
        if exists, try Store.planInForce(path: store) != nil, try Store.planInForce(path: store, unlike: plan) == nil {
            path = store
            return
        }
        let folder = try Self.makeFolder()
        path = folder + "/store.sqlite"
        guard exists else { return }
        try Store.copy(store, to: path)
        Program.report(
            "broker: the model differs from the store's, so the dry run uses a copy of the store (in \(folder)):")
    }

    /// An empty store, beside which another one is read.
    init() throws(CommandFailure) {
        path = try Self.makeFolder() + "/store.sqlite"
    }

    private static func makeFolder() throws(CommandFailure) -> String {
        var template = Array((FileManager.default.temporaryDirectory.path + "/broker-dry-run-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CommandFailure(
                .failed, "The dry run cannot make a temporary folder: \(String(cString: strerror(errno))). Set TMPDIR.")
        }
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        made.withLock { $0 = folder }
        return folder
    }

    /// The folder of the dry run; a command does one.
    private static let made = Mutex<String?>(nil)

    /// Removes what the dry run made, also while it is being made.
    static func remove() {
        guard let folder = made.withLock({ $0 }) else { return }
        try? FileManager.default.removeItem(atPath: folder)
    }
}
