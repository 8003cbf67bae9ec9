import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// The interpreter beside the merge of sets, on random jobs for which the rules of both say the same: each object has one record
/// in a job, no record says of its holder what the holder's record says, and with `skip` no value is freed that another record
/// claims.
@Suite(.timeLimit(.minutes(5))) struct InterpreterTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "unique": ["code"],
            "attributes": {"id": "integer64", "name": {"type": "string", "default": "none"},
              "code": {"type": "string"}, "grade": {"type": "integer16", "max": 9}},
            "relationships": {
              "team": {"entity": "Team", "inverse": "members"},
              "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"},
              "friends": {"entity": "Person", "toMany": true, "inverse": "friends"},
              "desk": {"entity": "Desk", "inverse": "owner", "missing": "ignore"},
              "lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Manager": {"parent": "Person", "attributes": {"level": {"type": "integer16", "default": 1}}},
          "Team": {"identity": "id", "attributes": {"id": "integer64", "title": {"type": "string", "optional": false}},
            "relationships": {"members": {"entity": "Person", "toMany": true, "ordered": true, "inverse": "team",
              "deleteRule": "nullify"}}},
          "Desk": {"identity": "id", "attributes": {"id": "integer64", "room": "string"},
            "relationships": {"owner": {"entity": "Person", "inverse": "desk", "missing": "fail"}}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}},
          "Line": {"attributes": {"sku": "string", "count": "integer64"}},
          "Note": {"attributes": {"text": "string"}, "relationships": {"about": {"entity": "Person", "missing": "fail"}}}
        }}
        """

    private static let tables = [
        "SELECT id, _entity, name, code, grade, level, team, desk FROM Person ORDER BY 1",
        "SELECT team, id FROM Person WHERE team IS NOT NULL ORDER BY team, team_position",
        "SELECT * FROM Team ORDER BY 1", "SELECT * FROM Desk ORDER BY 1", "SELECT * FROM Tag ORDER BY 1",
        "SELECT * FROM Line ORDER BY 1, 2, 3", "SELECT * FROM Note ORDER BY 1",
        "SELECT source, destination FROM Person_tags ORDER BY 1, 2",
        "SELECT source, destination FROM Person_friends ORDER BY 1, 2",
    ]

    @Test(arguments: [InvalidRecordPolicy.fail, .skip])
    func `a job has the effect of its merge as sets`(policy: InvalidRecordPolicy) throws {
        var options = StoreOptions()
        options.synchronous = .off
        let sets = try TestStore(Self.model, options: options)
        options.interpretsAll = true
        let interpreter = try TestStore(Self.model, options: options)
        var random = RandomOperations(
            generator: SeededGenerator(for: "the interpreter and sets, \(policy)"), skips: policy == .skip)
        for store in [sets, interpreter] { try store.apply(#"{"Person": {"id": 0, "code": "taken"}}"#) }
        for number in 0..<Cases.count(150, of: 600) {
            let operations = random.job()
            let ends = try [sets, interpreter].map { try Self.end(of: operations, policy, $0) }
            #expect(ends[0] == ends[1], "job \(number): \(operations)")
            for table in Self.tables {
                let rows = try [sets, interpreter].map { try $0.rows(table) }
                #expect(rows[0] == rows[1], "job \(number), \(table): \(operations)")
                if rows[0] != rows[1] { return }
            }
        }
    }

    private static func end(
        of operations: String, _ policy: InvalidRecordPolicy, _ store: TestStore
    ) throws -> [String] {
        switch try store.apply(store.job(operations: operations, policy)) {
        case .completed(let outcome): return outcome.described.sorted() + outcome.rejections.sorted()
        case .failed(let fault): return [fault.code.rawValue]
        case .conflict, .duplicate: return ["not applied"]
        }
    }
}

/// Random operations in which each object has at most one record.
private struct RandomOperations {
    var generator: SeededGenerator
    let skips: Bool
    private var free: [String: [Int]] = [:]

    init(generator: SeededGenerator, skips: Bool) {
        self.generator = generator
        self.skips = skips
    }

    mutating func job() -> String {
        free = Dictionary(uniqueKeysWithValues: ["Person", "Team", "Desk"].map { ($0, Array(1...8)) })
        return (0..<Int.random(in: 1...4, using: &generator)).map { _ in operation() }.joined(separator: ", ")
    }

    private mutating func operation() -> String {
        let entity = ["Person", "Person", "Manager", "Team", "Desk", "Note"].randomElement(using: &generator)!
        switch Int.random(in: 0..<10, using: &generator) {
        case 0: return #"{"op": "delete", "entity": "Person", "objects": [\#(key()), \#(key())]}"#
        case 1:
            return #"{"op": "sync", "entity": "Person", "where": "id > 6", "json": [\#(record("Person", depth: 1))]}"#
        default:
            let records = (0..<Int.random(in: 1...3, using: &generator)).map { _ in record(entity, depth: 0) }
            return #"{"entity": "\#(entity)", "json": [\#(records.joined(separator: ", "))]}"#
        }
    }

    private mutating func record(_ entity: String, depth: Int) -> String {
        var members: [String] = []
        if entity == "Note" {
            members.append(#""text": "t""#)
            if chance(2) { members.append(#""about": \#(key())"#) }
            return "{\(members.joined(separator: ", "))}"
        }
        let pool = entity == "Manager" ? "Person" : entity
        guard let id = free[pool]?.randomElement(using: &generator) else { return #"{"id": "none"}"# }
        free[pool]!.removeAll { $0 == id }
        members.append(#""id": \#(id)"#)
        switch entity {
        case "Team":
            if chance(2) { members.append(#""title": \#(chance(8) ? "null" : #""t""#)"#) }
            if chance(2), depth < 2 { members.append(#""members": \#(list { $0.person(depth) })"#) }
        case "Desk":
            if chance(2) { members.append(#""room": "r\#(key())""#) }
            if chance(3) { members.append(#""owner": \#(chance(3) ? "null" : "\(key())")"#) }
        default: addPerson(entity, id, &members, depth)
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func addPerson(_ entity: String, _ id: Int, _ members: inout [String], _ depth: Int) {
        if chance(2) { members.append(#""name": "n\#(key())""#) }
        if chance(3) {
            let code = skips ? (chance(3) ? "taken" : "c\(id)") : "c\(key())"
            members.append(#""code": "\#(code)""#)
        }
        if chance(3) { members.append(#""grade": \#(skips && chance(3) ? "12" : "7")"#) }
        if chance(4), entity == "Manager" { members.append(#""level": 3"#) }
        if depth == 0, chance(3) { members.append(#""team": \#(chance(3) ? "null" : team())"#) }
        if chance(3) { members.append(#""tags": \#(list { #""w\#($0.key())""# })"#) }
        if chance(4) { members.append(#""friends": \#(list { "\($0.key())" })"#) }
        if chance(4) { members.append(#""desk": \#(key())"#) }
        if chance(4) { members.append(#""lines": \#(list { #"{"sku": "s\#($0.key())"}"# })"#) }
    }

    /// A team that exists, or a record of one.
    private mutating func team() -> String { #"{"id": \#(key() + 20), "title": "u"}"# }

    private mutating func person(_ depth: Int) -> String {
        chance(2) ? record("Person", depth: depth + 1) : "\(key())"
    }

    private mutating func list(_ element: (inout RandomOperations) -> String) -> String {
        if chance(6) { return "null" }
        return "[" + (0..<Int.random(in: 0...3, using: &generator)).map { _ in element(&self) }.joined(separator: ", ")
            + "]"
    }

    private mutating func key() -> Int { Int.random(in: 1...8, using: &generator) }

    private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }
}
