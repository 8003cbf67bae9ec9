import Foundation
import TestSupport

/// A job of a round: the same for the same seed in every process.
struct CrashJob {
    /// Its `tag`, what its last operation leaves in the store, and its id if it has one.
    let name: String
    let hasID: Bool
    /// Its client waits for its end.
    let isAwaited: Bool
    /// The message, without a line break.
    let text: String
    /// The same content without a name, for a client that waits for its end alone.
    let replayed: String

    /// The model beside ``GraphModel``: what jobs change that are large or bring unique values, and what each job leaves. A
    /// job that took effect twice has left two receipts.
    static let model = """
        {"entities": {
          "Item": {"identity": "id", "attributes": {
            "id": "integer64", "stamp": "string", "code": {"type": "string", "unique": true}}},
          "Receipt": {"attributes": {"job": "string"}},
          "\(Filling.entity)": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}},
         "routes": [{"keyPath": "items", "mapping": "item"}],
         "mappings": {"item": {"entity": "Item"}}}
        """

    /// The jobs of one client of a round, in the order in which it sends them.
    static func jobs(seed: UInt64, client: Int, count: Int, withJournal: Bool) -> [CrashJob] {
        let seed = seed &+ UInt64(client) &* 0x1_0000_0001
        var generator = SeededGenerator(seed: seed)
        var operations = RandomOperations(seed: ~seed)
        var graphJobs = operations.jobs(count).makeIterator()
        return (0..<count).map { index in
            let name = "c\(client)-\(index)"
            let isOfItems = index > 0 && Int.random(in: 0..<4, using: &generator) == 0
            let change = isOfItems ? ItemChange(stamp: name, using: &generator) : nil
            let graphJob = isOfItems ? nil : graphJobs.next()
            return CrashJob(name: name, change, graphJob, withJournal: withJournal, using: &generator)
        }
    }

    private init(
        name: String, _ change: ItemChange?, _ graphJob: RandomOperationJob?, withJournal: Bool,
        using generator: inout SeededGenerator
    ) {
        func chance(_ one: Int) -> Bool { Int.random(in: 1...one, using: &generator) == 1 }
        self.name = name
        hasID = !chance(3)
        let wantsAccepted = chance(2) || withJournal
        isAwaited = !chance(15) || withJournal
        var operations = graphJob?.operations.map(\.json) ?? []
        operations += [change?.json].compactMap(\.self)
        operations.append(#"{"op": "process", "entity": "Receipt", "json": {"job": "\#(name)"}}"#)
        let reply = graphJob.map { $0.hasKeys ? "keys" : "summary" } ?? (chance(3) ? "none" : "summary")
        let content =
            #""onInvalid": "\#(graphJob?.skips ?? false ? "skip" : "fail")", "reply": "\#(reply)", "#
            + #""operations": [\#(operations.joined(separator: ", "))]"#
        let notify = !isAwaited ? #""notify": [], "# : wantsAccepted ? #""notify": ["accepted", "completed"], "# : ""
        text = (hasID ? #"{"id": "\#(name)", "# : "{") + #""tag": "\#(name)", \#(notify)\#(content)}"#
        replayed = "{\(content)}"
    }
}

/// The effect of a job on objects of `Item`: many at once, or a few whose codes are unique.
enum ItemChange {
    struct Record {
        let id: Int
        /// nil: the record says nothing of it.
        var code: String??
    }

    case process([Record], stamp: String, isMapped: Bool)
    case delete(Range<Int>)

    init(stamp: String, using generator: inout SeededGenerator) {
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        switch number(0...9) {
        case 0, 1:
            let first = number(0...2_000)
            let records = (first..<first + number(200...3_000)).map { Record(id: $0) }
            self = .process(records, stamp: stamp, isMapped: false)
        case 2:
            let first = number(0...4_000)
            self = .delete(first..<first + number(1...500))
        default:
            let records = (1...10).shuffled(using: &generator).prefix(number(1...4)).map { id in
                Record(
                    id: id,
                    code: number(0...3) == 0
                        ? .some(nil) : Array("abcdefghijkl").randomElement(using: &generator).map(String.init))
            }
            self = .process(records, stamp: stamp, isMapped: number(0...1) == 0)
        }
    }

    /// The operation.
    var json: String {
        switch self {
        case .delete(let ids):
            return #"{"op": "delete", "entity": "Item", "where": "id >= %@ AND id < %@", "#
                + #""arguments": [\#(ids.lowerBound), \#(ids.upperBound)]}"#
        case .process(let records, let stamp, let isMapped):
            let texts = records.map { record in
                let code = record.code.map { #", "code": \#($0.map { "\"\($0)\"" } ?? "null")"# } ?? ""
                return #"{"id": \#(record.id), "stamp": "\#(stamp)"\#(code)}"#
            }
            let json = "[\(texts.joined(separator: ", "))]"
            return isMapped
                ? #"{"op": "map", "json": {"items": \#(json)}}"#
                : #"{"op": "process", "entity": "Item", "json": \#(json)}"#
        }
    }
}

/// A record of JSON.
struct GraphRecord {
    let entity: GraphModel.Entity
    var identity: [String]?
    var values: [(attribute: String, value: String?)] = []
    var links: [(relationship: GraphModel.Relationship, value: GraphValue)] = []

    var json: String {
        let key = zip(entity.identity, identity ?? []).map { "\"\($0)\": \(entity.json($0, $1))" }
        let values = values.map { name, value in "\"\(name)\": \(value.map { entity.json(name, $0) } ?? "null")" }
        let links = links.map { "\"\($0.name)\": \($1.json)" }
        return "{\((key + values + links).joined(separator: ", "))}"
    }
}

indirect enum GraphValue {
    case null
    case key(GraphModel.Entity, [String])
    case record(GraphRecord)
    case list([GraphValue])

    var json: String {
        switch self {
        case .null: "null"
        case .key(let entity, let key): entity.json(key: key)
        case .record(let record): record.json
        case .list(let values): "[\(values.map(\.json).joined(separator: ", "))]"
        }
    }
}

/// `path op value`, of which the value may be nil.
struct GraphCondition {
    let path: [String]
    let comparison: String
    let value: String?
    let isText: Bool

    var json: String {
        "\"where\": \"\(path.joined(separator: ".")) \(comparison) %@\", "
            + "\"arguments\": [\(value.map { isText ? "\"\($0)\"" : $0 } ?? "null")]"
    }
}

