import BrokerJSON
import BrokerModel
import BrokerStaging

@testable import BrokerModelSources

/// Records from which a model is inferred.
struct Samples {
    private var inference: SampleInference

    init(_ entity: String, _ records: String, isMap: Bool = false, readsTexts: Bool = false) throws {
        inference = SampleInference(entity: entity, readsTexts: readsTexts)
        let document = try JSONDocument(parsing: JSONText(copying: Array(records.utf8)))
        withExtendedLifetime(document) { inference.observe(document.root, isMap: isMap) }
    }

    func inferred(
        isComplete: Bool = true, identities: [String: [String]] = [:], ignored: [String: [String]] = [:],
        extending model: Model? = nil
    ) -> InferredText {
        inference.model(isComplete: isComplete, identities: identities, ignored: ignored, extending: model)
    }

    /// The inferred model, and its document.
    func model() throws -> (model: Model, document: ModelDocument) {
        let document = try ModelDocument(parsing: JSONText(copying: Array(inferred().text.utf8)))
        return (try StagingPlan(ModelReader.read(document)).model, document)
    }
}

extension ModelExtension {
    /// No part of the model is other than before; there are new ones.
    var onlyAdds: Bool { changes.allSatisfy(\.change.isAddition) }
}
