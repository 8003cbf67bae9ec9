import BrokerModel
import BrokerSchema
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct PredicateSQLTests {
    static let model = """
        {"entities": {
            "Employee": {"identity": "id", "indexes": [["name"], ["age"], ["hiredAt"]], "attributes": {
                "id": "integer64", "name": "string", "nick": "string", "age": "integer16", "salary": "decimal",
                "hiredAt": "date", "isActive": "boolean", "order": "integer16", "in": "string"},
                "relationships": {"department": {"entity": "Department"}, "boss": {"entity": "Employee"},
                    "seat": {"entity": "Seat"}, "note": {"entity": "Note"},
                    "friends": {"entity": "Employee", "toMany": true}}},
            "Department": {"identity": "code", "indexes": [["name"]],
                "attributes": {"code": "integer32", "name": "string"}, "relationships": {"site": {"entity": "Site"}}},
            "Site": {"identity": "uuid", "attributes": {"uuid": "uuid", "city": "string"}},
            "Seat": {"identity": ["floor", "number"],
                "attributes": {"floor": "integer16", "number": "string", "colour": "string"}},
            "Note": {"attributes": {"text": "string"}}}}
        """

    static let site = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

    private func company() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(
            """
            {"Employee": [
                {"id": 1, "name": "Ada", "age": 36, "salary": 1.50, "isActive": true, "hiredAt": "2011-12-22T02:24:51Z",
                 "department": {"code": 1, "name": "R&D", "site": {"uuid": "\(Self.site)", "city": "Köln"}},
                 "seat": {"floor": 1, "number": "a", "colour": "red"}, "note": {"text": "first"}},
                {"id": 2, "name": "Bob", "age": 41, "salary": 10, "isActive": false, "boss": 1,
                 "department": {"code": 2, "name": "Sales"}, "seat": {"floor": 1, "number": "b"}},
                {"id": 3, "name": "Eve", "salary": 9, "boss": 2, "department": {"code": 3}}, {"id": 4}]}
            """)
        return test
    }

    @Test func `A comparison with nil is false, and its negation is true`() throws {
        let test = try company()
        #expect(try test.matching("name != \"Ada\"") == [2, 3, 4])
        #expect(try test.matching("NOT (name == \"Ada\")") == [2, 3, 4])
        #expect(try test.matching("NOT name == \"Ada\"") == [2, 3, 4])
        #expect(try test.matching("age < 40") == [1])
        #expect(try test.matching("!(age < 40)") == [2, 3, 4])
        #expect(try test.matching("nil == age") == [3, 4])
        #expect(try test.matching("age < nil OR age >= nil") == [])
        #expect(try test.matching("age IN {36, nil}") == [1, 3, 4])
        #expect(try test.matching("NOT (age IN {36, 37})") == [2, 3, 4])
        #expect(try test.matching("name == nick") == [4], "nil equals nil")
    }

    @Test func `AND binds stronger than OR, and NOT stronger than both`() throws {
        let test = try company()
        #expect(try test.matching("id == 1 OR id == 2 AND age == 0") == [1])
        #expect(try test.matching("(id == 1 || id == 2) && age == 41") == [2])
        #expect(try test.matching("NOT id == 1 AND id < 3") == [2])
        #expect(try test.matching("not not id == 1") == [1])
        #expect(try test.matching("((((id == 1))))") == [1])
        #expect(try test.matching("TRUEPREDICATE") == [1, 2, 3, 4])
        #expect(try test.matching("FALSEPREDICATE or falsepredicate") == [])
    }

    @Test func `Either side may be the constant`() throws {
        let test = try company()
        #expect(try test.matching("40 < age") == [2])
        #expect(try test.matching("40 >= age") == [1])
        #expect(try test.matching("\"Ada\" == name") == [1])
    }

    @Test func `A key path goes through to-one relationships`() throws {
        let test = try company()
        #expect(try test.matching("department.name == \"R&D\"") == [1])
        #expect(try test.matching("department.name != \"R&D\"") == [2, 3, 4])
        #expect(try test.matching("department.name == nil") == [3, 4])
        #expect(try test.matching("department.name != nil") == [1, 2])
        #expect(try test.matching("department.name IN {nil, \"Sales\"}") == [2, 3, 4])
        #expect(try test.matching("boss.boss.department.site.city BEGINSWITH[cd] \"KOL\"") == [3])
        #expect(try test.matching("boss.age > 36") == [3])
        #expect(try test.matching("seat.colour == \"red\"") == [1])
        #expect(try test.matching("note.text LIKE \"f*\"") == [1])
        #expect(try test.matching("boss.age < age") == [2])
        #expect(try test.matching("boss.boss.salary <= salary") == [3])
        #expect(try test.matching("boss.boss.seat.colour != \"red\"") == [1, 2, 4])
    }

    @Test func `A to-one relationship is compared with a key or nil`() throws {
        let test = try company()
        #expect(try test.matching("department == 3") == [3])
        #expect(try test.matching("department != 3") == [1, 2, 4])
        #expect(try test.matching("department == nil") == [4])
        #expect(try test.matching("department IN %@", "[[1, \"2\"]]") == [1, 2])
        #expect(try test.matching("department.site == %@", "[\"\(Self.site)\"]") == [1])
        #expect(try test.matching("boss.department == 2") == [3])
        #expect(try test.matching("boss.department == nil") == [1, 4])
        #expect(try test.matching("seat == %@", #"[{"number": "b", "floor": 1}]"#) == [2])
        #expect(try test.matching("seat != %@", #"[{"number": "b", "floor": 1}]"#) == [1, 3, 4])
        #expect(try test.matching("seat IN %@", #"[[{"number": "b", "floor": 1}, null]]"#) == [2, 3, 4])
        #expect(try test.matching("note == 1") == [1])
    }

    @Test func `Values are compared by the attribute's type`() throws {
        let test = try company()
        #expect(try test.matching("salary == 1.5") == [1])
        #expect(try test.matching("salary < 10.000000000000000000001 AND salary > 9.99999999999999999999") == [2])
        #expect(try test.matching("salary IN {1.500, 9.0}") == [1, 3])
        #expect(try test.matching("hiredAt == \"2011-12-22 03:24:51+01:00\"") == [1])
        #expect(try test.matching("hiredAt < %@", "[1324520692]") == [1])
        for truth in ["YES", "true", "1", "\"yes\""] { #expect(try test.matching("isActive == \(truth)") == [1]) }
        #expect(try test.matching("isActive = NO") == [2])
        #expect(try test.matching("age > 40.5 AND age < 41.5") == [2])
        #expect(try test.matching("age < 1e400 AND age > -99999999999999999999") == [1, 2])
        #expect(try test.matching("age == \"36\"") == [1])
    }

    @Test func `%K takes a name, and a keyword may be one`() throws {
        let test = try company()
        #expect(try test.matching("%K == %@", #"["department.name", "R&D"]"#) == [1])
        #expect(try test.matching("%K.%K == %@", #"["department", "name", "Sales"]"#) == [2])
        #expect(try test.matching("#in == nil AND order == nil AND %K == nil", #"["in"]"#) == [1, 2, 3, 4])
    }

    @Test func `Nothing that a predicate says becomes SQL`() throws {
        let test = try company()
        let hostile = "'); DROP TABLE Employee; --"
        #expect(try test.matching("name == %@", "[\"\(hostile)\"]") == [])
        #expect(try test.matching("name == \"\(hostile)\" OR name BEGINSWITH \"'\" OR name IN {\"'\", '\"'}") == [])
        #expect(try !test.sql("name == \"secret\"", of: "Employee").condition.contains("secret"))
        #expect(try test.matching("TRUEPREDICATE").count == 4)
    }

    @Test func `Comparisons of a column use its index`() throws {
        let test = try company()
        for (text, index) in [
            ("name == \"Ada\"", "Employee.name"), ("name IN {\"Ada\", \"Bob\"}", "Employee.name"),
            ("name BEGINSWITH \"A\"", "Employee.name"), ("age > 3", "Employee.age"),
            ("age BETWEEN {3, 4}", "Employee.age"), ("hiredAt < \"2012-01-01\"", "Employee.hiredAt"),
            ("name == nil", "Employee.name"), ("department == 3", "Employee.department"),
            ("department.name == \"R&D\"", "Employee.department"), ("department.name == \"R&D\"", "Department.name"),
            ("seat.colour == \"red\"", "Employee.seat_floor"), ("name == \"Ada\" OR age == 3", "MULTI-INDEX OR"),
            ("department.site.city == \"Köln\"", "Employee.department"),
        ] {
            let plan = try test.queryPlan(text)
            #expect(plan.contains(index) && !plan.contains("SCAN object"), "\(text): \(plan)")
        }
        #expect(try test.queryPlan("id IN %@", "[[1, 2, 3]]").contains("INTEGER PRIMARY KEY"))
    }
}

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

    init(generator: SeededGenerator) { self.generator = generator }

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