/// One operation of a job.
struct RandomOperation {
    enum Action {
        case process(object: [String]?)
        case relate(object: [String])
        case delete([[String]])
        case deleteMatching(GraphCondition?)
        case sync(GraphCondition?, Set<String>, part: (id: String, isLast: Bool)?)
    }

    let entity: GraphModel.Entity
    let action: Action
    /// A `relate` with nothing but the relationship.
    var records: [GraphRecord] = []

    var json: String {
        func operation(_ name: String, _ fields: String) -> String {
            "{\"op\": \"\(name)\", \"entity\": \"\(entity.name)\", \(fields)}"
        }
        let list = "\"json\": [\(records.map(\.json).joined(separator: ", "))]"
        switch action {
        case .process(nil): return operation("process", list)
        case .process(let object?):
            return operation("process", "\"object\": \(entity.json(key: object)), \"json\": \(records[0].json)")
        case .relate(let object):
            let (relationship, value) = records[0].links[0]
            return operation(
                "relate",
                "\"object\": \(entity.json(key: object)), \"relationship\": \"\(relationship.name)\", "
                    + "\"json\": \(value.json)")
        case .delete(let keys):
            return operation("delete", "\"objects\": [\(keys.map { entity.json(key: $0) }.joined(separator: ", "))]")
        case .deleteMatching(let condition):
            return operation("delete", condition?.json ?? "\"where\": \"TRUEPREDICATE\"")
        case .sync(let condition, let actions, let part):
            let all = ["insert", "update", "delete"]
            let names = all.filter(actions.contains).map { "\"\($0)\"" }.joined(separator: ", ")
            return operation(
                "sync",
                list + (condition.map { ", \($0.json)" } ?? "")
                    + (actions.count == all.count ? "" : ", \"actions\": [\(names)]")
                    + (part.map { ", \"part\": {\"id\": \"\($0.id)\", \"last\": \($0.isLast)}" } ?? ""))
        }
    }
}

/// A job of random operations.
struct RandomOperationJob {
    let operations: [RandomOperation]
    let hasKeys: Bool
    /// Invalid records are rejected.
    let skips: Bool
}

