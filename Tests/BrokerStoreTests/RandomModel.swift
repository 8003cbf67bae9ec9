import TestSupport

/// A small model, made at random. What it names is found by name, so that parts of it can be taken away.
struct RandomModel {
    struct Attribute {
        /// The source of its value: a key of the record, the owner's attribute of that name, or the position in the owner.
        enum Source {
            case key, index
            case owner(String)
        }

        var name: String
        var type: SampleType
        var source = Source.key
        var isRequired = false
        /// JSON, one of the type's samples.
        var defaultValue: String?
        var isUnique = false
        var limit: SampleLimit?
        /// `skip` or `null`; nil is `fail`.
        var onInvalid: String?
        /// Has a second key path, `<name>Of.it`.
        var hasFallback = false
    }

    enum Missing: String, CaseIterable { case stub, ignore, fail }
    enum DeleteRule: String, CaseIterable { case nullify, cascade, deny }

    struct Relationship {
        var name: String
        var destination: String
        var isToMany: Bool
        var inverse: String?
        var replaces = false
        var isOrdered = false
        var isOwned = false
        /// It leads from an owned object to its owner; no key brings it.
        var isOfOwner = false
        var missing = Missing.stub
        var rule = DeleteRule.nullify
    }

    struct Entity {
        var name: String
        var identity: [String] = []
        var isIdentityOptional = false
        var attributes: [Attribute] = []
        var relationships: [Relationship] = []
        var unique: [[String]] = []
        /// The entity that it inherits from.
        var parent: String?
        var isAbstract = false
        var isOwned = false
        /// Has the attribute `at`, which its `modified` names.
        var hasModified = false
        /// Has the attribute `gone`, which its `tombstone` asks for.
        var hasTombstone = false
        /// The topmost entity of its hierarchy has no identity.
        var isBelowKeyless = false

        /// Objects are identified by `_pk`; each record has a number of its own as `mark`, by which the test finds it.
        var hasRowKey: Bool { identity.isEmpty || isIdentityOptional || isBelowKeyless }
        var needsIdentity: Bool { !identity.isEmpty && !isIdentityOptional }
        /// Operations and answers name its objects by `_pk`.
        var isNamedByRowKey: Bool { hasRowKey && (identity.isEmpty || !isBelowKeyless) }
        /// The values of a new object.
        var defaults: [String: String] {
            attributes.reduce(into: [:]) { $0[$1.name] = $1.defaultValue.flatMap($1.type.stored) }
        }

        func isKnown(key: String) -> Bool {
            attributes.contains { $0.name == key || $0.hasFallback && "\($0.name)Of" == key }
                || relationships.contains { $0.name == key }
        }

        func attribute(_ name: String) -> Attribute { attributes.first { $0.name == name }! }
        func relationship(_ name: String) -> Relationship { relationships.first { $0.name == name }! }
    }

    /// As they are declared, without what they inherit.
    var entities: [Entity] = []

    // MARK: - JSON

    var json: String {
        "{\"entities\": {\n  \(entities.map(Self.json).joined(separator: ",\n  "))}}"
    }

    private static func json(_ entity: Entity) -> String {
        var members = ["\"attributes\": {\(entity.attributes.map(json).joined(separator: ", "))}"]
        if !entity.identity.isEmpty { members.append("\"identity\": \(list(entity.identity))") }
        if entity.isIdentityOptional { members.append("\"identityOptional\": true") }
        if let parent = entity.parent { members.append("\"parent\": \"\(parent)\"") }
        if entity.isAbstract { members.append("\"abstract\": true") }
        if entity.hasModified, entity.parent == nil { members.append("\"modified\": \"at\"") }
        if entity.hasTombstone, entity.parent == nil { members.append("\"tombstone\": \"gone == YES\"") }
        if !entity.unique.isEmpty { members.append("\"unique\": [\(entity.unique.map(list).joined(separator: ", "))]") }
        if !entity.relationships.isEmpty {
            members.append("\"relationships\": {\(entity.relationships.map(json).joined(separator: ", "))}")
        }
        return "\"\(entity.name)\": {\(members.joined(separator: ",\n    "))}"
    }

