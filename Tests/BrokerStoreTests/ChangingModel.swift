import TestSupport

/// A model at random whose parts keep a number of their own, whatever they are called: so that a changed one can find the
/// names before, and records can be written for both.
struct ChangingModel {
    struct Attribute {
        let number: Int
        var name: String
        var type: String
        var isRequired = false
        var defaultValue: String?
        var isUnique = false
        var isIndexed = false
        /// It had the name of a relative's once, by which the other would be meant, too.
        var hasShared = false
    }

    struct Relationship {
        let number: Int
        var name: String
        /// Number of an entity.
        let destination: Int
        var isToMany: Bool
        /// Number of a relationship.
        var inverse: Int?
        var isOrdered = false
        var deleteRule = "nullify"
    }

    struct Entity {
        let number: Int
        var name: String
        var table: String?
        /// Numbers of attributes.
        var identity: [Int]
        /// Number of the entity that it inherits from.
        var parent: Int?
        var isAbstract = false
        var attributes: [Attribute]
        var relationships: [Relationship] = []
        var unique: [[Int]] = []
        var indexes: [[Int]] = []
    }

    var entities: [Entity] = []
    private var newest = 0

    mutating func newEntity(using generator: inout SeededGenerator) -> (number: Int, name: String) {
        (number(), name(using: &generator))
    }

    private mutating func number() -> Int {
        newest += 1
        return newest
    }

    func entity(_ number: Int) -> Entity? { entities.first { $0.number == number } }

    private func name(ofAttribute number: Int) -> String {
        entities.flatMap(\.attributes).first { $0.number == number }!.name
    }

    // MARK: - At random

    /// Names that want care: letters' case, quotes, words of SQL, letters that are no ASCII.
    private mutating func name(using generator: inout SeededGenerator) -> String {
        let stem = ["a", "Z", "m\\\"q", "select", "é", "Name", "x'y", "rowid"].randomElement(using: &generator)!
        return "\(stem)\(number())"
    }

    init(using generator: inout SeededGenerator) {
        for _ in 0..<Int.random(in: 2...5, using: &generator) { addEntity(using: &generator) }
        for _ in 0..<Int.random(in: 1...5, using: &generator) { addRelationship(using: &generator) }
    }

    private mutating func addEntity(using generator: inout SeededGenerator) {
        let number = number()
        var attributes = (0..<Int.random(in: 1...4, using: &generator)).map { _ in attribute(using: &generator) }
        var identity: [Int] = []
        let parent = generator.chance(2) ? entities.randomElement(using: &generator)?.number : nil
        let hasIdentity = parent.map { !self.identity(of: $0).isEmpty } ?? false
        for _ in 0..<(hasIdentity ? 0 : [0, 1, 1, 1, 2].randomElement(using: &generator)!) {
            let type = ["integer16", "integer64", "string"].randomElement(using: &generator)!
            attributes.append(Attribute(number: self.number(), name: name(using: &generator), type: type))
            identity.append(attributes.last!.number)
        }
        attributes.shuffle(using: &generator)
        shareName(of: &attributes, identity, parent, using: &generator)
        let table = generator.chance(3) ? name(using: &generator) : nil
        entities.append(
            Entity(
                number: number, name: name(using: &generator), table: table, identity: identity, parent: parent,
                isAbstract: generator.chance(4), attributes: attributes))
    }

    private mutating func attribute(using generator: inout SeededGenerator) -> Attribute {
        let type = ["integer16", "integer32", "string", "boolean", "date", "decimal"].randomElement(using: &generator)!
        var attribute = Attribute(number: number(), name: name(using: &generator), type: type)
        attribute.isRequired = generator.chance(3)
        if generator.chance(3) { attribute.defaultValue = Self.value(type, 7) }
        attribute.isIndexed = generator.chance(4)
        if attribute.defaultValue == nil, type != "boolean" { attribute.isUnique = generator.chance(6) }
        return attribute
    }

    /// A value that no other number gives, but for booleans.
    static func value(_ type: String, _ number: Int) -> String {
        switch type {
        case "string": "\"é'\\\"\(number)\""
        case "boolean": number % 2 == 0 ? "false" : "true"
        case "date": "\"2012-09-\(10 + number / 50 % 20)T03:35:\(10 + number % 50).000Z\""
        case "decimal": "\(number).5"
        default: "\(number)"
        }
    }

