import Foundation
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// A store that is migrated to a changed model is the store that the changed model would have made of the same records.
@Suite(.timeLimit(.minutes(5))) struct MigrationPropertyTests {
    @Test func `a migrated store is like one that was made by the changed model`() throws {
        var generator = SeededGenerator()
        for _ in 0..<Cases.count(40, of: 120) { try Self.check(&generator) }
    }

    private static func check(_ generator: inout SeededGenerator) throws {
        let seed = generator.next()
        var random = SeededGenerator(seed: seed)
        let before = ChangingModel(using: &random)
        var after = before
        for _ in 0..<Int.random(in: 1...8, using: &random) { after.change(using: &random) }
        let records = ChangingRecords(of: before, using: &random)

        let migrated = try TestStore(before.json(since: nil))
        #expect(try migrated.fault(records.json(in: before)) == nil, "seed \(seed), \(before.json(since: nil))")
        let description = "seed \(seed)\n\(before.json(since: nil))\n\(after.json(since: before))"
        do {
            try migrated.reopen(after.json(since: before))
        } catch {
            Issue.record("\(error)\n\(description)")
            return
        }
        let fresh = try TestStore(after.json(since: nil))
        #expect(try fresh.fault(records.json(in: after)) == nil, "\(description)\n\(records.json(in: after))")

        #expect(try schema(of: migrated) == schema(of: fresh), "\(description)")
        #expect(try checks(of: migrated) == checks(of: fresh), "\(description)")
        try compareRows(migrated, fresh, description)
        #expect(try migrated.isSound())
        // And again: nothing is left to do.
        try migrated.reopen()
        #expect(
            migrated.store.migration.changes.isEmpty, "\(migrated.store.migration.changes.map(\.text)) \(description)")
        // The next job has the same effect in both. Without an identity every record would make a new object.
        guard !records.hasRowKeys(in: after) else { return }
        let again = try (migrated.changes(records.json(in: after)), fresh.changes(records.json(in: after)))
        #expect(again.0 == again.1, "\(description)")
        try compareRows(migrated, fresh, description)
    }

    private static func compareRows(_ migrated: TestStore, _ fresh: TestStore, _ description: String) throws {
        for table in Schema(migrated.plan.model).tables {
            let columns = quotedList(table.columns.map(\.name))
            let sql = "SELECT \(columns) FROM \(quoted(table.name)) ORDER BY \(columns)"
            #expect(try migrated.rows(sql) == fresh.rows(sql), "\(table.name), \(description)")
        }
    }

    /// The requirements of rows of some entities: each a line of its table.
    private static func checks(of store: TestStore) throws -> [String] {
        try store.rows("SELECT sql || char(10) || name FROM sqlite_schema WHERE type = 'table' ORDER BY name").flatMap {
            sql in
            let lines = sql.split(separator: "\n").map { $0.trimmingCharacters(in: [" ", ","]) }
            return lines.filter { $0.hasPrefix("CHECK") }.sorted() + lines.suffix(1)
        }
    }

    /// Tables, columns, constraints, indexes and views, whatever the order and the text in which they were made. A
    /// column keeps its declared type when only the meaning of its values changes, and the default of earlier rows.
    private static func schema(of store: TestStore) throws -> [String] {
        try store.rows(
            """
            SELECT 'column', t.name, c.name, substr(c.type, instr(c.type, '_') + 1), c."notnull", 0, c.pk
            FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'
            UNION ALL
            SELECT 'index', t.name, iif(i.origin = 'c', i.name, i.origin), i."unique",
                (SELECT group_concat(x.name, '|') FROM pragma_index_info(i.name) x), 0, 0
            FROM sqlite_schema t, pragma_index_list(t.name) i WHERE t.type = 'table'
            UNION ALL
            SELECT type, name, sql, 0, 0, 0, 0 FROM sqlite_schema
            WHERE type = 'view' OR sql LIKE 'CREATE UNIQUE INDEX%'
            UNION ALL
            SELECT 'key', t.name, f."from", f."table", f."to", f.on_delete, f.on_update
            FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table'
            ORDER BY 1, 2, 3, 4, 5, 6, 7
            """)
    }
}

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

/// Parents of a ``ChangingModel``'s entities, and changes of them that lose nothing.
extension ChangingModel {
    /// The entity and those that it inherits from, itself first.
    func line(of number: Int) -> [Entity] {
        var line = [entity(number)!]
        while let parent = line.last!.parent { line.append(entity(parent)!) }
        return line
    }

