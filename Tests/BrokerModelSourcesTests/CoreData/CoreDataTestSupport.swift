import BrokerModelSources
import BrokerJSON
import BrokerModel
import Testing

/// A model of the shape that Xcode writes, around some of its elements.
func contents(_ elements: String) -> String {
    """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" minimumToolsVersion="Automatic">
    \(elements)
    </model>
    """
}

func document(_ elements: String) throws -> ModelDocument {
    try CoreDataModel.read(contents: Array(contents(elements).utf8), source: "contents")
}

/// An entity `A` with these attributes and other elements.
func documentOfA(_ inside: String) throws -> ModelDocument {
    try document("<entity name=\"A\" syncable=\"YES\">\n\(inside)\n</entity>")
}

extension ModelDocument {
    /// A part of the tree as JSON, by names; nil when it is not there.
    func json(_ path: String...) -> String? {
        var value: ModelValue? = root
        for name in path { value = value?[name] }
        guard let value else { return nil }
        var writer = JSONWriter()
        value.write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    func attribute(_ name: String, of entity: String = "A") -> String? {
        json("entities", entity, "attributes", name)
    }

    func relationship(_ name: String, of entity: String = "A") -> String? {
        json("entities", entity, "relationships", name)
    }

    /// The notes about a part: "kind: message".
    func notes(_ pointer: String) -> [String] {
        notes.filter { $0.place.pointer == pointer }.map { "\($0.kind.rawValue): \($0.message)" }
    }

    /// The faults, here or of the reader, as "line: message".
    var allFaults: [String] {
        do throws(ModelError) {
            _ = try ModelReader.read(self)
            return []
        } catch {
            return error.faults.map { "\($0.place.line): \($0.message)" }
        }
    }
}
