public import BrokerJSON

/// Reads a model from its JSON form (`protocol/model.schema.json`), whatever source that has, and checks it whole.
///
/// A model that is read holds what ``Model`` promises: indices in range, names unique, inverses true on both sides.
/// A field that the form does not have is a fault, so that a typing error never passes as silence; only `$schema`
/// and `description` may stand beside the fields, and mean nothing.
public enum ModelReader {
    /// - Throws: ``ModelError`` with every fault in the order of the document; text that is no JSON is one fault.
    public static func read(_ text: JSONText) throws(ModelError) -> Model {
        try read(ModelDocument(parsing: text))
    }

    /// - Throws: ``ModelError`` with every fault in the order of the document.
    public static func read(_ document: ModelDocument) throws(ModelError) -> Model {
        let faults = ModelFaultLog(of: document)
        let entities = readEntities(in: ModelNode(value: document.root, pointer: "", faults: faults))
        guard faults.isEmpty else { throw ModelError(faults: faults.inDocumentOrder) }
        return Model(entities: entities)
    }

    private static func readEntities(in root: ModelNode) -> [Entity] {
        guard let fields = ModelFields(of: root, vocabulary: .model) else { return [] }
        // Mappings and routes have no effect on `process`, so here only their shape matters.
        if let mappings = fields["mappings"], mappings.value.kind != .object {
            mappings.reportExpected("an object of mappings by name")
        }
        if let routes = fields["routes"], routes.value.kind != .array { routes.reportExpected("an array of routes") }
        let keyStyle: KeyStyle = fields["keyStyle"]?.choice() ?? .exact
        guard let node = fields["entities"] else {
            root.report("a model needs \"entities\"; add an object of entities by name")
            return []
        }
        guard let members = node.members(expected: "an object of entities by name") else { return [] }
        if members.isEmpty { node.report("the model has no entity; add one, or nothing can be stored") }
        let reader = EntityReader(keyStyle: keyStyle)
        var linker = ModelLinker(members.map(reader.read))
        return linker.link()
    }
}