    /// Its own and those that it inherits from, as objects have them.
    func attributes(of number: Int) -> [Attribute] { line(of: number).flatMap(\.attributes) }
    func relationships(of number: Int) -> [Relationship] { line(of: number).flatMap(\.relationships) }
    func identity(of number: Int) -> [Int] { line(of: number).map(\.identity).first { !$0.isEmpty } ?? [] }
    /// The entities that share its table, and so one space of identities.
    func topmost(of number: Int) -> Int { line(of: number).last!.number }
    func isKind(_ number: Int, of other: Int) -> Bool { line(of: number).contains { $0.number == other } }

    func isShared(_ attribute: Attribute) -> Bool {
        entities.flatMap(\.attributes).contains {
            $0.number != attribute.number && $0.name.lowercased() == attribute.name.lowercased()
        }
    }

    /// An attribute that shares its name is about to lose it.
    mutating func noteShared(_ attribute: Attribute) {
        guard isShared(attribute) else { return }
        for entity in entities.indices {
            for index in entities[entity].attributes.indices
            where entities[entity].attributes[index].name.lowercased() == attribute.name.lowercased() {
                entities[entity].attributes[index].hasShared = true
            }
        }
    }

    /// A new entity's attribute may bear the name of one of a relative that it does not inherit: they share a column, or
    /// have columns with their entities' names.
    func shareName(
        of attributes: inout [Attribute], _ identity: [Int], _ parent: Int?, using generator: inout SeededGenerator
    ) {
        guard let parent, let index = attributes.firstIndex(where: { !identity.contains($0.number) && !$0.isUnique })
        else { return }
        let top = topmost(of: parent)
        let above = Set(line(of: parent).map(\.number))
        let taken = Set(self.attributes(of: parent).map { $0.name.lowercased() })
        let others = entities.filter { topmost(of: $0.number) == top && !above.contains($0.number) }
        let names = others.flatMap { other in
            other.attributes.filter { attribute in
                !attribute.isUnique && !taken.contains(attribute.name.lowercased())
                    && !other.identity.contains(attribute.number)
                    && !other.unique.contains { $0.contains(attribute.number) }
            }
        }
        guard !attributes[index].isUnique, let name = names.randomElement(using: &generator)?.name else { return }
        attributes[index].name = name
    }

    /// An abstract entity, or one with an attribute, comes between an entity and its parent, or above a topmost one, whose
    /// identity it takes.
    mutating func addEntity(above index: Int, using generator: inout SeededGenerator) {
        let (number, name) = newEntity(using: &generator)
        var new = Entity(number: number, name: name, identity: [], attributes: [])
        new.isAbstract = generator.chance(2)
        new.parent = entities[index].parent
        if new.parent == nil {
            new.identity = entities[index].identity
            new.attributes = entities[index].attributes.filter { new.identity.contains($0.number) }
            entities[index].attributes.removeAll { new.identity.contains($0.number) }
            entities[index].identity = []
        }
        entities[index].parent = number
        entities.insert(new, at: Int.random(in: 0...entities.count, using: &generator))
    }

    /// Rows of the parent and its other subentities take the default.
    mutating func moveUp(_ attribute: Int, of index: Int) {
        let found = entities[index].attributes[attribute]
        let isListed = (entities[index].unique + entities[index].indexes).contains { $0.contains(found.number) }
        guard let parent = entities[index].parent, !entities[index].identity.contains(found.number), !isListed,
            !isShared(found), !found.hasShared, !found.isRequired || found.defaultValue != nil,
            !found.isUnique || found.defaultValue == nil
        else { return }
        entities[index].attributes.remove(at: attribute)
        entities[entities.firstIndex { $0.number == parent }!].attributes.append(found)
    }
}

extension ChangingModel {
    /// Gives an attribute a type that holds the values of the one before.
    mutating func widen(_ entity: Int, _ attribute: Int, using generator: inout SeededGenerator) {
        let found = entities[entity].attributes[attribute]
        let isKey =
            found.isUnique
            || entities.contains { $0.identity.contains(found.number) || $0.unique.joined().contains(found.number) }
        let wider: [String] =
            switch found.type {
            case "integer16", "integer32", "integer64": ["decimal", "double", "string"]
            case "boolean", "date", "decimal": ["string"]
            default: []
            }
        guard let type = (wider + (isKey ? [] : ["transformable"])).randomElement(using: &generator),
            // The text of a double may be another than was sent.
            found.type != "double", found.type != "transformable"
        else { return }
        entities[entity].attributes[attribute].type = type
    }