    @discardableResult
    private mutating func addRelationship(using generator: inout SeededGenerator) -> Int {
        let source = entities.indices.randomElement(using: &generator)!
        let destination = entities.indices.randomElement(using: &generator)!
        var there = Relationship(
            number: number(), name: name(using: &generator), destination: entities[destination].number,
            isToMany: generator.chance(2))
        there.isOrdered = there.isToMany && generator.chance(3)
        if generator.chance(2) {
            var back = Relationship(
                number: number(), name: name(using: &generator), destination: entities[source].number,
                isToMany: generator.chance(2), inverse: there.number)
            back.isOrdered = back.isToMany && generator.chance(3)
            back.deleteRule = ["nullify", "cascade", "deny"].randomElement(using: &generator)!
            there.inverse = back.number
            entities[destination].relationships.append(back)
        }
        entities[source].relationships.append(there)
        return there.number
    }

    // MARK: - Changes that lose nothing

    mutating func change(using generator: inout SeededGenerator) {
        let entity = entities.indices.randomElement(using: &generator)!
        let attributes = entities[entity].attributes.indices
        let attribute = attributes.randomElement(using: &generator) ?? 0
        let isIdentity =
            !attributes.isEmpty && entities[entity].identity.contains(entities[entity].attributes[attribute].number)
        let relationship = entities[entity].relationships.indices.randomElement(using: &generator)
        guard !attributes.isEmpty else { return addEntity(using: &generator) }
        switch Int.random(in: 0..<22, using: &generator) {
        case 0: entities[entity].name = renamed(entities[entity].name, using: &generator)
        case 1: entities[entity].table = generator.chance(2) ? nil : name(using: &generator)
        case 2, 3:
            let name = entities[entity].attributes[attribute].name
            noteShared(entities[entity].attributes[attribute])
            entities[entity].attributes[attribute].name = renamed(name, using: &generator)
        case 4, 5:
            guard let relationship else { break }
            let name = entities[entity].relationships[relationship].name
            entities[entity].relationships[relationship].name = renamed(name, using: &generator)
        case 6:
            var new = self.attribute(using: &generator)
            if new.isRequired, new.defaultValue == nil { new.defaultValue = Self.value(new.type, 9) }
            if new.defaultValue != nil { new.isUnique = false }
            entities[entity].attributes.insert(new, at: attribute)
        case 7: addEntity(using: &generator)
        case 8: addRelationship(using: &generator)
        case 9: entities[entity].indexes.append([entities[entity].attributes[attribute].number])
        case 10:
            // Values of earlier records differ; see ``ChangingRecords``.
            guard entities[entity].attributes[attribute].defaultValue == nil,
                entities[entity].attributes[attribute].type != "boolean",
                !isShared(entities[entity].attributes[attribute])
            else { break }
            entities[entity].unique.append([entities[entity].attributes[attribute].number])
        case 11: loosenOrTighten(entity, attribute, isIdentity, using: &generator)
        case 12: addEntity(above: entity, using: &generator)
        case 13: moveUp(attribute, of: entity)
        case 14:
            guard let relationship, let parent = entities[entity].parent,
                entities[entity].relationships[relationship].inverse == nil
            else { break }
            let moved = entities[entity].relationships.remove(at: relationship)
            entities[entities.firstIndex { $0.number == parent }!].relationships.append(moved)
        case 15: entities[entity].table = generator.chance(2) ? nil : name(using: &generator)
        case 16:
            let wider = ["integer16": "integer32", "integer32": "integer64"]
            let type = entities[entity].attributes[attribute].type
            entities[entity].attributes[attribute].type = wider[type] ?? type
        case 17, 18: widen(entity, attribute, using: &generator)
        case 19: identify(entity, by: attribute)
        case 20: if let relationship { makeToMany(entity, relationship) }
        default:
            if let relationship, entities[entity].relationships[relationship].inverse != nil {
                entities[entity].relationships[relationship].deleteRule =
                    ["nullify", "cascade", "deny"].randomElement(using: &generator)!
            }
            entities.shuffle(using: &generator)
        }
    }

