import BrokerStaging
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

/// Entities that inherit from others.
extension RandomModel {
    /// The entity with all that it inherits.
    func entity(_ name: String) -> Entity {
        var entity = declared(name)
        guard let parent = entity.parent.map({ self.entity($0) }) else { return entity }
        entity.isBelowKeyless = parent.identity.isEmpty || parent.isBelowKeyless
        entity.isIdentityOptional = parent.isIdentityOptional
        entity.hasModified = parent.hasModified
        entity.hasTombstone = parent.hasTombstone
        if !parent.identity.isEmpty { entity.identity = parent.identity }
        entity.attributes = parent.attributes + entity.attributes
        entity.relationships = parent.relationships + entity.relationships
        return entity
    }

    private func declared(_ name: String) -> Entity { entities.first { $0.name == name }! }

    /// From its parent on up.
    func ancestors(_ name: String) -> [String] {
        declared(name).parent.map { [$0] + ancestors($0) } ?? []
    }

    func topmost(_ name: String) -> String { ancestors(name).last ?? name }

    func isInHierarchy(_ name: String) -> Bool {
        declared(name).parent != nil || entities.contains { $0.parent == name }
    }

    /// It is that entity, or inherits from it.
    func isKind(_ name: String, of other: String) -> Bool { name == other || ancestors(name).contains(other) }

    /// The entity among whose objects the identity is unique.
    func identityOwner(_ name: String) -> String {
        ([name] + ancestors(name)).last { !declared($0).identity.isEmpty } ?? name
    }

    /// The column of an attribute in the hierarchy's table: siblings share one if they agree on its type.
    func column(_ attribute: String, of name: String) -> String {
        let owner = ([name] + ancestors(name)).first { declared($0).attributes.contains { $0.name == attribute } }!
        let types = entities.filter { topmost($0.name) == topmost(name) }
            .flatMap { $0.attributes.filter { $0.name == attribute } }.map(\.type)
        return Set(types).count == 1 ? attribute : "\(owner)_\(attribute)"
    }

    /// Lists of columns of the hierarchy's table that are unique.
    func uniqueColumns(below topmost: String) -> Set<[String]> {
        var lists: Set<[String]> = []
        for entity in entities where self.topmost(entity.name) == topmost {
            for list in entity.unique + entity.attributes.filter(\.isUnique).map({ [$0.name] }) {
                lists.insert(list.map { column($0, of: entity.name) })
            }
        }
        return lists
    }

    // MARK: - At random

    mutating func addSubentities(_ generator: inout SeededGenerator) {
        for name in ["E", "F", "G"].prefix(Int.random(in: 1...3, using: &generator)) {
            let parent = entities.randomElement(using: &generator)!.name
            var entity = Entity(name: name, parent: parent)
            if self.entity(parent).identity.isEmpty, generator.chance(2) {
                let types = [SampleType.integer64, .string, .integer16]
                entity.attributes = [Attribute(name: "id", type: types.randomElement(using: &generator)!)]
                entity.identity = ["id"]
            }
            let names =
                ancestors(parent).isEmpty ? ["t", "u"] : ancestors(parent).count == 1 ? ["v", "w"] : ["x", "y"]
            for name in names.prefix(Int.random(in: 0...2, using: &generator)) {
                entity.attributes.append(Self.attribute(name, &generator))
            }
            entity.isAbstract = generator.chance(8)
            entities.append(entity)
        }
        for index in entities.indices where entities.contains(where: { $0.parent == entities[index].name }) {
            if generator.chance(3) { entities[index].isAbstract = true }
        }
    }
}

/// A JSON value of a random job; members keep their order, and a key may come twice.
indirect enum Tree {
    /// A scalar, or an attribute's value of any kind, as it is written.
    case literal(String)
    case array([Tree])
    case object([Member])

    struct Member {
        var key: String
        var value: Tree
    }

    var text: String {
        var text = ""
        _ = PlacedTree(self, writing: &text)
        return text
    }
}

/// A JSON value and where it begins in its text, in bytes.
struct PlacedTree {
    enum Form {
        case literal(String)
        case array([PlacedTree])
        case object([(key: String, value: PlacedTree)])
    }

    let offset: Int
    let form: Form

