import BrokerModel
import BrokerSchema
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// ANY, ALL, NONE and @count over relationships of every form.
@Suite(.timeLimit(.minutes(5))) struct CollectionPredicateTests {
    @Test func `SQL finds what a plain evaluation finds`() throws {
        var random = RandomPeople(generator: SeededGenerator())
        for _ in 0..<4 {
            let test = try TestStore(RandomPeople.model)
            try test.apply(random.payload())
            let reader = try StoreReader(path: test.path, plan: test.plan)
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
        var description = FetchDescription(entity: entity)
        description.select = ["id"]
        var request = try test.plan.fetchRequest(description)
        request.predicate = predicate
        let json = String(decoding: try reader.fetch(request).bytes, as: UTF8.self)
        return json.matches(of: #/"id":(\d+)/#).compactMap { Int($0.1) }.sorted()
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
            try test.apply("{\"Employee\": [\(rows.joined(separator: ","))]}")
            // None of them has a note, so none is deleted.
            let selection = StagedSelection(
                entity: 0, try test.predicate("(\(text)) AND notes.@count > 0", of: "Employee"))
            let step = StagedStep(action: .deleteMatching(selection), rows: nil, pointer: "/operations/0")
            let job = StoreJob(
                id: "d", contentHash: nil, sequence: 2, policy: .fail, wantsKeys: false, work: .steps([step]), now: 0)
            guard case .completed = try test.apply(job) else { return (0, 0) }
            var limits = FetchLimits.long
            var steps = 1_000
            while true {
                limits.steps = steps
                do {
                    _ = try test.fetched("Employee", limits: limits) {
                        $0.predicate = text
                        $0.result = .count
                    }
                    return (test.store.connection.work.newest, steps)
                } catch FetchFailure.tooLong {
                    steps *= 2
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
        try test.apply("{\"Employee\": [\(rows.joined(separator: ","))]}")
        let text = (0..<80).map { "reports.@count == \($0 + 9) OR ANY reports.name == \"\($0)\"" }.joined(
            separator: " OR ")
        let selection = StagedSelection(entity: 0, try test.predicate(text, of: "Employee"))
        let step = StagedStep(action: .deleteMatching(selection), rows: nil, pointer: "/operations/0")
        test.store.connection.work.jobLimit = 100_000
        let outcome = try test.apply(
            StoreJob(
                id: "d", contentHash: nil, sequence: 2, policy: .fail, wantsKeys: false, work: .steps([step]), now: 0))
        guard case .failed(let fault) = outcome else {
            Issue.record("the job is done: \(outcome)")
            return
        }
        #expect(fault.code == .busy)
        #expect(test.store.connection.work.newest < 200_000)
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