/// Makes jobs of several operations over few objects, met often.
struct RandomOperations {
    private var generator: SeededGenerator
    /// One of so many values of the job is wrong; 0: none.
    private var wrongness = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// The first job fills the store; those after it do what comes.
    mutating func jobs(_ count: Int) -> [RandomOperationJob] {
        var jobs = [
            RandomOperationJob(
                operations: GraphModel.entities.map { entity in
                    let records = (0..<4).map { _ in record(entity, depth: 1) }
                    return RandomOperation(entity: entity, action: .process(object: nil), records: records)
                }, hasKeys: true, skips: true)
        ]
        while jobs.count < count {
            let skips = chance(2)
            wrongness = skips ? number(6...20) : chance(6) ? 30 : 0
            var operations: [RandomOperation] = []
            for _ in 0..<number(1...5) { operations += chance(8) ? chain() : [operation()] }
            jobs.append(RandomOperationJob(operations: operations, hasKeys: !chance(3), skips: skips))
        }
        return jobs
    }

    /// Operations that follow an object from one identity to another, or that give one's identity to another.
    private mutating func chain() -> [RandomOperation] {
        let entity = pick(GraphModel.entities.filter { !$0.identity.isEmpty })
        var operations: [RandomOperation] = []
        var (from, to) = (key(entity), key(entity))
        if chance(2) { operations.append(RandomOperation(entity: entity, action: .delete([to]))) }
        for _ in 0..<number(1...3) {
            switch number(0...4) {
            case 0...2:
                var record = record(entity, depth: 0)
                record.identity = to
                operations.append(RandomOperation(entity: entity, action: .process(object: from), records: [record]))
                (from, to) = (to, chance(2) ? from : key(entity))
            case 3:
                var record = record(entity, depth: 0)
                record.identity = from
                operations.append(RandomOperation(entity: entity, action: .process(object: nil), records: [record]))
            default: operations.append(operation())
            }
        }
        return operations
    }

    private mutating func operation() -> RandomOperation {
        // Most of the links are a Person's.
        let entity = chance(4) ? GraphModel.entity("Person") : pick(GraphModel.entities)
        switch number(0...16) {
        case 0...5:
            return RandomOperation(entity: entity, action: .process(object: nil), records: records(entity, 1...3))
        case 6...8:
            var record = record(entity, depth: 1)
            if chance(3) { record.identity = nil }
            return RandomOperation(entity: entity, action: .process(object: key(entity)), records: [record])
        case 9...11:
            let relationship = pick(entity.relationships)
            let record = GraphRecord(entity: entity, links: [(relationship, value(relationship, depth: 1))])
            return RandomOperation(entity: entity, action: .relate(object: key(entity)), records: [record])
        case 12, 13:
            let keys = (0..<number(0...2)).map { _ in key(entity) }
            return RandomOperation(entity: entity, action: .delete(keys))
        case 14: return RandomOperation(entity: entity, action: .deleteMatching(condition(entity)))
        default:
            let part = chance(2) ? (id: pick(["x", "y"]), isLast: chance(3)) : nil
            let entity = part?.id == "x" ? GraphModel.entity("Person") : entity
            let condition = chance(4) ? nil : part?.id == "x" && !chance(5) ? always : condition(entity)
            return RandomOperation(
                entity: entity, action: .sync(condition, actions(), part: part),
                records: records(entity, 0...3))
        }
    }

    private mutating func actions() -> Set<String> {
        // In an order of its own, so that the same seed gives the same operations in every process.
        let all = ["insert", "update", "delete"]
        return Set(chance(2) ? all : all.filter { _ in !chance(3) })
    }

    private let always = GraphCondition(path: ["age"], comparison: "!=", value: "2", isText: false)

    private mutating func condition(_ entity: GraphModel.Entity) -> GraphCondition? {
        if chance(6) { return nil }
        let toOnes = entity.relationships.filter { !$0.isToMany }
        var path: [String] = []
        var last = entity
        if chance(2), let relationship = toOnes.randomElement(using: &generator) {
            path = [relationship.name]
            last = GraphModel.entity(relationship.destination)
        }
        let attribute = pick(last.attributes)
        let isText = last.texts.contains(attribute)
        let comparison = pick(isText ? ["==", "!="] : ["==", "!=", "<"])
        let value = chance(6) && comparison != "<" ? nil : isText ? pick(["a", "b", "c"]) : "\(number(1...3))"
        return GraphCondition(path: path + [attribute], comparison: comparison, value: value, isText: isText)
    }