    init(_ tree: Tree, writing text: inout String) {
        offset = text.utf8.count
        switch tree {
        case .literal(let literal):
            text += literal
            form = .literal(literal)
        case .array(let elements):
            form = .array(
                Self.separated(elements, "[", "]", &text) { element, text in PlacedTree(element, writing: &text) })
        case .object(let members):
            form = .object(
                Self.separated(members, "{", "}", &text) { member, text in
                    text += "\"\(member.key)\": "
                    return (member.key, PlacedTree(member.value, writing: &text))
                })
        }
    }

    private static func separated<Item, Placed>(
        _ items: [Item], _ opening: String, _ closing: String, _ text: inout String,
        _ place: (Item, inout String) -> Placed
    ) -> [Placed] {
        text += opening
        var placed: [Placed] = []
        for item in items {
            if !placed.isEmpty { text += ", " }
            placed.append(place(item, &text))
        }
        text += closing
        return placed
    }

    var isNull: Bool { if case .literal("null") = form { true } else { false } }

    /// The value of a key; the last of duplicate keys wins.
    subscript(key: String) -> PlacedTree? {
        guard case .object(let members) = form else { return nil }
        return members.last { $0.key == key }?.value
    }
}

/// The types of random attributes: a few values of each as JSON, what a table holds for them, and what is no such value.
///
/// The contents of a table, as `SQLRows` reads them. The first values are the identities that jobs share.
enum SampleType: String, CaseIterable {
    case integer16, integer64, string, boolean, double, decimal, date, calendarDate, binary, uuid, transformable

    var samples: [(json: String, stored: String)] {
        switch self {
        case .integer16, .integer64:
            [("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("\"2\"", "2"), ("true", "1"), ("9", "9")]
        case .string:
            [
                ("\"a\"", "a"), ("\"b\"", "b"), ("\"c\"", "c"), ("1", "1"), ("\"\\u0061\"", "a"), ("true", "true"),
                ("\"long\"", "long"), ("\"abc\"", "abc"),
            ]
        case .boolean: [("true", "1"), ("false", "0"), ("1", "1"), ("\"no\"", "0"), ("\"T\"", "1")]
        case .double: [("0.0", "0.0"), ("-0.0", "0.0"), ("1.5", "1.5"), ("\"1.5\"", "1.5"), ("2", "2.0")]
        case .decimal: [("1.5", "1.5"), ("\"1.50\"", "1.50"), ("2", "2"), ("\"+2\"", "2"), ("0.1", "0.1")]
        case .date:
            [
                ("0", "1970-01-01T00:00:00.000Z"), ("86400", "1970-01-02T00:00:00.000Z"),
                ("\"1970-01-01\"", "1970-01-01T00:00:00.000Z"),
                ("\"1970-01-02T01:00:00+01:00\"", "1970-01-02T00:00:00.000Z"),
            ]
        case .calendarDate:
            [("\"1970-01-01\"", "1970-01-01"), ("\"2000-02-29\"", "2000-02-29"), ("\"0001-01-01\"", "0001-01-01")]
        case .binary: [("\"AQ==\"", "x'01'"), ("\"Ag==\"", "x'02'"), ("\"AQ\"", "x'01'"), ("\"AwQ=\"", "x'0304'")]
        case .uuid:
            [
                ("\"00000000-0000-0000-0000-00000000000a\"", "00000000-0000-0000-0000-00000000000A"),
                ("\"00000000-0000-0000-0000-00000000000A\"", "00000000-0000-0000-0000-00000000000A"),
                ("\"00000000-0000-0000-0000-00000000000B\"", "00000000-0000-0000-0000-00000000000B"),
            ]
        case .transformable:
            [("[1, {\"a\": 2}]", "[1,{\"a\":2}]"), ("5", "5"), ("\"t\"", "\"t\""), ("{}", "{}")]
        }
    }

