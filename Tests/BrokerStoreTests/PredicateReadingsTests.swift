import BrokerSchema
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// One tree, two readings: what SQL finds is what memory says.
@Suite(.timeLimit(.minutes(5))) struct PredicateReadingsTests {
    static let model = """
        {"entities": {"Thing": {"identity": "id", "indexes": [["i"], ["s"], ["n"]], "attributes": {
            "id": "integer64", "i": "integer16", "l": "integer64", "n": "decimal", "m": "decimal", "d": "double",
            "s": "string", "t": "string", "u": "uri", "b": "boolean", "at": "date", "then": "date",
            "unix": {"type": "date", "storage": "unix"}, "core": {"type": "date", "storage": "coreData"},
            "day": "calendarDate", "until": "calendarDate", "bytes": "binary", "uuid": "uuid", "any": "transformable"}}}}
        """

    @Test func `SQL and memory agree on random rows and predicates`() throws {
        var random = RandomPredicate(generator: SeededGenerator())
        for _ in 0..<20 {
            let test = try TestStore(Self.model)
            let rows = (0..<40).map { random.record(id: $0) }.joined(separator: ",")
            try test.apply("{\"Thing\": [\(rows)]}")
            let cells = try Connection(store: test.path, .read)
            for _ in 0..<60 {
                let (text, arguments) = random.predicate(depth: 3)
                let predicate = try test.predicate(text, arguments, of: "Thing")
                let sql = PredicateSQL(predicate, entity: 0, plan: test.plan, alias: "object")
                let record = try #require(RecordPredicate(predicate))
                let found = try test.matching(sql, of: "Thing")
                let expected = try Self.matching(record, test, cells)
                #expect(found == expected, "\(text) with \(arguments): \(sql.condition)")
                // Two values: what does not match, matches the opposite.
                let opposite = try test.matching("NOT (\(text))", arguments, of: "Thing")
                #expect(Set(opposite).union(found).count == 40 && opposite.count + found.count == 40, "\(text)")
            }
        }
    }

    private static func matching(
        _ predicate: RecordPredicate, _ test: TestStore, _ connection: Connection
    ) throws -> [Int64] {
        let columns = test.plan.model.entities[0].attributes.map { quoted($0.name) }.joined(separator: ", ")
        let statement = try connection.prepare("SELECT \(columns) FROM Thing ORDER BY id")
        var budget = WorkBudget.unlimited
        var matching: [Int64] = []
        while try statement.step() {
            if try predicate.matches(budget: &budget, { statement.cell($0) }) { matching.append(statement.integer(0)) }
        }
        return matching
    }
}

/// Records and predicates with constants from the same small pools, so that they often meet.
struct RandomPredicate {
    var generator: SeededGenerator
    private var arguments: [String] = []

    init(generator: SeededGenerator) {
        self.generator = generator
    }

    private static let texts = [
        "", "a", "A", "ab", "Ab", "äb", "ÄB", "straße", "STRASSE", "e\\u0301", "é", "a*b", "a?b", "a\\\\b", "ba", "aab",
        "a\\u0000b", "\\ud83d\\ude00", "z\\nz", "100%", "a_b",
    ]
    private static let values: [(name: String, constants: [String])] = [
        ("i", ["0", "1", "-1", "7", "32767", "-32768"]),
        ("l", ["0", "1", "9007199254740993", "9223372036854775807", "-9223372036854775808"]),
        ("n", ["0", "1.5", "1.50", "-2", "10", "9", "123456789012345678901234567890.1", "0.10"]),
        ("m", ["1.5", "9", "-2.0", "123456789012345678901234567890.10"]),
        ("d", ["0", "0.1", "1", "1e300", "-7.25", "9007199254740992"]),
        ("b", ["true", "false"]),
        ("at", ["\"2011-12-22T02:24:51Z\"", "\"2011-12-22\"", "\"2020-02-29T12:00:00.123Z\"", "0"]),
        ("then", ["\"2011-12-22\"", "\"1969-12-31T23:59:59.999Z\""]),
        ("day", ["\"2011-12-22\"", "\"0001-01-01\"", "\"9999-12-31\""]),
        ("until", ["\"2011-12-22\"", "\"1969-12-31\""]),
        ("unix", ["\"2011-12-22\"", "0", "-5"]),
        ("core", ["\"2011-12-22T00:00:00.5Z\"", "0"]),
        ("bytes", ["\"\"", "\"AAE=\"", "\"/w==\"", "\"AA==\""]),
        ("uuid", ["\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"", "\"F81D4FAE-7DEC-11D0-A765-00A0C91E6BF7\""]),
        ("u", ["\"http://a\"", "\"http://A/b\""]),
    ]
    private static let numbers = [
        "0", "1.5", "3.5", "-0.5", "1e30", "-1e30", "40000", "9007199254740993", "9223372036854775807",
    ]
    private static let comparable = [
        ("i", "l"), ("l", "d"), ("i", "b"), ("n", "m"), ("s", "t"), ("u", "s"), ("at", "then"), ("day", "until"),
    ]

