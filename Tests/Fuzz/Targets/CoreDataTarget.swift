import BrokerModelSources
import BrokerJSON
import BrokerModel

/// The XML of a Core Data model: what is made of it is a model document, which can be written as JSON and read again.
final class CoreDataTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        do {
            let document = try CoreDataModel.read(contents: Array(input), source: "contents")
            var writer = JSONWriter()
            document.root.write(to: &writer)
            do {
                _ = try ModelDocument(parsing: JSONText(copying: writer.bytes))
            } catch {
                throw FuzzFinding(description: "a model document that was made of XML is no JSON: \(error)")
            }
            try requireReadable(document)
        } catch let error as ModelError {
            try requireSound(error)
        }
    }
}
