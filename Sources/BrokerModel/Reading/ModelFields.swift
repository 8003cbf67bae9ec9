/// The fields of one of the model's objects, all of them known.
struct ModelFields {
    let node: ModelNode
    private var nodes: [String: ModelNode] = [:]

    /// Nil, and reported, when the node is no object. Fields that its vocabulary lacks are reported and left out.
    init?(of node: ModelNode, vocabulary: ModelVocabulary) {
        guard let members = node.members(expected: "an object that describes \(vocabulary.subject)") else { return nil }
        self.node = node
        for member in members {
            if vocabulary.fields.contains(member.name) {
                nodes[member.name] = member.node
            } else if let meaning = vocabulary.later[member.name] {
                member.key.report(Self.refusal(of: "\"\(member.name)\"", meaning: meaning))
            } else if member.name == "description" {
                _ = member.node.string()
            } else {
                let question = NearMiss.question(member.name, among: vocabulary.fields)
                member.key.report("\(vocabulary.subject) has no field \"\(member.name)\"" + question)
            }
        }
    }

    subscript(name: String) -> ModelNode? { nodes[name] }

    /// The field as true or false; false when it is absent.
    func flag(_ name: String) -> Bool { nodes[name]?.bool() ?? false }

    /// Reports a field that may only be false as long as this version cannot do what it asks for.
    func refuseIfTrue(_ name: String, meaning: String) {
        guard let node = nodes[name], node.bool() == true else { return }
        node.report(Self.refusal(of: "\"\(name)\": true", meaning: meaning))
    }

    private static func refusal(of field: String, meaning: String) -> String {
        "\(field) (\(meaning)) is not supported by this version of Broker; take it out"
    }
}

/// The fields that one kind of the model's objects may have.
struct ModelVocabulary: Sendable {
    /// As it stands in a sentence: "an entity".
    let subject: String
    let fields: [String]
    /// Fields of the form that this version refuses, and what they mean. To ignore them would lose data silently.
    var later: [String: String] = [:]

    static let model = ModelVocabulary(
        subject: "a model", fields: ["$schema", "keyStyle", "entities", "mappings", "routes"])

    static let entity = ModelVocabulary(
        subject: "an entity",
        fields: [
            "table", "root", "identity", "identityOptional", "attributes", "relationships", "unique", "indexes",
            "abstract", "modified", "tombstone", "renamedFrom",
        ],
        later: ["parent": "inheritance"])

    static let attribute = ModelVocabulary(
        subject: "an attribute",
        fields: [
            "type", "key", "optional", "default", "format", "formats", "timeZone", "min", "max", "minLength",
            "maxLength", "pattern", "enum", "transform", "onInvalid", "indexed", "unique", "storage",
            "renamedFrom",
        ])

    static let relationship = ModelVocabulary(
        subject: "a relationship",
        fields: [
            "entity", "toMany", "inverse", "key", "deleteRule", "assignment", "missing", "ordered", "renamedFrom",
        ],
        later: ["mapping": "a named mapping for its values"])
}