    /// JSON that is no value of this type.
    var wrong: [String] {
        switch self {
        case .integer16: ["3.7", "\"abc\"", "40000", "{}"]
        case .integer64: ["3.7", "\"abc\"", "[]"]
        case .string: ["{}", "[1]"]
        case .boolean: ["2", "\"maybe\"", "{}"]
        case .double, .decimal: ["\"abc\"", "[]"]
        case .date: ["\"soon\"", "{}"]
        case .calendarDate: ["0", "\"1970-01-01T00:00:00Z\"", "\"2001-02-29\""]
        case .binary: ["\"*\"", "{}"]
        case .uuid: ["\"abc\"", "{}"]
        case .transformable: []
        }
    }

    /// The stored value for that JSON; nil when it is no value of this type.
    func stored(_ json: String) -> String? { samples.first { $0.json == json }?.stored }
}

/// A limit of a random attribute's values.
enum SampleLimit {
    case range(ClosedRange<Int>)
    case maximumLength(Int)
    case pattern(Character)
    case oneOf([String])

    var json: String {
        switch self {
        case .range(let range): "\"min\": \(range.lowerBound), \"max\": \(range.upperBound)"
        case .maximumLength(let length): "\"maxLength\": \(length)"
        case .pattern(let first): "\"pattern\": \"^\(first).*$\""
        case .oneOf(let texts): "\"enum\": [\(texts.map { "\"\($0)\"" }.joined(separator: ", "))]"
        }
    }

    func allows(_ stored: String) -> Bool {
        switch self {
        case .range(let range): range.contains(Int(stored)!)
        case .maximumLength(let length): stored.count <= length
        case .pattern(let first): stored.first == first
        case .oneOf(let texts): texts.contains(stored)
        }
    }
}

/// A job over a small space of identities.
struct RandomJob {
    struct Condition {
        var attribute = "id"
        let maximum: Int
        var text: String { "\(attribute) <= \(maximum)" }

        func isMet(_ values: [String: String]) -> Bool {
            values[attribute].flatMap { Int($0) }.map { $0 <= maximum } ?? false
        }
    }

    enum Action {
        case process(Tree)
        /// The object's key as JSON, and the record, if there is one beside the changes.
        case change(key: String, Tree?)
        case relate(key: String, relationship: String, Tree)
        case sync(Tree, Condition?)
        case delete(keys: [String])
        case deleteMatching(Condition)
    }

    enum Expectation {
        case absent
        case present
        case matching(Condition)

        var tree: Tree {
            switch self {
            case .absent: .literal("\"absent\"")
            case .present: .literal("\"present\"")
            case .matching(let condition):
                .object([Tree.Member(key: "where", value: .literal("\"\(condition.text)\""))])
            }
        }
    }

    struct Operation {
        var entity: String
        var action: Action
        var expectation: Expectation?
        var changes: [Change] = []
        var links: Links?

        var tree: Tree {
            var members = [("entity", Tree.literal("\"\(entity)\""))]
            if let expectation { members.append(("expect", expectation.tree)) }
            switch action {
            case .process(let json): members.append(("json", json))
            case .change(let key, let json):
                members.append(("object", .literal(key)))
                members += RandomJob.members(changes)
                if let json { members.append(("json", json)) }
            case .relate(let key, let relationship, let json):
                members += [
                    ("op", .literal("\"relate\"")), ("object", .literal(key)),
                    ("relationship", .literal("\"\(relationship)\"")), ("json", json),
                ]
                if let links { members.append(("links", .literal("\"\(links.rawValue)\""))) }
            case .sync(let json, let condition):
                members += [("op", .literal("\"sync\"")), ("json", json)]
                if let condition { members.append(("where", .literal("\"\(condition.text)\""))) }
            case .delete(let keys):
                members += [("op", .literal("\"delete\"")), ("objects", .array(keys.map { .literal($0) }))]
            case .deleteMatching(let condition):
                members += [("op", .literal("\"delete\"")), ("where", .literal("\"\(condition.text)\""))]
            }
            return .object(members.map { Tree.Member(key: $0, value: $1) })
        }
    }

    var operations: [Operation]
    var skips: Bool

    var policy: InvalidRecordPolicy { skips ? .skip : .fail }
    var tree: Tree { .array(operations.map(\.tree)) }
}

extension RandomJob.Action {
    fileprivate var namesOneObject: Bool {
        switch self {
        case .process(.object), .change, .relate: true
        case .delete(let keys): keys.count == 1
        case .process, .sync, .deleteMatching: false
        }
    }
}

