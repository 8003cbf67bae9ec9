import Testing
import TestSupport

@testable import BrokerStore

/// Random jobs whose records are skipped if they are not newer, against applying them one after the other.
@Suite(.timeLimit(.minutes(5))) struct ModifiedPropertyTests {
    private static let model = """
        {"entities": {
          "A": {"identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64", "v": "integer64"},
            "relationships": {"as": {"entity": "A", "toMany": true}, "b": {"entity": "B"}}},
          "B": {"identity": "id", "attributes": {"id": "integer64", "v": "integer64"},
            "relationships": {"as": {"entity": "A", "toMany": true}}}
        }}
        """

    @Test func `the result is as if records had been applied one after the other`() throws {
        let store = try TestStore(Self.model)
        var random = RandomRecords(generator: SeededGenerator(for: "records that are not newer"))
        for job in 0..<300 {
            let payload = random.job()
            try store.apply(payload)
            #expect(
                try store.rows("SELECT id, at, v, b FROM A ORDER BY 1") == random.rows("A"), "job \(job): \(payload)")
            #expect(try store.rows("SELECT id, v FROM B ORDER BY 1") == random.rows("B"), "job \(job): \(payload)")
            #expect(
                try store.rows("SELECT 'A', * FROM A_as UNION ALL SELECT 'B', * FROM B_as ORDER BY 1, 2, 3")
                    == random.links.sorted(), "job \(job): \(payload)")
        }
    }
}

/// Makes jobs and knows what they do.
private struct RandomRecords {
    var generator: SeededGenerator
    /// By entity and id, the further columns.
    private var objects: [String: [Int: [Int?]]] = ["A": [:], "B": [:]]
    private(set) var links: Set<String> = []

    init(generator: SeededGenerator) { self.generator = generator }

    func rows(_ entity: String) -> [String] {
        objects[entity]!.sorted { $0.key < $1.key }.map { id, columns in
            ([String(id)] + columns.map { $0.map(String.init) ?? "NULL" }).joined(separator: "|")
        }
    }

    mutating func job() -> String {
        let operations = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
            let entity = Bool.random(using: &generator) ? "A" : "B"
            let records = (0..<Int.random(in: 1...4, using: &generator)).map { _ in record(entity, depth: 0, true).text
            }
            return "\"\(entity)\": [\(records.joined(separator: ", "))]"
        }
        return "{\(operations.joined(separator: ", "))}"
    }

    /// - Parameter isSeen: no enclosing record was skipped.
    private mutating func record(
        _ entity: String, _ given: Int? = nil, depth: Int, _ isSeen: Bool
    ) -> (text: String, id: Int) {
        let id = given ?? Int.random(in: 1...4, using: &generator)
        // An assertion of this record, and so before those of nested records.
        let destination =
            entity == "A" && depth < 3 && Int.random(in: 0..<3, using: &generator) == 0
            ? Int.random(in: 1...4, using: &generator) : nil
        var members = ["\"id\": \(id)"]
        var isTaken = isSeen
        var columns = objects[entity]![id] ?? (entity == "A" ? [nil, nil, nil] : [nil])
        if entity == "A" {
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: break
            case 1:
                members.append("\"at\": null")
                columns[0] = nil
            default:
                let at = Int.random(in: 1...12, using: &generator)
                members.append("\"at\": \(at)")
                if let known = columns[0], at <= known { isTaken = false }
                columns[0] = at
            }
        }
        if Bool.random(using: &generator) {
            let value = Int.random(in: 1...99, using: &generator)
            members.append("\"v\": \(value)")
            columns[entity == "A" ? 1 : 0] = value
        }
        if let destination { columns[2] = destination }
        if isTaken { objects[entity]![id] = columns }
        guard depth < 3 else { return ("{\(members.joined(separator: ", "))}", id) }
        if Bool.random(using: &generator) {
            var elements: [String] = []
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                let element = record("A", depth: depth + 1, isTaken)
                elements.append(element.text)
                if isTaken { links.insert("\(entity)|\(id)|\(element.id)") }
            }
            members.append("\"as\": [\(elements.joined(separator: ", "))]")
        }
        if let destination {
            members.append("\"b\": \(record("B", destination, depth: depth + 1, isTaken).text)")
        }
        return ("{\(members.joined(separator: ", "))}", id)
    }
}