    private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }
    private mutating func text() -> String { "\"\(pick(Self.texts))\"" }

    mutating func record(id: Int) -> String {
        var members = ["\"id\": \(id)"]
        for (name, constants) in Self.values where chance(75) { members.append("\"\(name)\": \(pick(constants))") }
        for name in ["s", "t"] where chance(75) { members.append("\"\(name)\": \(text())") }
        if chance(50) { members.append("\"any\": {\"a\": \(id % 3)}") }
        return "{\(members.joined(separator: ", "))}"
    }

    mutating func predicate(depth: Int) -> (String, String) {
        arguments = []
        let text = condition(depth)
        return (text, "[\(arguments.joined(separator: ", "))]")
    }

    private mutating func condition(_ depth: Int) -> String {
        guard depth > 0, chance(60) else { return comparison() }
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: return "NOT (\(condition(depth - 1)))"
        case 1: return "(\(condition(depth - 1)) OR \(condition(depth - 1)) or \(condition(depth - 1)))"
        case 2: return "!(\(condition(depth - 1)) && \(condition(depth - 1)))"
        default: return "(\(condition(depth - 1)) AND \(condition(depth - 1)))"
        }
    }

    /// As an argument, or, if it can be written in the text, as a constant.
    private mutating func constant(_ json: String) -> String {
        if chance(40), !json.contains("\\u0000") { return json }
        arguments.append(json)
        return "%@"
    }

    private mutating func comparison() -> String {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0: return pick(["TRUEPREDICATE", "FALSEPREDICATE"])
        case 1:
            let (left, right) = pick(Self.comparable)
            return "\(left) \(pick(["==", "!=", "<", "<=", ">", ">="])) \(right)"
        case 2, 3, 4: return textComparison()
        case 5:
            let number = constant(pick(Self.numbers))
            let name = pick(["i", "l", "n", "d"])
            let sign = pick(["=", "<>", "<", "=<", ">", "=>"])
            return chance(50) ? "\(name) \(sign) \(number)" : "\(number) \(sign) \(name)"
        default: return typedComparison()
        }
    }

    private mutating func typedComparison() -> String {
        let (name, constants) = pick(Self.values)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: return "\(name) \(pick(["==", "!="])) \(pick(["nil", "NULL"]))"
        case 1:
            var list = (0..<Int.random(in: 0..<4, using: &generator)).map { _ in pick(constants) }
            if chance(20) { list.append("null") }
            guard chance(50) else { return "\(name) IN {\(list.joined(separator: ", "))}" }
            arguments.append("[\(list.joined(separator: ", "))]")
            return "\(name) IN %@"
        case 2:
            let least = constant(pick(constants))
            return "\(name) BETWEEN {\(least), \(constant(pick(constants)))}"
        default: return "\(name) \(pick(["==", "!=", "<", "<=", ">", ">="])) \(constant(pick(constants)))"
        }
    }

    private mutating func textComparison() -> String {
        let name = pick(["s", "t", "u"])
        let options = pick(["", "", "[c]", "[d]", "[cd]"])
        switch Int.random(in: 0..<5, using: &generator) {
        case 0:
            let pattern = pick(["\"*\"", "\"a*\"", "\"?b\"", "\"*b*\"", "\"a\\\\*b\"", "\"*a*b\"", "\"??\"", "\"\""])
            return "\(name) LIKE\(options) \(pattern)"
        case 1:
            let pattern = pick(["\".*\"", "\"a.b\"", "\"[a-b]+\"", "\"a|ab|\"", "\"http:.*\""])
            return "\(name) MATCHES\(options) \(pattern)"
        case 2: return "\(name) \(pick(["==", "!=", "<", ">="]))\(options) \(constant(text()))"
        case 3:
            arguments.append("[\(text()), \(text()), \(text())]")
            return "\(name) IN\(options) %@"
        default: return "\(name) \(pick(["BEGINSWITH", "ENDSWITH", "contains"]))\(options) \(constant(text()))"
        }
    }
}