/// Makes random jobs for a model.
struct RandomJobs {
    let model: RandomModel
    var generator: SeededGenerator
    /// How often a fault comes: never, or one time in so many.
    private let faults: Int?
    private var newestMark = 0
    private var roomForRecords = 0

    init(_ model: RandomModel, _ generator: SeededGenerator) {
        self.model = model
        self.generator = generator
        faults = self.generator.chance(3) ? nil : 20
    }

    mutating func job() -> RandomJob {
        roomForRecords = Int.random(in: 1...10, using: &generator)
        let skips = !generator.chance(3)
        let operations = (0..<Int.random(in: 1...3, using: &generator)).map { _ in operation(isAtomic: !skips) }
        return RandomJob(operations: operations, skips: skips)
    }

    /// - Parameter isAtomic: the job skips no record, so operations may depend on their objects.
    private mutating func operation(isAtomic: Bool) -> RandomJob.Operation {
        let name = model.entities.filter { !$0.isOwned }.randomElement(using: &generator)!.name
        let entity = model.entity(name)
        var operation = RandomJob.Operation(entity: name, action: action(entity))
        guard isAtomic else { return operation }
        depend(&operation, entity)
        if operation.action.namesOneObject, generator.chance(2) { operation.expectation = expectation(entity) }
        return operation
    }

    private mutating func expectation(_ entity: RandomModel.Entity) -> RandomJob.Expectation {
        let numbers = entity.attributes.filter { [.integer16, .integer64].contains($0.type) && $0.name != "mark" }
        if let attribute = numbers.randomElement(using: &generator), generator.chance(2) {
            return .matching(
                RandomJob.Condition(attribute: attribute.name, maximum: Int.random(in: 1...4, using: &generator)))
        }
        return generator.chance(3) ? .absent : .present
    }

    private mutating func condition(_ entity: RandomModel.Entity) -> RandomJob.Condition? {
        let hasNumbers = entity.identity == ["id"] && [.integer16, .integer64].contains(entity.attribute("id").type)
        return hasNumbers ? RandomJob.Condition(maximum: Int.random(in: 1...3, using: &generator)) : nil
    }

    private mutating func action(_ entity: RandomModel.Entity) -> RandomJob.Action {
        let hasKeys = entity.isNamedByRowKey || entity.identity.count == 1
        let condition = condition(entity)
        switch Int.random(in: 0..<12, using: &generator) {
        case 0 where hasKeys, 5 where hasKeys: return .change(key: key(entity), record(entity, depth: 3))
        case 1 where hasKeys, 6 where hasKeys:
            guard let relationship = entity.relationships.filter({ !$0.isOfOwner }).randomElement(using: &generator)
            else { break }
            return .relate(key: key(entity), relationship: relationship.name, value(relationship, depth: 2))
        case 2: return .sync(records(entity), condition)
        case 3 where hasKeys:
            return .delete(keys: (0..<Int.random(in: 1...2, using: &generator)).map { _ in key(entity) })
        case 4: if let condition, generator.chance(2) { return .deleteMatching(condition) }
        default: break
        }
        return .process(generator.chance(5) ? record(entity, depth: 3) : records(entity))
    }

    private mutating func key(_ entity: RandomModel.Entity) -> String {
        if entity.isNamedByRowKey { return "\(Int.random(in: 1...6, using: &generator))" }
        let attribute = entity.attribute(entity.identity[0])
        let allowed = attribute.type.samples.prefix(4).filter { attribute.limit?.allows($0.stored) ?? true }
        return allowed.randomElement(using: &generator)!.json
    }

    private mutating func records(_ entity: RandomModel.Entity) -> Tree {
        .array(
            (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                isFaulty() && generator.chance(3) ? .literal("1") : record(entity, depth: 3)
            })
    }

