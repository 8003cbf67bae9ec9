import BrokerJSON
import BrokerModel

/// A model in the form of `protocol/model.schema.json`.
final class ModelDocumentTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        do {
            try requireReadable(try ModelDocument(parsing: JSONText(copying: input), source: "model.json"))
        } catch let error as ModelError {
            try requireSound(error)
        }
    }
}
