import BrokerCommandLine
import BrokerInput
import BrokerModel
import BrokerStaging
import Foundation

/// The result of sampling an input for a store without a given model: the position of the records, and, if the store
/// has no model of its own, the inferred model.
struct InferredModel {
    /// The position of the records in each value of the input, if it was found.
    let root: RecordRoot?
    let model: LocalModel

    /// Uses the model that the store has or that lies beside it, or infers one, and says so.
    ///
    /// - Parameter model: what the store has or lies beside it.
    init(of store: String, model: LocalModel?, entity: String, _ sources: [RecordSource]) async throws {
        let samples = try await SampleRecords(
            of: sources, entity: entity, limit: model == nil ? SampleRecords.mostRecords : 1)
        root = samples.root
        samples.reportRoot()
        if let model {
            self.model = model
            switch model {
            case .files(let files):
                Program.complain("broker: the model is \(files[0]), beside the store; --model selects another.")
            case .inForce: Program.complain("broker: the model is the one in the store; --model selects another.")
            case .inferred: break
            }
            return
        }
        let count = samples.inference.recordCount
        guard count > 0 else {
            throw CommandFailure(
                .failed, "There is no model, and no record to infer one from. Give --model, or an input with records.")
        }
        self.model = .inferred(
            try Inference(samples.document, from: count, file: LocalModel.file(besideStore: store)))
    }
}

/// A model that was inferred from sample records.
struct Inference {
    let plan: StagingPlan
    private let text: String
    private let recordCount: Int
    private let file: String

    init(_ document: ModelDocument, from recordCount: Int, file: String) throws {
        text = document.root.indentedJSON + "\n"
        plan = try StagingPlan(ModelReader.read(document))
        self.recordCount = recordCount
        self.file = file
    }

    /// Writes the model beside its store, and says so. The store is open then, and holds the model, too.
    func write() {
        let records = "\(recordCount) record\(recordCount == 1 ? "" : "s")"
        do {
            // Never over a file that another program has made meanwhile.
            try Data(text.utf8).write(to: URL(filePath: file), options: .withoutOverwriting)
        } catch {
            return Program.complain(
                "broker: no --model was given, so one was inferred from \(records). It is in the store; it cannot be "
                    + "written to \(file): \(error.localizedDescription)")
        }
        Program.complain(
            "broker: no --model was given, so one was inferred from \(records) and written to \(file). Look at its "
                + "guesses before much is stored; it is used from now on.")
    }
}