    private mutating func record(_ entity: RandomModel.Entity, depth: Int) -> Tree {
        roomForRecords -= 1
        var members: [Tree.Member] = []
        for attribute in entity.attributes {
            guard case .key = attribute.source else { continue }
            if attribute.name == "at" {
                guard generator.chance(2) else { continue }
                members.append(.init(key: "at", value: .literal("\(Int.random(in: 1...6, using: &generator))")))
            } else if attribute.name == "gone" {
                if generator.chance(6) { members.append(.init(key: "gone", value: .literal("true"))) }
            } else if entity.isOwned, attribute.name == "no" {
                members.append(.init(key: "no", value: .literal("\(Int.random(in: 1...3, using: &generator))")))
            } else if attribute.name == "mark" {
                newestMark += 1
                members.append(Tree.Member(key: "mark", value: .literal("\(newestMark)")))
            } else if entity.identity.contains(attribute.name) {
                guard !(entity.isIdentityOptional && generator.chance(3)), !isFaulty() else { continue }
                members.append(Tree.Member(key: attribute.name, value: identity(attribute)))
            } else if attribute.isRequired ? !generator.chance(4) : generator.chance(2) {
                members += value(attribute)
            }
        }
        for relationship in entity.relationships where depth > 0 && roomForRecords > 0 {
            guard !relationship.isOfOwner, generator.chance(3) else { continue }

            members.append(Tree.Member(key: relationship.name, value: value(relationship, depth: depth)))
        }
        if isFaulty() { members.append(Tree.Member(key: "unknown", value: .literal("1"))) }
        if isFaulty(), let again = members.randomElement(using: &generator) { members.append(again) }
        return .object(members.shuffled(using: &generator))
    }

    private mutating func value(_ attribute: RandomModel.Attribute) -> [Tree.Member] {
        let fallback = Tree.Member(
            key: "\(attribute.name)Of", value: .object([.init(key: "it", value: scalar(attribute))]))
        if attribute.hasFallback, generator.chance(3) { return [fallback] }
        if attribute.hasFallback, generator.chance(4) {
            return [Tree.Member(key: fallback.key, value: .literal("null"))]
        }
        let first = Tree.Member(key: attribute.name, value: scalar(attribute))
        return attribute.hasFallback && generator.chance(2) ? [first, fallback] : [first]
    }

    private mutating func scalar(_ attribute: RandomModel.Attribute) -> Tree {
        if generator.chance(attribute.isRequired ? 30 : 8) { return .literal("null") }
        if isFaulty(), let wrong = attribute.type.wrong.randomElement(using: &generator) { return .literal(wrong) }
        return .literal(allowed(attribute).randomElement(using: &generator)!)
    }

    private mutating func identity(_ attribute: RandomModel.Attribute) -> Tree {
        if isFaulty() {
            let wrong = (attribute.type.wrong + ["null"]).randomElement(using: &generator)!
            return .literal(wrong)
        }
        return .literal(allowed(attribute).prefix(4).randomElement(using: &generator)!)
    }

    /// Values within the limits, but for a few where faults may come.
    private mutating func allowed(_ attribute: RandomModel.Attribute) -> [String] {
        let isHeld = !isFaulty()
        return attribute.type.samples.filter { !isHeld || attribute.limit?.allows($0.stored) ?? true }.map(\.json)
    }

    private mutating func value(_ relationship: RandomModel.Relationship, depth: Int) -> Tree {
        if generator.chance(8) { return .literal("null") }
        if !relationship.isToMany || generator.chance(6) { return element(relationship, depth: depth) }
        return .array(
            (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                isFaulty() && generator.chance(2) ? .literal("null") : element(relationship, depth: depth)
            })
    }

    private mutating func element(_ relationship: RandomModel.Relationship, depth: Int) -> Tree {
        let destination = model.entity(relationship.destination)
        let mayBeBare = destination.identity.count == 1 || isFaulty()
        if mayBeBare, depth == 0 || roomForRecords <= 0 || generator.chance(2) {
            guard destination.identity.count == 1 else { return .literal("1") }
            let bare = identity(destination.attribute(destination.identity[0]))
            // An object or an array in a relationship is none of its bare keys.
            if case .literal(let text) = bare, text == "null" || text.hasPrefix("{") || text.hasPrefix("[") {
                return .literal(destination.attributes[0].type == .binary ? "\"*\"" : "\"abc\"")
            }
            return bare
        }
        return record(destination, depth: max(0, depth - 1))
    }

    private mutating func isFaulty() -> Bool {
        guard let faults else { return false }
        return generator.chance(faults)
    }
}