    private static func list(_ names: [String]) -> String {
        "[\(names.map { "\"\($0)\"" }.joined(separator: ", "))]"
    }

    private static func json(_ attribute: Attribute) -> String {
        var members = ["\"type\": \"\(attribute.type.rawValue)\""]
        if attribute.isRequired { members.append("\"optional\": false") }
        if let value = attribute.defaultValue { members.append("\"default\": \(value)") }
        if attribute.isUnique { members.append("\"unique\": true") }
        if let limit = attribute.limit { members.append(limit.json) }
        if let onInvalid = attribute.onInvalid { members.append("\"onInvalid\": \"\(onInvalid)\"") }
        switch attribute.source {
        case .key: break
        case .index: members.append("\"key\": \"@parent.@index\"")
        case .owner(let name): members.append("\"key\": \"@parent.\(name)\"")
        }
        if attribute.hasFallback { members.append("\"key\": [\"\(attribute.name)\", \"\(attribute.name)Of.it\"]") }
        return "\"\(attribute.name)\": {\(members.joined(separator: ", "))}"
    }

    private static func json(_ relationship: Relationship) -> String {
        var members = ["\"entity\": \"\(relationship.destination)\""]
        if relationship.isToMany { members.append("\"toMany\": true") }
        if let inverse = relationship.inverse { members.append("\"inverse\": \"\(inverse)\"") }
        if relationship.replaces { members.append("\"assignment\": \"replace\"") }
        if relationship.isOrdered { members.append("\"ordered\": true") }
        if relationship.isOwned { members.append("\"owned\": true") }
        if relationship.rule != .nullify { members.append("\"deleteRule\": \"\(relationship.rule.rawValue)\"") }
        if relationship.missing != .stub { members.append("\"missing\": \"\(relationship.missing.rawValue)\"") }
        return "\"\(relationship.name)\": {\(members.joined(separator: ", "))}"
    }
}

// MARK: - At random

extension RandomModel {
    init(using generator: inout SeededGenerator) {
        let count = Int.random(in: 2...4, using: &generator)
        entities = ["A", "B", "C", "D"].prefix(count).map { Self.entity($0, &generator) }
        if generator.chance(3) { addSubentities(&generator) }
        for number in 0..<Int.random(in: 2...6, using: &generator) { addRelationship(number, &generator) }
        for (number, name) in ["L", "M"].enumerated() where generator.chance(4) { addOwned(number, name, &generator) }
        entities.shuffle(using: &generator)
    }

    private static func entity(_ name: String, _ generator: inout SeededGenerator) -> Entity {
        var entity = Entity(name: name)
        let integers = [SampleType.integer64, .integer64, .integer16]
        switch Int.random(in: 0..<12, using: &generator) {
        case 0..<4: entity.attributes = [Attribute(name: "id", type: integers.randomElement(using: &generator)!)]
        case 4..<8:
            let types = SampleType.allCases.filter { $0 != .transformable } + [.string, .string]
            entity.attributes = [Attribute(name: "id", type: types.randomElement(using: &generator)!)]
        case 8: entity.attributes = [Attribute(name: "k1", type: .integer64), Attribute(name: "k2", type: .string)]
        case 9: break
        default:
            entity.attributes = [Attribute(name: "id", type: .string)]
            entity.isIdentityOptional = true
        }
        entity.identity = entity.attributes.map(\.name)
        if entity.identity == ["id"], generator.chance(4) {
            entity.attributes[0].limit = limit(entity.attributes[0].type, &generator)
        }
        if entity.hasRowKey { entity.attributes.append(Attribute(name: "mark", type: .integer64)) }
        for name in ["p", "q", "r"].prefix(Int.random(in: 1...3, using: &generator)) {
            entity.attributes.append(attribute(name, &generator))
        }
        if entity.attributes.contains(where: { $0.name == "q" }), generator.chance(4) { entity.unique = [["p", "q"]] }
        entity.hasModified = !entity.identity.isEmpty && generator.chance(4)
        if entity.hasModified { entity.attributes.append(Attribute(name: "at", type: .integer64)) }
        entity.hasTombstone = !entity.identity.isEmpty && generator.chance(4)
        if entity.hasTombstone { entity.attributes.append(Attribute(name: "gone", type: .boolean)) }
        return entity
    }

