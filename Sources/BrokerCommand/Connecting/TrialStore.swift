import BrokerCommandLine
import BrokerStaging
import BrokerStore
import Foundation
import Glibc

/// The store of a dry run without a server: the store itself where it would be opened unchanged, else a new one or a copy in
/// a temporary folder, so that no store, model or lock is made and nothing is migrated.
struct TrialStore: Sendable {
    let path: String
    /// Nil for the store itself.
    private let folder: String?

    init(of store: String, plan: StagingPlan) throws(CommandFailure) {
        let exists = access(store, F_OK) == 0
        do throws(StoreError) {
            if exists, try Store.planInForce(path: store) != nil,
                try Store.planInForce(path: store, unlike: plan) == nil
            {
                (path, folder) = (store, nil)
                return
            }
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        let folder = try Self.makeFolder()
        path = folder + "/store.sqlite"
        self.folder = folder
        guard exists else { return }
        do throws(StoreError) {
            try Store.copy(store, to: path)
        } catch {
            remove()
            throw CommandFailure(.failed, error.message)
        }
        Program.complain(
            "broker: the model differs from the store's, so the dry run uses a copy of the store (in \(folder)):")
    }

    /// An empty store, beside which another one is read.
    init() throws(CommandFailure) {
        let folder = try Self.makeFolder()
        (path, self.folder) = (folder + "/store.sqlite", folder)
    }

    private static func makeFolder() throws(CommandFailure) -> String {
        var template = Array((FileManager.default.temporaryDirectory.path + "/broker-dry-run-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CommandFailure(
                .failed, "The dry run cannot make a temporary folder: \(String(cString: strerror(errno))). Set TMPDIR.")
        }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes what the dry run made.
    func remove() {
        if let folder { try? FileManager.default.removeItem(atPath: folder) }
    }
}
