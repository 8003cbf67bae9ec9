import TestSupport

/// A random model, and random messages of jobs for it: what the log of a server may have.
struct RandomLog {
    private struct Entity {
        let name: String
        /// The names of the attributes, with whether they are numbers.
        var identity: [(name: String, isNumber: Bool)] = []
        var isIdentityOptional = false
        var parent: String?
        /// The names of the attributes beside the identity, as they are declared.
        var attributes: [(name: String, isNumber: Bool, json: String)] = []
        var options: [String] = []
        var relationships: [Relationship] = []
    }

    private struct Relationship {
        let name: String
        let destination: String
        let isToMany: Bool
        var options: [String]
    }

    private var entities: [Entity] = []
    private var generator: SeededGenerator
    /// One of so many values is wrong.
    private var wrongness = 30

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        for name in ["A", "B", "C", "D"].prefix(number(2...4)) { entities.append(topmost(name)) }
        for name in ["E", "F", "G"].prefix(number(0...3)) { entities.append(inheriting(name)) }
        for number in 0..<number(3...9) { addRelationship(number) }
    }

    // MARK: - The model

    /// It may be one that is refused, then another seed makes another.
    var model: String {
        let texts = entities.map { entity in
            var identity = entity.identity.map { "\"\($0.name)\": \"\($0.isNumber ? "integer64" : "string")\"" }
            if entity.parent != nil { identity = [] }
            let relationships = entity.relationships.map {
                "\"\($0.name)\": {\((["\"entity\": \"\($0.destination)\""] + $0.options).joined(separator: ", "))}"
            }
            var members = entity.options
            if entity.parent == nil, !identity.isEmpty {
                members.append("\"identity\": [\(entity.identity.map { "\"\($0.name)\"" }.joined(separator: ", "))]")
            }
            let attributes = identity + entity.attributes.map { "\"\($0.name)\": {\($0.json)}" }
            members.append("\"attributes\": {\(attributes.joined(separator: ", "))}")
            members.append("\"relationships\": {\(relationships.joined(separator: ",\n    "))}")
            return "\"\(entity.name)\": {\(members.joined(separator: ",\n  "))}"
        }
        return "{\"entities\": {\n\(texts.joined(separator: ",\n"))}}"
    }

    private mutating func topmost(_ name: String) -> Entity {
        var entity = Entity(name: name)
        switch number(0...8) {
        case 0...3: entity.identity = [("id", true)]
        case 4: entity.identity = [("id", false)]
        case 5: entity.identity = [("k1", true), ("k2", false)]
        case 6:
            entity.identity = [("id", false)]
            entity.isIdentityOptional = true
            entity.options = [#""identityOptional": true"#]
        default: break
        }
        entity.attributes = [
            ("p", false, #""type": "string""# + pick(["", "", #", "unique": true"#, #", "onInvalid": "null""#])),
            (
                "q", true,
                #""type": "integer64", "max": 9"# + pick(["", #", "optional": false"#, #", "onInvalid": "skip""#])
            ),
        ]
        if chance(3) { entity.options.append(#""unique": [["p", "q"]]"#) }
        if chance(2) { entity.attributes.append(("d", true, #""type": "double", "default": 2"#)) }
        guard !entity.identity.isEmpty else { return entity }
        if chance(3) {
            entity.attributes.append(("at", true, #""type": "integer64""#))
            entity.options.append(#""modified": "at""#)
        }
        if chance(3) {
            entity.attributes.append(("gone", true, #""type": "boolean""#))
            entity.options.append(#""tombstone": "gone == YES""#)
        }
        return entity
    }

    private mutating func inheriting(_ name: String) -> Entity {
        let parent = pick(entities)
        var entity = Entity(
            name: name, identity: parent.identity, isIdentityOptional: parent.isIdentityOptional, parent: parent.name)
        entity.options = ["\"parent\": \"\(parent.name)\""]
        entity.attributes = [("own\(name)", false, #""type": "string""# + (chance(4) ? #", "unique": true"# : ""))]
        return entity
    }

    private mutating func addRelationship(_ number: Int) {
        let (from, to) = (
            entities.indices.randomElement(using: &generator)!, entities.indices.randomElement(using: &generator)!
        )
        var there = relationship("r\(number)", to: entities[to].name)
        if chance(3) {
            entities[from].relationships.append(there)
            return
        }
        var back = relationship("s\(number)", to: entities[from].name)
        if there.isToMany, chance(5) {
            there.options.append(#""owned": true"#)
        } else {
            if there.options.contains(Self.ordered) { back.options.removeAll { $0 == Self.ordered } }
            there.options.append("\"inverse\": \"\(back.name)\"")
            entities[to].relationships.append(back)
        }
        entities[from].relationships.append(there)
    }

    private static let ordered = #""ordered": true"#

    private mutating func relationship(_ name: String, to destination: String) -> Relationship {
        let isToMany = chance(2)
        var options = ["\"deleteRule\": \"\(pick(["nullify", "nullify", "cascade", "deny", "noAction"]))\""]
        if isToMany {
            options.append(#""toMany": true"#)
            if chance(3) { options.append(Self.ordered) }
            if chance(3) { options.append(#""assignment": "replace""#) }
        }
        if chance(3) { options.append("\"missing\": \"\(pick(["ignore", "fail"]))\"") }
        return Relationship(name: name, destination: destination, isToMany: isToMany, options: options)
    }

    // MARK: - Jobs

    /// A job's message, without the id.
    mutating func job() -> String {
        wrongness = pick([5, 30, 1_000])
        let operations = (0..<(chance(2) ? 1 : number(2...4))).map { _ in operation() }
        var members = ["\"operations\": [\(operations.joined(separator: ", "))]"]
        if chance(2) { members.append(#""onInvalid": "skip""#) }
        if chance(5) { members.append(#""reply": "keys""#) }
        if chance(6) {
            members.append("\"bookmark\": {\"name\": \"\(pick(["x", "y"]))\", \"value\": \"\(number(1...99))\"}")
        }
        if chance(15) { members.append(#""dryRun": true"#) }
        if chance(15) { members.append("\"maximumDeletions\": \(number(0...2))") }
        return members.joined(separator: ", ")
    }

    private mutating func operation() -> String {
        let entity = pick(entities)
        func json(_ op: String, _ members: String...) -> String {
            "{\((["\"op\": \"\(op)\"", "\"entity\": \"\(entity.name)\""] + members).joined(separator: ", "))}"
        }
        switch number(0...14) {
        case 0...6: return json("process", "\"json\": \(records(entity, 1...5))")
        case 7: return json("process", "\"object\": \(key(entity))", "\"json\": \(record(entity, depth: 1))")
        case 8:
            guard let relationship = links(entity).randomElement(using: &generator) else {
                return json("process", "\"json\": \(records(entity, 0...2))")
            }
            return json(
                "relate", "\"object\": \(key(entity))", "\"relationship\": \"\(relationship.name)\"",
                "\"json\": \(value(relationship, depth: 1))")
        case 9, 10:
            let keys = (0..<number(0...3)).map { _ in key(entity) }
            return json("delete", "\"objects\": [\(keys.joined(separator: ", "))]")
        case 11: return json("delete", condition())
        case 12: return json("sync", "\"json\": \(records(entity, 0...5))", condition())
        case 13:
            let actions = ["insert", "update", "delete"].filter { _ in !chance(3) }.map { "\"\($0)\"" }
            return json(
                "sync", "\"json\": \(records(entity, 0...5))", condition(),
                "\"actions\": [\(actions.joined(separator: ", "))]")
        default:
            // Parts of one sync agree on their entity.
            let first = entities[0]
            return
                #"{"op": "sync", "entity": "\#(first.name)", "json": \#(records(first, 0...4)), "where": "q != 4", "part": {"id": "\#(pick(["x", "y"]))", "last": \#(chance(3))}}"#
        }
    }

    private mutating func condition() -> String {
        "\"where\": \"\(pick(["q == \(number(1...4))", "q < 4", "p == 'a'", "p != 'b'"]))\""
    }

    private mutating func records(_ entity: Entity, _ count: ClosedRange<Int>) -> String {
        "[\((0..<number(count)).map { _ in record(entity, depth: 2) }.joined(separator: ", "))]"
    }

    private mutating func record(_ entity: Entity, depth: Int) -> String {
        var members: [String] = []
        if !entity.isIdentityOptional || !chance(3), !chance(wrongness) {
            members += entity.identity.map { "\"\($0.name)\": \(identity($0.isNumber))" }
        }
        for attribute in inherited(entity).flatMap(\.attributes) where attribute.name == "q" || chance(2) {
            members.append("\"\(attribute.name)\": \(value(attribute))")
        }
        for relationship in links(entity) where depth > 0 && chance(3) {
            members.append("\"\(relationship.name)\": \(value(relationship, depth: depth - 1))")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func value(_ attribute: (name: String, isNumber: Bool, json: String)) -> String {
        if chance(wrongness) { return attribute.isNumber ? #""?""# : "{}" }
        if attribute.name == "gone" { return chance(6) ? "true" : "false" }
        if chance(8) { return "null" }
        return attribute.isNumber ? "\(number(1...5))" : "\"\(pick(["a", "b", "c", "d", "e", "f", "g", "h"]))\""
    }

    private mutating func value(_ relationship: Relationship, depth: Int) -> String {
        if chance(8) { return "null" }
        let destination = entities.first { $0.name == relationship.destination }!
        func element(_ log: inout RandomLog) -> String {
            destination.identity.count == 1 && log.chance(2)
                ? log.identity(destination.identity[0].isNumber) : log.record(destination, depth: depth)
        }
        guard relationship.isToMany else { return element(&self) }
        return "[\((0..<number(0...3)).map { _ in element(&self) }.joined(separator: ", "))]"
    }

    private mutating func key(_ entity: Entity) -> String {
        if entity.identity.isEmpty || entity.isIdentityOptional { return "\(number(1...9))" }
        if entity.identity.count == 1 { return identity(entity.identity[0].isNumber) }
        return "{\(entity.identity.map { "\"\($0.name)\": \(identity($0.isNumber))" }.joined(separator: ", "))}"
    }

    private mutating func identity(_ isNumber: Bool) -> String {
        isNumber ? "\(number(1...6))" : "\"\(pick(["a", "b", "c", "d", "e"]))\""
    }

    private func links(_ entity: Entity) -> [Relationship] { inherited(entity).flatMap(\.relationships) }

    /// From its topmost entity down.
    private func inherited(_ entity: Entity) -> [Entity] {
        guard let parent = entities.first(where: { $0.name == entity.parent }) else { return [entity] }
        return inherited(parent) + [entity]
    }

    // MARK: - Chance

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
    mutating func chance(_ one: Int) -> Bool { number(1...one) == 1 }
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
}