/// ANY, ALL, NONE and @count over relationships of every form.
@Suite(.timeLimit(.minutes(5))) struct CollectionPredicateTests {
    @Test func `SQL finds what a plain evaluation finds`() throws {
        var random = RandomPeople(generator: SeededGenerator())
        for _ in 0..<4 {
            let test = try TestStore(RandomPeople.model)
            try test.apply(random.payload())
            let reader = try test.reader()
            var found = 0
            for _ in 0..<150 {
                let entity = random.entity()
                let (text, arguments, isMet) = random.condition(of: entity, depth: 2)
                let expected = random.objects(of: entity).filter(isMet).map(\.id).sorted()
                let predicate = try test.predicate(text, "[\(arguments.joined(separator: ","))]", of: entity)
                #expect(
                    try Self.fetched(predicate, entity, test, reader) == expected, "\(entity): \(text) \(arguments)")
                #expect(try Self.charged(predicate, entity, test) == expected, "\(entity), charged: \(text)")
                found += expected.count
            }
            #expect(found > 100, "the predicates say something")
        }
    }

    private static func fetched(
        _ predicate: Predicate, _ entity: String, _ test: TestStore, _ reader: StoreReader
    ) throws -> [Int] {
        var request = try test.request(entity) { $0.select = ["id"] }
        request.predicate = predicate
        return try reader.fetch(request).text.matches(of: #/"id":(\d+)/#).compactMap { Int($0.1) }.sorted()
    }

    /// As a job would find them.
    private static func charged(_ predicate: Predicate, _ entity: String, _ test: TestStore) throws -> [Int] {
        let index = test.plan.model.index(ofEntity: entity)!
        let sql = PredicateSQL(
            predicate, entity: index, plan: test.plan, alias: "o",
            charging: test.store.merger.historyTables.longColumns)
        let naming = ColumnNaming(model: test.plan.model, layout: test.plan.layout)
        let own = naming.entityCondition(index, alias: "o").map { " AND \($0)" } ?? ""
        let connection = try Connection(store: test.path, .read)
        let statement = try connection.prepare(
            "SELECT id FROM \(quoted(test.plan.model.table(of: index))) AS o WHERE (\(sql.condition))\(own) ORDER BY id"
        )
        _ = sql.bind(to: statement, from: 1)
        var found: [Int] = []
        while try statement.step() { found.append(Int(statement.integer(0))) }
        return found
    }

    private static let model = """
        {"entities": {"Employee": {"identity": "id", "indexes": [["name"]],
            "attributes": {"id": "integer64", "name": "string", "age": "integer16"},
            "relationships": {"boss": {"entity": "Employee", "inverse": "reports"},
                "reports": {"entity": "Employee", "toMany": true, "inverse": "boss"},
                "friends": {"entity": "Employee", "toMany": true}, "notes": {"entity": "Note", "toMany": true}}},
          "Note": {"attributes": {"text": "string"}}}}
        """

    @Test func `ALL is true of no objects, and nil in an object compares as elsewhere`() throws {
        let test = try TestStore(Self.model)
        try test.apply(
            """
            {"Employee": [{"id": 1}, {"id": 2, "age": 40, "boss": 1}, {"id": 3, "boss": 1},
                          {"id": 4, "age": 50, "boss": 2, "notes": [{"text": "a"}]}]}
            """)
        #expect(try test.matching("ALL reports.age > 30") == [2, 3, 4], "3 has no age, so not all of 1 are older")
        #expect(try test.matching("ANY reports.age > 30") == [1, 2])
        #expect(try test.matching("NONE reports.age > 30") == [3, 4])
        #expect(try test.matching("ANY reports.age != 40") == [1, 2])
        #expect(try test.matching("ANY reports.age == nil") == [1])
        #expect(try test.matching("ALL boss.reports.age == nil") == [1])
        #expect(try test.matching("reports.@count == 0") == [3, 4])
        #expect(try test.matching("boss.reports.@count == 0") == [1], "none where the link is missing")
        #expect(try test.matching("boss.reports.@count != 2") == [1, 4])
        #expect(try test.matching("reports.@count == nil OR reports.@count < 0.5") == [3, 4])
        #expect(try test.matching("reports.@count < id") == [2, 3, 4])
        #expect(try test.matching("reports.@count == notes.@count") == [3])
        #expect(try test.matching("ANY reports == 3 OR ANY reports.boss == 2") == [1, 2])
        #expect(try test.matching("ANY notes == 1") == [4], "objects without identity have their row key")
        #expect(try test.matching("ANY notes.text == \"a\" AND notes.@count IN {1, 2}") == [4])
    }

    @Test func `an index on the compared attribute and the keys of the objects are used`() throws {
        let test = try TestStore(Self.model)
        for (text, indexes) in [
            ("ANY friends.name == \"x\"", ["SEARCH object", "Employee.name", "Employee_friends"]),
            ("ANY reports.name BEGINSWITH \"x\"", ["SEARCH object", "Employee.name"]),
            ("reports.@count > 3", ["Employee.boss"]),
            ("friends.@count > 3", ["COVERING INDEX sqlite_autoindex_Employee_friends"]),
            ("ANY boss.friends.name == \"x\"", ["SEARCH object", "Employee.name", "Employee.boss"]),
        ] {
            let plan = try test.queryPlan(text)
            for index in indexes { #expect(plan.contains(index), "\(text): \(plan)") }
        }
    }

    /// Each object has the same boss, who has all of them as reports: a search for each object would be quadratic.
    @Test(arguments: [
        "ANY boss.reports.age == 1", "ALL boss.reports.age < 1", "boss.reports.@count == 1", "reports.@count == 1",
        "boss.boss.reports.@count == 1", "ANY reports.boss.name == \"x\"", "ANY boss.friends.age == 1",
    ])
    func `the work grows with the objects, whatever they share, and is counted`(text: String) throws {
        func work(_ count: Int) throws -> (job: Int, fetch: Int) {
            let test = try TestStore(Self.model)
            let rows = (0..<count).map { #"{"id": \#($0), "boss": 0, "age": 0, "friends": [\#($0), 0]}"# }
            try test.apply(payload("Employee", rows))
            // None of them has a note, so none is deleted.
            let job = try test.deletion(["(\(text)) AND notes.@count > 0"], of: "Employee")
            try #require(try test.apply(job).outcome != nil)
            var limits = FetchLimits.long
            limits.steps = 1_000
            while true {
                do {
                    _ = try test.fetched("Employee", limits: limits) { ($0.predicate, $0.result) = (text, .count) }
                    return (test.work, limits.steps)
                } catch FetchFailure.tooLong {
                    limits.steps *= 2
                }
            }
        }
        let (small, large) = (try work(100), try work(800))
        #expect(large.job < 12 * small.job, "\(small.job) units for 100, \(large.job) for 800")
        #expect(large.fetch <= 16 * small.fetch, "\(small.fetch) steps for 100, \(large.fetch) for 800")
        #expect(large.job > 800 * 4)
    }

    @Test func `a search in many objects ends when the budget is spent`() throws {
        let test = try TestStore(Self.model)
        let rows = (0..<500).map { #"{"id": \#($0), "boss": \#($0 / 2), "name": "n"}"# }
        try test.apply(payload("Employee", rows))
        let text = (0..<80).map { "reports.@count == \($0 + 9) OR ANY reports.name == \"\($0)\"" }.joined(
            separator: " OR ")
        test.store.connection.work.jobLimit = 100_000
        #expect(try test.apply(test.deletion([text], of: "Employee")).failure == "busy /operations/0")
        #expect(test.work < 200_000)
    }

    @Test func `SQLite can run the deepest and widest predicates that the check allows`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Employee": [{"id": 1, "name": "a"}, {"id": 2, "boss": 1}]}"#)
        let path = String(repeating: "boss.", count: 4)
        for leaf in [
            "ANY \(path)reports.\(path)age BETWEEN {1, 2}", "\(path)\(path)reports.@count IN {1, 2}",
            "ALL \(path)friends.\(path)name LIKE \"*\"",
        ] {
            for (wide, narrow) in [(400, 1), (62, 62), (33, 33)] {
                var both = leaf
                var deepest = both
                for level in 0..<9 {
                    let word = level % 2 == 0 ? " AND " : " OR "
                    let more = (0..<(level < 1 ? wide : narrow)).map { "id == \($0 + 7)" }.joined(separator: word)
                    both = "\(more)\(word)(\(both))"
                    guard (try? test.predicate(both, of: "Employee")) != nil else { break }
                    deepest = both
                }
                for predicate in [deepest, "NOT (\(deepest))"] {
                    let sql = try test.sql(predicate, of: "Employee")
                    let table = "SELECT id FROM Employee AS object WHERE"
                    let statement =
                        "DELETE FROM Employee WHERE id IN (\(table) id IN (\(table) (NOT (\(sql.condition)))))"
                    _ = try Connection(store: test.path).prepare(statement)
                    let counted = PredicateSQL(
                        try test.predicate(predicate, of: "Employee"), entity: 0, plan: test.plan, alias: "o",
                        charging: test.store.merger.historyTables.longColumns)
                    _ = try Connection(store: test.path).prepare(
                        "DELETE FROM Employee AS o WHERE (\(counted.condition)) AND 1")
                }
            }
        }
        let many = (0..<100).map { "ANY \($0 % 2 == 0 ? "" : "boss.")reports.boss.name == \"\($0)\"" }
        #expect(try test.matching(many.joined(separator: " OR ")) == [])
        #expect(throws: Fault.self) {
            try test.matching((0..<168).map { "ANY boss.reports.age == \($0)" }.joined(separator: " OR "))
        }
    }
}

/// The possible cost of a hostile predicate.
@Suite(.timeLimit(.minutes(5))) struct PredicateBoundsTests {
    private static let model = """
        {"entities": {"Employee": {"identity": "id",
            "attributes": {"id": "integer64", "name": "string", "salary": "decimal"},
            "relationships": {"boss": {"entity": "Employee"}}}}}
        """

    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Employee": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "boss": 1}, {"id": 3}]}"#)
        return test
    }

    private func fault(_ test: TestStore, _ text: String, _ arguments: String? = nil) -> String {
        do {
            _ = try test.matching(text, arguments)
            return "no fault"
        } catch let fault as Fault {
            return "\(fault.code.rawValue): \(fault.message)"
        } catch {
            return "\(error)"
        }
    }

    @Test func `Everything that the check lets pass, SQLite can run`() throws {
        let test = try store()
        var nested = "id == 1"
        for level in 0..<8 {
            nested = level % 2 == 0 ? "id == 1 AND NOT (\(nested))" : "boss.name == \"x\" OR NOT (\(nested))"
        }
        _ = try test.matching(nested)
        let path = String(repeating: "boss.", count: 8)
        _ = try test.matching("\(path)name == \"x\" OR NOT (\(path)salary IN {1, 2}) OR \(path)name LIKE \"*\"")
        let wide = (0..<62).map { "\(path)name == \"\($0)\"" } + (0..<438).map { "name == \"\($0)\"" }
        #expect(try test.matching(wide.joined(separator: " OR ")) == [])
        #expect(
            fault(test, (0..<63).map { "\(path)name == \"\($0)\"" }.joined(separator: " OR "))
                .contains("more than 500 links"))
        #expect(try test.matching((0..<500).map { "id != \($0 + 2)" }.joined(separator: " AND ")) == [1])
        #expect(
            fault(test, (0..<251).map { "id BETWEEN {1, \($0)}" }.joined(separator: " AND ")).contains("more than 500"))
        // As deep as can be, and wide at one level or at all.
        for (wide, narrow) in [(492, 1), (62, 62), (33, 33)] {
            var both = "\(path)salary IN {1, 2}"
            for level in 0..<8 {
                let word = level % 2 == 0 ? " AND " : " OR "
                let more = (0..<(level < 1 ? wide : narrow)).map { "id == \($0 + 7)" }.joined(separator: word)
                both = "\(more)\(word)(\(both))"
            }
            _ = try test.matching(both)
            let sql = try test.sql("NOT (\(both))", of: "Employee")
            // There is room for a statement around it.
            let table = "SELECT id FROM Employee AS object WHERE"
            let statement = "DELETE FROM Employee WHERE id IN (\(table) id IN (\(table) (NOT (\(sql.condition)))))"
            _ = try Connection(store: test.path).prepare(statement)
            let counted = PredicateSQL(
                try test.predicate("NOT (\(both))", of: "Employee"), entity: 0, plan: test.plan, alias: "o",
                charging: test.store.merger.historyTables.longColumns)
            _ = try Connection(store: test.path).prepare("DELETE FROM Employee AS o WHERE (\(counted.condition)) AND 1")
        }
    }

    @Test func `Deep nesting is reported, or removed where it has no meaning`() throws {
        let test = try store()
        func nested(_ depth: Int, _ open: String, _ close: String) -> String {
            String(repeating: open, count: depth) + "id == 1" + String(repeating: close, count: depth)
        }
        #expect(try test.matching(nested(200, "(", ")")) == [1])
        #expect(try test.matching(nested(10_000, "NOT ", "")) == [1])
        #expect(try test.matching(nested(10_001, "!", "")) == [2, 3])
        #expect(fault(test, nested(10_000, "(", ")")).contains("nested more than 200 deep"))
        #expect(fault(test, nested(10_000, "NOT (", ")")).contains("nested more than 200 deep"))
        let alternating = (0..<50).reduce("id == 1") { inner, level in
            level % 2 == 0 ? "(\(inner)) AND id == 1" : "(\(inner)) OR id == 1"
        }
        #expect(fault(test, alternating).contains("AND and OR nested more than 8 deep"))
    }

    @Test func `A predicate of a megabyte is answered or refused`() throws {
        let test = try store()
        let list = (0..<130_000).map { "\($0 + 3)" }.joined(separator: ",")
        #expect(try test.matching("id IN {\(list)}") == [3])
        #expect(try test.matching("salary IN {\(list)} OR id IN {1}") == [1])
        let name = String(repeating: "x", count: 1 << 20)
        #expect(fault(test, name + "y").contains("allowed"))
        #expect(fault(test, "\(name.dropLast(100)) == 1").contains("has no attribute or relationship \"xxx"))
        #expect(try test.matching("name CONTAINS \"\(name.dropLast(100))\"") == [])
        let many = (0..<60_000).map { "id == \($0)" }.joined(separator: " OR ")
        #expect(fault(test, many).contains("at most 500 comparisons"))
    }

    @Test func `A hundred thousand arguments are answered or refused`() throws {
        let test = try store()
        let values = (0..<100_000).map { "\"\($0)\"" }.joined(separator: ",")
        let places = (0..<100_000).map { _ in "%@" }.joined(separator: ",")
        #expect(try test.matching("id IN {\(places)}", "[\(values)]") == [1, 2, 3])
        #expect(try test.matching("NOT (name IN %@)", "[[\(values)]]") == [1, 2, 3])
        #expect(fault(test, "id == %@", "[\(values)]").contains("and 100000 came"))
        let more = (0..<260_000).map { "\($0)" }.joined(separator: ",")
        #expect(fault(test, "id IN %@", "[[\(more)]]").contains("at most 250000 values"))
    }

    @Test func `A text that is too long for a pattern ends the statement with the reason`() throws {
        let test = try store()
        let text = String(repeating: "a", count: 300_000)
        try test.apply("{\"Employee\": [{\"id\": 4, \"name\": \"\(text)\"}]}")
        for pattern in ["MATCHES \"(a|b)*a(a|b){900}c\"", "MATCHES[c] \"(a|b)*a(a|b){900}c\""] {
            let sql = try test.sql("NOT (name \(pattern))", of: "Employee")
            #expect(throws: StoreError.self) { try test.matching(sql, of: "Employee") }
            #expect(sql.fault?.code == .invalidPredicate)
            #expect(sql.fault?.message.contains("too long for the pattern") == true)
        }
        #expect(try test.matching("name MATCHES \"(a+)+b\"") == [])
        let stars = String(repeating: "*a", count: 500)
        #expect(try test.matching("name LIKE \"\(stars)b\"") == [])
    }

    @Test func `Folding and searching take linear time`() throws {
        let test = try store()
        let marks = String(repeating: "\u{301}", count: 1_000_000)
        try test.apply("{\"Employee\": [{\"id\": 4, \"name\": \"e\(marks)\"}]}")
        #expect(try test.matching("name ==[d] \"e\"") == [4])
        let some = String(repeating: "\u{301}", count: 100_000)
        #expect(try test.matching("name CONTAINS \"\(some)e\"") == [])
    }
}
