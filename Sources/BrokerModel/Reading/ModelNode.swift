internal import BrokerJSON

/// A value of the model's document with its pointer, which reports its faults.
///
/// The reading functions return nil after they reported a fault.
struct ModelNode {
    let value: ModelValue
    let pointer: String
    let faults: ModelFaultLog

    var place: ModelPlace { faults.place(of: self) }

    func report(_ message: String) {
        faults.report(message, at: self)
    }

    func reportExpected(_ expected: String) {
        report("expected \(expected), saw \(value.kind.phrase)")
    }

    /// Reports a fault, so that there is no value.
    func refuse<Value>(_ message: String) -> Value? {
        report(message)
        return nil
    }

    func refuseExpected<Value>(_ expected: String) -> Value? {
        reportExpected(expected)
        return nil
    }
}

struct ModelMember {
    let name: String
    /// Positioned at the key, for faults of the name; its pointer is the value's.
    let key: ModelNode
    let node: ModelNode
}

// MARK: - Scalars

extension ModelNode {
    var isEmptyArray: Bool { value.kind == .array && value.elements.first { _ in true } == nil }

    /// A string that is not empty.
    func string() -> String? {
        guard let string = value.string else { return refuseExpected("a string") }
        guard !string.isEmpty else { return refuse("the string is empty; write a value or take the field out") }
        return string
    }

    func bool() -> Bool? {
        guard let bool = value.bool else { return refuseExpected("true or false") }
        return bool
    }

    /// A whole number from 0.
    func count() -> Int? {
        guard let number = value.int64, let count = Int(exactly: number), count >= 0 else {
            return refuseExpected("a whole number from 0 on")
        }
        return count
    }

    func choice<Choice: CaseIterable & RawRepresentable<String>>() -> Choice? {
        if let choice = value.string.flatMap(Choice.init) { return choice }
        let names = Choice.allCases.map(\.rawValue)
        let expected = "one of " + names.map { "\"\($0)\"" }.joined(separator: ", ")
        guard let seen = value.string else { return refuseExpected(expected) }
        return refuse("expected \(expected), saw \"\(seen)\"" + NearMiss.question(seen, among: names))
    }
}

// MARK: - Containers

extension ModelNode {
    /// The members of an object in order; a key that occurs twice is reported and returned once.
    func members(expected: String) -> [ModelMember]? {
        guard value.kind == .object else { return refuseExpected(expected) }
        var lines: [ExactText: Int] = [:]
        var members: [ModelMember] = []
        for member in value.members {
            let name = member.key
            let pointer = pointer + "/" + name.asPointerToken
            let key = ModelValue(.string(name), at: member.keyPlace)
            let keyNode = ModelNode(value: key, pointer: pointer, faults: faults)
            if let line = lines[name] {
                keyNode.report("\"\(name)\" occurs twice here, first on line \(line); keep one of them")
                continue
            }
            lines[name] = keyNode.place.line
            let node = ModelNode(value: member.value, pointer: pointer, faults: faults)
            members.append(ModelMember(name: name, key: keyNode, node: node))
        }
        return members
    }

    /// The elements of an array; an empty one is reported unless it is allowed.
    func elements(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        guard value.kind == .array else { return refuseExpected(expected) }
        let nodes = value.elements.enumerated().map { index, value in
            ModelNode(value: value, pointer: "\(pointer)/\(index)", faults: faults)
        }
        guard !nodes.isEmpty || mayBeEmpty else { return refuse("the array is empty; expected \(expected)") }
        return nodes
    }

    /// The node itself when it is a string, otherwise the elements of an array.
    func oneOrMore(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        value.kind == .string ? [self] : elements(expected: expected, mayBeEmpty: mayBeEmpty)
    }
}

/// The faults that one reading of a model has found so far. Belongs to one reading on one thread.
final class ModelFaultLog {
    private let ranks: [ExactText: Int]
    private var found: [ModelFault]

    init(of document: ModelDocument) {
        ranks = Dictionary(firstOf: document.sources.enumerated().map { ($1, $0) })
        found = document.faults
    }

    var isEmpty: Bool { found.isEmpty }

    func report(_ message: String, at node: ModelNode) {
        found.append(ModelFault(message, at: place(of: node)))
    }

    func place(of node: ModelNode) -> ModelPlace {
        ModelPlace(pointer: node.pointer, at: node.value.place)
    }

    /// By position; faults of one position in the order in which they were found.
    var inDocumentOrder: [ModelFault] {
        found.enumerated()
            .sorted { order(of: $0.element.place, $0.offset) < order(of: $1.element.place, $1.offset) }
            .map(\.element)
    }

    private func order(of place: ModelPlace, _ index: Int) -> (Int, Int, Int, Int) {
        (ranks[place.source] ?? ranks.count, place.line, place.column, index)
    }
}

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

    /// Reports a field that has no meaning for the attribute's type; nil is an unknown type.
    func refuse(_ name: String, unless isApplicable: Bool?, isFor subject: String) {
        guard isApplicable == false, let node = self[name] else { return }
        node.report("\"\(name)\" is for \(subject); take it out, or give the attribute another type")
    }
}

/// The possible fields of one kind of the model's objects.
struct ModelVocabulary: Sendable {
    /// The kind as in a sentence: "an entity".
    let subject: String
    let fields: [String]

    static let model = ModelVocabulary(
        subject: "a model",
        fields: ["$schema", "keyStyle", "evolve", "readableViews", "inferred", "entities", "mappings", "routes"])

    static let entity = ModelVocabulary(
        subject: "an entity",
        fields: [
            "table", "root", "ignore", "identity", "identityOptional", "identityGuessed", "attributes", "relationships",
            "unique",
            "indexes",
            "parent", "abstract", "modified", "tombstone", "maximumDeletions", "extra", "renamedFrom", "formerIdentity",
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

extension ModelFault {
    /// The anchor of the word that has the fault, on the page about models; nil where no word has it.
    package var page: String? {
        let keys = place.pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        var (vocabulary, depth) = (ModelVocabulary.model, 0)
        if keys.count > 1, keys[0] == "entities" {
            switch keys.count > 2 ? keys[2] : "" {
            case "attributes": (vocabulary, depth) = (ModelVocabulary.attribute, 4)
            case "relationships": (vocabulary, depth) = (ModelVocabulary.relationship, 4)
            default: (vocabulary, depth) = (ModelVocabulary.entity, 2)
            }
        }
        // The short form of an attribute is its type; of anything else without a word of its own, the list of words helps.
        let list = ["entities", "attributes", "relationships"].last {
            $0 == keys.first || keys.count > 2 && $0 == keys[2]
        }
        let word = keys.count > depth ? keys[depth] : depth == 4 && keys[2] == "attributes" ? "type" : ""
        guard let anchor = vocabulary.fields.contains(word) ? word : list else { return nil }
        return "protocol/models.md#\(anchor.lowercased())"
    }
}