    // MARK: - Records

    private mutating func records(_ entity: GraphModel.Entity, _ count: ClosedRange<Int>) -> [GraphRecord] {
        (0..<number(count)).map { _ in record(entity, depth: 1) }
    }

    private mutating func record(_ entity: GraphModel.Entity, depth: Int) -> GraphRecord {
        var record = GraphRecord(entity: entity)
        if !entity.identity.isEmpty, !isWrong { record.identity = key(entity) }
        for attribute in entity.attributes where !entity.identity.contains(attribute) {
            if attribute == entity.required {
                if !chance(5) {
                    record.values.append((attribute, value(entity, attribute, orNull: isWrong)))
                }
            } else if chance(3) {
                record.values.append((attribute, value(entity, attribute, orNull: chance(5))))
            }
        }
        guard depth >= 0 else { return record }
        for relationship in entity.relationships where chance(entity.name == "Person" ? 4 : 3) {
            record.links.append((relationship, value(relationship, depth: depth)))
        }
        record.links.shuffle(using: &generator)
        return record
    }

    private mutating func value(_ entity: GraphModel.Entity, _ attribute: String, orNull isNull: Bool) -> String? {
        if isNull { return nil }
        if isWrong { return GraphModel.Entity.wrong }
        return entity.texts.contains(attribute) ? pick(["a", "b", "c"]) : "\(number(1...3))"
    }

    private mutating func value(_ relationship: GraphModel.Relationship, depth: Int) -> GraphValue {
        if chance(5) { return .null }
        let destination = GraphModel.entity(relationship.destination)
        guard relationship.isToMany else { return element(destination, depth: depth) }
        return .list((0..<number(0...2)).map { _ in element(destination, depth: depth) })
    }

    private mutating func element(_ entity: GraphModel.Entity, depth: Int) -> GraphValue {
        if entity.identity.count == 1, depth == 0 || !chance(3) { return .key(entity, key(entity)) }
        return .record(record(entity, depth: depth - 1))
    }

    private mutating func key(_ entity: GraphModel.Entity) -> [String] {
        guard !entity.identity.isEmpty else { return ["\(number(1...8))"] }
        if entity.identity == Array(entity.integers.prefix(1)), isWrong { return [GraphModel.Entity.wrong] }
        return entity.identity.map { entity.texts.contains($0) ? pick(["a", "b", "c"]) : "\(number(1...4))" }
    }

    // MARK: - Chance

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    private var isWrong: Bool {
        mutating get { wrongness > 0 && chance(wrongness) }
    }

    private mutating func chance(_ one: Int) -> Bool { number(1...one) == 1 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
}

/// The model of random operations: every form of relationship, ordered ones, each delete rule, a compound identity,
/// an entity without identity, and one with a required attribute.
enum GraphModel {
    struct Relationship {
        let name: String
        let destination: String
        let isToMany: Bool
        let inverse: String?
        let rule: String
        let replaces: Bool
        /// At most one of a pair of relationships.
        let isOrdered: Bool

        init(
            _ name: String, _ destination: String, many isToMany: Bool = false, inverse: String? = nil,
            _ rule: String = "nullify", replaces: Bool = false, ordered isOrdered: Bool = false
        ) {
            self.name = name
            self.destination = destination
            self.isToMany = isToMany
            self.inverse = inverse
            self.rule = rule
            self.replaces = replaces
            self.isOrdered = isOrdered
        }
    }

    struct Entity {
        let name: String
        let identity: [String]
        let integers: [String]
        let texts: [String]
        var required: String?
        let relationships: [Relationship]

        var attributes: [String] { integers + texts }
        var keyColumns: [String] { identity.isEmpty ? ["_pk"] : identity }

        /// A value that no attribute takes.
        static let wrong = "?"

        /// A value as JSON.
        func json(_ attribute: String, _ value: String) -> String {
            if attribute == "_pk" || integers.contains(attribute) { return value == Self.wrong ? "\"?\"" : value }
            return value == Self.wrong ? "{}" : "\"\(value)\""
        }

        /// A key as it is in operations and answers.
        func json(key: [String]) -> String {
            let parts = zip(keyColumns, key).map { json($0, $1) }
            guard parts.count > 1 else { return parts[0] }
            return "{" + zip(keyColumns, parts).map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
        }
    }

