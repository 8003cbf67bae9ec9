/// The fields of one of the model's objects, all of them known.
struct ModelFields {
    let node: ModelNode
    /// For people; allowed in every object.
    private(set) var description: String?
    private var nodes: [String: ModelNode] = [:]

    /// Nil, with a report, when the node is no object. Fields outside of its vocabulary are reported and omitted.
    init?(of node: ModelNode, vocabulary: ModelVocabulary) {
        guard let members = node.members(expected: "an object that describes \(vocabulary.subject)") else { return nil }
        self.node = node
        for member in members {
            if vocabulary.fields.contains(member.name) {
                nodes[member.name] = member.node
            } else if member.name == "description" {
                description = member.node.string()
            } else {
                let question = NearMiss.question(member.name, among: vocabulary.fields)
                member.key.report("\(vocabulary.subject) has no field \"\(member.name)\"" + question)
            }
        }
    }

    subscript(name: String) -> ModelNode? { nodes[name] }

    /// The field's boolean; false when it is absent.
    func flag(_ name: String) -> Bool { nodes[name]?.bool() ?? false }
}

/// The possible fields of one kind of the model's objects.
struct ModelVocabulary: Sendable {
    /// The kind as in a sentence: "an entity".
    let subject: String
    let fields: [String]

    static let model = ModelVocabulary(
        subject: "a model", fields: ["$schema", "keyStyle", "inferred", "entities", "mappings", "routes"])

    static let entity = ModelVocabulary(
        subject: "an entity",
        fields: [
            "table", "root", "ignore", "identity", "identityOptional", "attributes", "relationships", "unique",
            "indexes",
            "parent", "abstract", "modified", "tombstone", "renamedFrom",
        ])

    static let attribute = ModelVocabulary(
        subject: "an attribute",
        fields: [
            "type", "key", "optional", "default", "defaultWhenMissing", "format", "formats", "timeZone", "min", "max",
            "minLength",
            "maxLength", "pattern", "enum", "transform", "onInvalid", "indexed", "unique", "storage", "scale",
            "precision",
            "renamedFrom",
        ])

    static let relationship = ModelVocabulary(
        subject: "a relationship",
        fields: [
            "entity", "toMany", "inverse", "key", "deleteRule", "assignment", "missing", "none", "ordered", "owned",
            "mapping", "renamedFrom",
        ])

    static let mapping = ModelVocabulary(
        subject: "a mapping", fields: ["entity", "attributes", "relationships", "nestingKey", "collection", "select"])

    static let mappedRelationship = ModelVocabulary(
        subject: "a mapped relationship", fields: ["relationship", "mapping"])

    static let select = ModelVocabulary(subject: "a select", fields: ["key", "cases", "otherwise"])

    static let route = ModelVocabulary(subject: "a route", fields: ["path", "keyPath", "mapping", "error"])
}
