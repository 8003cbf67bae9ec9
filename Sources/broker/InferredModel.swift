import BrokerCommandLine
import BrokerFormats
import Foundation
import Glibc

/// The model of a store that was given none: beside the store, made when it is not there.
struct InferredModel {
    /// The model's file.
    let path: String
    /// Where the records are in each value of the input, if that was found out.
    let root: RecordRoot?

    /// `app.model.json` of `app.sqlite`.
    static func path(besideStore store: String) -> String {
        for ending in [".sqlite3", ".sqlite", ".db"] where store.hasSuffix(ending) {
            return store.dropLast(ending.count) + ".model.json"
        }
        return store + ".model.json"
    }

    static func exists(besideStore store: String) -> Bool { access(path(besideStore: store), F_OK) == 0 }

    /// Uses the model that lies beside the store, or infers one from the input's first records, says so, and writes it there.
    init(besideStore store: String, entity: String, _ sources: [RecordSource]) async throws {
        path = Self.path(besideStore: store)
        let isThere = Self.exists(besideStore: store)
        let samples = try await SampleRecords(
            of: sources, entity: entity, limit: isThere ? 1 : SampleRecords.mostRecords)
        root = samples.root
        samples.tellRoot()
        guard !isThere else {
            Program.complain("broker: the model is \(path), beside the store; --model says otherwise.")
            return
        }
        let count = samples.inference.recordCount
        guard count > 0 else {
            throw CommandFailure(
                .failed, "There is no model, and no record to infer one from. Give --model, or an input with records.")
        }
        do {
            // Never over a file that somebody has made meanwhile.
            try Data((samples.document.root.indentedJSON + "\n").utf8).write(
                to: URL(filePath: path), options: .withoutOverwriting)
        } catch {
            throw CommandFailure(
                .failed, "The inferred model cannot be written to \(path): \(error.localizedDescription)")
        }
        Program.complain(
            "broker: no --model was given, so one was inferred from \(count) record\(count == 1 ? "" : "s") and written to "
                + "\(path). Look at its guesses before much is stored; it is used from now on.")
    }
}