    static func attribute(_ name: String, _ generator: inout SeededGenerator) -> Attribute {
        let types = SampleType.allCases + [.integer64, .string, .string]
        var attribute = Attribute(name: name, type: types.randomElement(using: &generator)!)
        if generator.chance(5) { attribute.limit = limit(attribute.type, &generator) }
        attribute.isRequired = generator.chance(5)
        // A default is held to be valid, and would be claimed by all new objects were it unique.
        if generator.chance(5), attribute.limit == nil {
            attribute.defaultValue = attribute.type.samples.randomElement(using: &generator)!.json
        } else if attribute.type != .transformable {
            attribute.isUnique = generator.chance(4)
        }
        if generator.chance(6) { attribute.onInvalid = ["skip", "null"].randomElement(using: &generator)! }
        attribute.hasFallback = generator.chance(8)
        return attribute
    }

    private static func limit(_ type: SampleType, _ generator: inout SeededGenerator) -> SampleLimit? {
        switch type {
        case .integer16, .integer64: .range(1...3)
        case .string: [.maximumLength(3), .pattern("a"), .oneOf(["a", "b"])].randomElement(using: &generator)!
        default: nil
        }
    }

    private mutating func addRelationship(_ number: Int, _ generator: inout SeededGenerator) {
        let from = entities.indices.randomElement(using: &generator)!
        let to = entities.indices.randomElement(using: &generator)!
        let isToMany = Bool.random(using: &generator)
        var there = Relationship(name: "r\(number)", destination: entities[to].name, isToMany: isToMany)
        Self.decorate(&there, &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: break
        case 1 where from == to: there.inverse = there.name
        default:
            let returns = Bool.random(using: &generator)
            var back = Relationship(name: "s\(number)", destination: entities[from].name, isToMany: returns)
            Self.decorate(&back, &generator)
            back.inverse = there.name
            there.inverse = back.name
            entities[to].relationships.append(back)
        }
        if there.inverse == there.name { there.isOrdered = false }
        entities[from].relationships.append(there)
    }

    /// An entity whose objects are owned by those of another one.
    private mutating func addOwned(_ number: Int, _ name: String, _ generator: inout SeededGenerator) {
        let owners = entities.indices.filter {
            !isInHierarchy(entities[$0].name) && (entities[$0].identity.isEmpty || entities[$0].needsIdentity)
        }
        guard let owner = owners.randomElement(using: &generator) else { return }
        var relationship = Relationship(
            name: "o\(number)", destination: name, isToMany: !generator.chance(3), inverse: "w\(number)")
        (relationship.isOwned, relationship.replaces) = (true, relationship.isToMany)
        var entity = Entity(name: name)
        entity.isOwned = true
        entity.attributes = entities[owner].identity.map { name in
            let type = entities[owner].attribute(name).type
            return Attribute(name: "parent_\(name)", type: type, source: .owner(name))
        }
        if entity.attributes.isEmpty {
            entity.attributes.append(Attribute(name: "mark", type: .integer64))
        } else {
            if relationship.isToMany {
                let isByPosition = generator.chance(2)
                entity.attributes.append(
                    Attribute(name: "no", type: .integer64, source: isByPosition ? .index : .key))
            }
            entity.identity = entity.attributes.map(\.name)
        }
        entity.attributes.append(Self.attribute("p", &generator))
        entity.hasTombstone = !entity.identity.isEmpty && generator.chance(6)
        if entity.hasTombstone { entity.attributes.append(Attribute(name: "gone", type: .boolean)) }
        var back = Relationship(
            name: "w\(number)", destination: entities[owner].name, isToMany: false, inverse: relationship.name)
        back.isOfOwner = true
        entity.relationships = [back]
        entities[owner].relationships.append(relationship)
        entities.append(entity)
    }

    private static func decorate(_ relationship: inout Relationship, _ generator: inout SeededGenerator) {
        relationship.replaces = relationship.isToMany && generator.chance(3)
        relationship.isOrdered = relationship.isToMany && generator.chance(3)
        if generator.chance(2) { relationship.missing = Missing.allCases.randomElement(using: &generator)! }
        if generator.chance(3) { relationship.rule = DeleteRule.allCases.randomElement(using: &generator)! }
    }
}

extension SeededGenerator {
    /// True one time in so many.
    mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &self) == 0 }
}
