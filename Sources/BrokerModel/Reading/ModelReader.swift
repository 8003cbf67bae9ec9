package import BrokerJSON

/// Reads a model from its JSON form (`protocol/model.schema.json`), from any source, and checks it completely.
///
/// A model that is read has the properties that ``Model`` promises: indices in range, names unique, inverses on both
/// sides. An unknown field is a fault, so that a typing error is always reported; only `$schema` and `description` are
/// allowed everywhere, and have no effect. A model that exceeds ``ModelLimits`` is reported before anything else is
/// read.
package enum ModelReader {
    /// - Throws: ``ModelError`` with every fault in the order of the document; text that is no JSON is one fault.
    package static func read(_ text: JSONText) throws(ModelError) -> Model {
        try read(ModelDocument(parsing: text))
    }

    /// - Throws: ``ModelError`` with every fault in the order of the document.
    package static func read(_ document: ModelDocument) throws(ModelError) -> Model {
        let faults = ModelFaultLog(of: document)
        let root = ModelNode(value: document.root, pointer: "", faults: faults)
        let parts = ModelLimits.check(root) ? read(root) : nil
        guard faults.isEmpty, let parts else { throw ModelError(faults: faults.inDocumentOrder) }
        return Model(
            entities: parts.entities, mappings: parts.mappings, routes: parts.routes,
            description: document.root["description"]?.string, inferred: document.root["inferred"]?.string)
    }

    private static let longestMark = 100

    /// Only meaningful when no fault was reported; nil when nothing could be linked.
    private static func read(_ root: ModelNode) -> (entities: [Entity], mappings: [Mapping], routes: [Route])? {
        guard let fields = ModelFields(of: root, vocabulary: .model) else { return nil }
        if let node = fields["inferred"], let mark = node.string(), mark.utf8.count > longestMark {
            node.report("\"inferred\" has more than \(longestMark) bytes; take it out: `broker submit` writes it")
        }
        let keyStyle: KeyStyle = fields["keyStyle"]?.choice() ?? .exact
        guard let node = fields["entities"] else {
            root.report("a model needs \"entities\"; add an object of entities by name")
            return nil
        }
        guard let members = node.members(expected: "an object of entities by name") else { return nil }
        if members.isEmpty { node.report("the model has no entity; add one, or nothing can be stored") }
        let reader = EntityReader(keyStyle: keyStyle)
        var linker = ModelLinker(members.map(reader.read))
        var entities = linker.link()
        let mappings = MappingReader(
            fields["mappings"]?.members(expected: "an object of mappings by name") ?? [], entities)
        let read = mappings.read()
        mappings.resolveRelationships(of: linker.drafts, in: &entities, read)
        let routes = fields["routes"]?.elements(expected: "an array of routes", mayBeEmpty: true) ?? []
        return (entities, read, RouteReader(mappings: mappings).read(routes))
    }
}