    static let entities = [
        Entity(
            name: "Badge", identity: ["id"], integers: ["id"], texts: [],
            relationships: [Relationship("owner", "Person", inverse: "badge")]),
        Entity(
            name: "Desk", identity: ["id"], integers: ["id"], texts: ["label"], required: "label",
            relationships: [Relationship("room", "Room", inverse: "desks")]),
        Entity(
            name: "Note", identity: [], integers: [], texts: ["text"],
            relationships: [Relationship("about", "Person", "noAction"), Relationship("next", "Note", "cascade")]),
        Entity(
            name: "Paper", identity: ["id"], integers: ["id"], texts: [],
            relationships: [
                Relationship("follows", "Paper", "cascade"), Relationship("seal", "Tag", "deny"),
                Relationship("cover", "Tag", inverse: "covered", "noAction"),
            ]),
        Entity(
            name: "Person", identity: ["id"], integers: ["id", "age"], texts: ["name"],
            relationships: [
                Relationship("team", "Team", inverse: "staff"), Relationship("boss", "Person"),
                Relationship("badge", "Badge", inverse: "owner"), Relationship("seat", "Room"),
                Relationship("stay", "Room", inverse: "guests"),
                Relationship("tags", "Tag", many: true, inverse: "bearers"),
                Relationship("papers", "Paper", many: true, "cascade", ordered: true),
                Relationship("notes", "Note", many: true, "cascade"),
            ]),
        Entity(
            name: "Room", identity: ["floor", "number"], integers: ["floor"], texts: ["number", "colour"],
            relationships: [
                Relationship("team", "Team", inverse: "rooms"),
                Relationship("desks", "Desk", many: true, inverse: "room", "deny"),
                Relationship("guests", "Person", many: true, inverse: "stay", "noAction"),
            ]),
        Entity(
            name: "Tag", identity: ["word"], integers: [], texts: ["word"],
            relationships: [
                Relationship("bearers", "Person", many: true, inverse: "tags", ordered: true),
                Relationship("places", "Room", many: true, replaces: true, ordered: true),
                Relationship("covered", "Paper", inverse: "cover"),
                Relationship("guards", "Badge", many: true, "deny"),
            ]),
        Entity(
            name: "Team", identity: ["id"], integers: ["id"], texts: ["name"],
            relationships: [
                Relationship("staff", "Person", many: true, inverse: "team", ordered: true),
                Relationship("rooms", "Room", many: true, inverse: "team", "cascade", replaces: true, ordered: true),
            ]),
    ]

    static func entity(_ name: String) -> Entity { entities.first { $0.name == name }! }

    /// As a model's document.
    static var json: String {
        let members = entities.map { entity in
            let attributes = entity.attributes.map { attribute in
                "\"\(attribute)\": {\"type\": \"\(entity.integers.contains(attribute) ? "integer64" : "string")\", "
                    + "\"optional\": \(attribute != entity.required)}"
            }
            let relationships = entity.relationships.map { relationship in
                "\"\(relationship.name)\": {\"entity\": \"\(relationship.destination)\", "
                    + "\"toMany\": \(relationship.isToMany), \"ordered\": \(relationship.isOrdered), \"deleteRule\": \"\(relationship.rule)\""
                    + (relationship.inverse.map { ", \"inverse\": \"\($0)\"" } ?? "")
                    + (relationship.replaces ? ", \"assignment\": \"replace\"}" : "}")
            }
            let identity = entity.identity.map { "\"\($0)\"" }.joined(separator: ", ")
            return "\"\(entity.name)\": {" + (identity.isEmpty ? "" : "\"identity\": [\(identity)], ")
                + "\"attributes\": {\(attributes.joined(separator: ", "))}, "
                + "\"relationships\": {\(relationships.joined(separator: ", "))}}"
        }
        return "{\"entities\": {\(members.joined(separator: ",\n"))}}"
    }
}

/// The files of a round's model.
enum Model {
    static let graph = "graph.json"
    /// Beside the graph.
    static let more = "more.json"

    static func write() throws {
        for (name, text) in [(graph, GraphModel.json), (more, CrashJob.model)] {
            try text.write(toFile: name, atomically: true, encoding: .utf8)
        }
    }
}
