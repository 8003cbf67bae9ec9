internal import BrokerJSON
package import BrokerModel

/// The mark of a model that was inferred: a digest of all else in it, which shows whether a person has edited it.
package enum InferredMark {
    /// The document with its mark.
    package static func marked(_ document: ModelDocument) throws(ModelError) -> ModelDocument {
        var document = document
        document.root.set(["inferred"], ModelValue(.string(digest(of: try ModelReader.read(document))), at: .unknown))
        return document
    }

    /// The model was inferred, and is as it was then.
    package static func isUnedited(_ model: Model) -> Bool { model.inferred.map { $0 == digest(of: model) } ?? false }

    /// The mapping that reads the entity's objects by their keys; nil when there is none.
    package static func keyMapping(of entity: String, in model: Model) -> String? {
        model.index(ofEntity: entity).flatMap { KnownModel(model).keyMapping(of: $0) }
    }

    private static func digest(of model: Model) -> String {
        var writer = JSONWriter()
        model.write(to: &writer, inferred: nil)
        // FNV-1a, 64 bits (RFC 9923).
        let hash = writer.bytes.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        return String(hash, radix: 16)
    }
}