    mutating func makeToMany(_ entity: Int, _ relationship: Int) {
        guard entities[entity].relationships[relationship].inverse == nil else { return }
        entities[entity].relationships[relationship].isToMany = true
    }

    /// Gives an entity an identity, if every object has another value there; see ``ChangingRecords``.
    mutating func identify(_ entity: Int, by attribute: Int) {
        let found = entities[entity].attributes[attribute]
        guard entities[entity].parent == nil, found.isRequired, found.defaultValue == nil,
            ["integer16", "integer32", "integer64", "string", "decimal", "date"].contains(found.type),
            entities.allSatisfy({ !isKind($0.number, of: entities[entity].number) || $0.identity.isEmpty }),
            // Its parts may get objects later, as subentities of another.
            !isShared(found), !found.hasShared
        else { return }
        entities[entity].identity = [found.number]
    }
}

/// Records for every entity of a ``ChangingModel``, written with the keys that no change touches.
struct ChangingRecords {
    private struct Record {
        /// By number of the part, JSON; nil is null.
        var values: [Int: String?] = [:]
    }

    private var records: [(entity: Int, records: [Record])] = []

    init(of model: ChangingModel, using generator: inout SeededGenerator) {
        var next = 10
        var newest: [Int: Int] = [:]
        for entity in model.entities {
            let identity = model.identity(of: entity.number)
            let count = entity.isAbstract ? 0 : Int.random(in: 0...6, using: &generator)
            let records = (0..<count).map { _ in
                var record = Record()
                // All of a hierarchy share one space of identities.
                let position = newest[model.topmost(of: entity.number), default: 0]
                newest[model.topmost(of: entity.number)] = position + 1
                for attribute in model.attributes(of: entity.number) {
                    next += 1
                    let isIdentity = identity.contains(attribute.number)
                    guard isIdentity || attribute.isRequired || !generator.chance(4) else {
                        record.values[attribute.number] = .some(nil)
                        continue
                    }
                    let value = isIdentity ? position + 1 : next
                    record.values[attribute.number] = ChangingModel.value(attribute.type, value)
                }
                return record
            }
            self.records.append((entity.number, records))
        }
        for index in records.indices { link(index, model, using: &generator) }
    }

    /// Bare keys of objects that there are, for entities with one attribute as identity.
    private mutating func link(_ index: Int, _ model: ChangingModel, using generator: inout SeededGenerator) {
        for relationship in model.relationships(of: records[index].entity) {
            let identity = model.identity(of: relationship.destination)
            guard identity.count == 1 else { continue }
            let others = records.filter { model.isKind($0.entity, of: relationship.destination) }.flatMap(\.records)
            let keys = others.compactMap { $0.values[identity[0]] ?? nil }
            guard !keys.isEmpty else { continue }
            for position in records[index].records.indices where !generator.chance(3) {
                let some = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                    keys.randomElement(using: &generator)!
                }
                records[index].records[position].values[relationship.number] =
                    relationship.isToMany ? "[\(some.joined(separator: ", "))]" : some[0]
            }
        }
    }

    /// A null value that a changed model does not allow is omitted, so that the default replaces it.
    ///
    /// First come the objects and then their links: a key of an abstract entity that is below another needs an object that
    /// is one of it already.
    func json(in model: ChangingModel) -> String {
        let identified = records.filter { !model.identity(of: $0.entity).isEmpty }
        return
            "{\((members(identified, in: model, withLinks: false) + members(records, in: model, withLinks: true)).joined(separator: ",\n"))}"
    }

    private func members(
        _ records: [(entity: Int, records: [Record])], in model: ChangingModel, withLinks: Bool
    ) -> [String] {
        records.map { number, records in
            let entity = model.entity(number)!
            let attributes = model.attributes(of: number)
            let objects = records.map { record in
                let members = record.values.sorted { $0.key < $1.key }.compactMap { number, value -> String? in
                    guard withLinks || attributes.contains(where: { $0.number == number }) else { return nil }
                    let isRequired = attributes.contains { $0.number == number && $0.isRequired }
                    if value == nil, isRequired { return nil }
                    return "\"k\(number)\": \(value ?? "null")"
                }
                return "{\(members.joined(separator: ", "))}"
            }
            return "\"\(entity.name)\": [\(objects.joined(separator: ",\n"))]"
        }
    }

    /// Records of some entity make new objects every time.
    func hasRowKeys(in model: ChangingModel) -> Bool {
        records.contains { model.identity(of: $0.entity).isEmpty && !$0.records.isEmpty }
    }
}