    private mutating func renamed(_ name: String, using generator: inout SeededGenerator) -> String {
        // SQLite takes these for one name.
        let other = name == name.lowercased() ? name.uppercased() : name.lowercased()
        return generator.chance(3) && other != name && name.utf8.allSatisfy { $0 < 0x80 }
            ? other : self.name(using: &generator)
    }

    private mutating func loosenOrTighten(
        _ entity: Int, _ attribute: Int, _ isIdentity: Bool, using generator: inout SeededGenerator
    ) {
        guard !isIdentity else { return }
        let found = entities[entity].attributes[attribute]
        if found.isRequired {
            entities[entity].attributes[attribute].isRequired = false
        } else if !found.isUnique, !entities[entity].unique.contains([found.number]) {
            entities[entity].attributes[attribute].isRequired = true
            entities[entity].attributes[attribute].defaultValue = Self.value(found.type, 5)
        }
    }
}

// MARK: - JSON

extension ChangingModel {
    /// - Parameter before: an earlier state of this model, whose different names are reported.
    func json(since before: ChangingModel?) -> String {
        "{\"entities\": {\n\(entities.map { json($0, before) }.joined(separator: ",\n"))}}"
    }

    private func json(_ entity: Entity, _ before: ChangingModel?) -> String {
        let list = { (numbers: [Int]) in
            "[\(numbers.map { "\"\(name(ofAttribute: $0))\"" }.joined(separator: ", "))]"
        }
        var members = [
            "\"attributes\": {\(entity.attributes.map { json($0, before) }.joined(separator: ", "))}",
            "\"relationships\": {\(entity.relationships.map { json($0, before) }.joined(separator: ", "))}",
            "\"unique\": [\(entity.unique.map(list).joined(separator: ", "))]",
            "\"indexes\": [\(entity.indexes.map(list).joined(separator: ", "))]",
        ]
        if !entity.identity.isEmpty { members.append("\"identity\": \(list(entity.identity))") }
        if let table = entity.table { members.append("\"table\": \"\(table)\"") }
        if let parent = entity.parent { members.append("\"parent\": \"\(self.entity(parent)!.name)\"") }
        if entity.isAbstract { members.append("\"abstract\": true") }
        if let before = before?.entity(entity.number), before.name != entity.name {
            members.append("\"renamedFrom\": \"\(before.name)\"")
        }
        return "\"\(entity.name)\": {\(members.joined(separator: ",\n    "))}"
    }

    private func json(_ attribute: Attribute, _ before: ChangingModel?) -> String {
        var members = ["\"type\": \"\(attribute.type)\"", "\"key\": \"k\(attribute.number)\""]
        if attribute.isRequired { members.append("\"optional\": false") }
        if let value = attribute.defaultValue { members.append("\"default\": \(value)") }
        if attribute.isUnique { members.append("\"unique\": true") }
        if attribute.isIndexed { members.append("\"indexed\": true") }
        let attributes = before?.entities.flatMap(\.attributes) ?? []
        if let old = attributes.first(where: { $0.number == attribute.number }), old.name != attribute.name {
            members.append("\"renamedFrom\": \"\(old.name)\"")
        }
        return "\"\(attribute.name)\": {\(members.joined(separator: ", "))}"
    }

    private func json(_ relationship: Relationship, _ before: ChangingModel?) -> String {
        let destination = entity(relationship.destination)!
        var members = ["\"entity\": \"\(destination.name)\"", "\"key\": \"k\(relationship.number)\""]
        if relationship.isToMany { members.append("\"toMany\": true") }
        if relationship.isOrdered { members.append("\"ordered\": true") }
        if let inverse = relationship.inverse {
            members.append("\"inverse\": \"\(destination.relationships.first { $0.number == inverse }!.name)\"")
            members.append("\"deleteRule\": \"\(relationship.deleteRule)\"")
        }
        let relationships = before?.entities.flatMap(\.relationships) ?? []
        if let old = relationships.first(where: { $0.number == relationship.number }), old.name != relationship.name {
            members.append("\"renamedFrom\": \"\(old.name)\"")
        }
        return "\"\(relationship.name)\": {\(members.joined(separator: ", "))}"
    }
}
