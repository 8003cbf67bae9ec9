import BrokerJSON
import BrokerModel
import BrokerSQLite
import BrokerStaging
import CSQLite
import Glibc
import TestSupport
import Testing

@testable import BrokerStore

/// The work of a job in the writer is bounded. Work is counted, not timed.
@Suite(.timeLimit(.minutes(5))) struct JobWorkTests {
    private static let model = """
        {"entities": {"Employee": {"identity": "id",
            "attributes": {"id": "integer64", "name": "string", "salary": "decimal"},
            "relationships": {"boss": {"entity": "Employee"}}}}}
        """

    private func store(_ count: Int, name: String = "n") throws -> TestStore {
        let test = try TestStore(Self.model)
        let records = (0..<count).map { "{\"id\": \($0), \"name\": \"\(name)\", \"boss\": \(($0 + 1) % count)}" }
        try test.apply(payload("Employee", records))
        return test
    }

    /// Applies one job of a `delete` with `where` for each predicate; `code path` of its fault.
    @discardableResult
    private func delete(_ predicates: [String], _ test: TestStore) throws -> String {
        try test.apply(test.deletion(predicates, of: "Employee")).failure
    }

    @Test func `many searches through one long text exceed the budget at the same operation each time`() throws {
        var ends: [String] = []
        var work: [Int] = []
        for other in [0, 3] {
            let test = try store(1, name: String(repeating: "n", count: 100_000))
            // Earlier work of a store must not change a job's charge.
            for _ in 0..<other { try delete(["name LIKE '*z*'", "id == 9"], test) }
            test.store.connection.work.jobLimit = 2_000_000
            ends.append(try delete(Array(repeating: "name LIKE '*x*y'", count: 200), test))
            work.append(test.work)
            #expect(try test.rows("SELECT count(*) FROM Employee") == ["1"])
            #expect(try delete(["name LIKE '*x*y'"], test).isEmpty)
        }
        #expect(ends[0].hasPrefix("busy /operations/"))
        #expect(ends[0] == ends[1] && work[0] == work[1])
        #expect(work[0] < 2_100_000)
    }

    @Test(arguments: [
        "name == 'x' OR name == 'y'", "boss.boss.name == 'x'", "boss.name < boss.boss.name",
        "salary > 1 OR name LIKE 'x*'",
    ])
    func `one operation is ended in the middle, and the jobs before it in the transaction stay`(text: String) throws {
        let test = try store(20_000)
        try delete([text], test)
        let whole = test.work
        test.store.connection.work.jobLimit = 100_000
        let deletion = try test.deletion([text], of: "Employee")
        try test.store.begin()
        _ = try test.store.apply(test.job(#"{"Employee": [{"id": -1}]}"#))
        #expect(try test.store.apply(deletion).failure == "busy /operations/0")
        #expect(test.work < 110_000 && whole > 130_000, "\(whole)")
        _ = try test.store.apply(test.job(#"{"Employee": [{"id": -2}]}"#))
        try test.store.commit()
        #expect(try test.rows("SELECT count(*) FROM Employee") == ["20002"])
    }

    @Test func `an honest search through all objects passes`() throws {
        let test = try store(20_000)
        try delete(["name == 'x' AND salary > 3"], test)
        // A million and a half objects fit into the budget of a store (protocol/limits.md), and not many more.
        #expect(test.store.connection.work.jobLimit > 1_500_000 * 30)
        #expect(test.store.connection.work.jobLimit < 2_000_000 * 30)
        #expect(test.work < 20_000 * 30)
    }

    @Test func `a comparison of two key paths is charged for the cursors that it opens`() throws {
        let test = try store(50)
        func work(_ count: Int) throws -> Int {
            let path = String(repeating: "boss.", count: 8)
            let text = Array(repeating: "\(path)id < \(path)id", count: count).joined(separator: " OR ")
            try delete([text], test)
            return test.work
        }
        let (few, many) = (try work(3), try work(30))
        // Ten times the comparisons, each ten times as expensive; SQLite itself counts ten times the instructions.
        #expect(many - JobWork.unitsPerSelection > 30 * (few - JobWork.unitsPerSelection), "\(few) \(many)")
    }

    @Test func `rows that follow a renaming, and the operation itself, are charged`() throws {
        let test = try store(2_000)
        try delete(["id == 7"], test)
        let one = test.work
        try delete(Array(repeating: "id == 7", count: 10), test)
        #expect(one >= JobWork.unitsPerSelection && test.work >= 10 * JobWork.unitsPerSelection)
    }

    @Test func `bytes that decimals have are charged`() throws {
        let test = try TestStore(Self.model)
        let digits = String(repeating: "7", count: 80_000)
        try test.apply("{\"Employee\": [{\"id\": 1, \"salary\": \(digits)}]}")
        try delete(["salary > 1"], test)
        #expect(test.work > JobWork.unitsPerSelection + 10_000)
    }

    @Test func `a hostile expression takes linear work in the writer`() throws {
        let test = try store(1, name: String(repeating: "ac", count: 100_000))
        #expect(try delete([#"name MATCHES "[\\s\\S]*?(?:[ac]*)?b""#], test).isEmpty)
        #expect(test.work < 200_000 * 20)
        #expect(try test.rows("SELECT count(*) FROM Employee") == ["1"])
    }

    @Test func `the work of merging a job's own rows is counted by their number`() throws {
        let test = try store(1)
        test.store.connection.work.jobLimit = 10_000
        let records = (10..<5_000).map { "{\"id\": \($0), \"name\": \"a\", \"boss\": 0}" }.joined(separator: ",")
        #expect(try test.changes("{\"Employee\": [\(records)]}") == "Employee +4990 =1")
    }

    @Test(.mergesSets, arguments: ["", #", "part": {"id": "s", "last": true}"#])
    func `a sync is charged for the keys of the objects that it looks at`(part: String) throws {
        let test = try TestStore(#"{"entities": {"Page": {"identity": "path", "attributes": {"path": "string"}}}}"#)
        let paths = (0..<100).map { "{\"path\": \"\($0)\(String(repeating: "p", count: 3_200))\"}" }
        try test.apply(payload("Page", paths))
        let sync = #"{"op": "sync", "entity": "Page", "json": [\#(paths.joined(separator: ","))]\#(part)}"#
        #expect(try test.apply(test.job(operations: sync, wantsKeys: false)).outcome != nil)
        let others = JobWork.unitsPerSelection + 100 * 200
        #expect(test.work > 100 * 100 + JobWork.unitsPerSelection)
        #expect(test.work < 100 * 110 + others, "\(test.work)")
    }

    private static func deletion(_ id: Int) -> String {
        #"{"op": "delete", "entity": "Employee", "objects": [\#(id)]}"#
    }

    /// Work of the job, one step for each operation.
    private func work(of operations: [String], _ test: TestStore) throws -> Int {
        let job = try test.job(operations: operations.joined(separator: ","), wantsKeys: false)
        #expect(try test.apply(job).outcome != nil)
        return test.work
    }

    @Test func `each change of a long row is charged for the bytes of the row`() throws {
        let bytes = 400_000
        let test = try store(2, name: String(repeating: "n", count: bytes))
        let short = try store(2)
        let operations = (1...10).map {
            #"{"entity": "Employee", "json": {"id": 1, "salary": \#($0)}}, \#(Self.deletion(0))"#
        }
        let (long, others) = (try work(of: operations, test), try work(of: operations, short))
        // The net changes read the row after each change, and the deleted row.
        #expect(long - others > 10 * bytes / 4, "\(long) \(others)")
    }

    @Test(arguments: [
        ("id > 5", 0), ("name == 'x'", 1), ("salary > 1", 1), ("boss.id > 5", 0), ("boss.salary > 1", 1),
        ("boss.id < boss.boss.id", 1),
    ])
    func `a search is charged for the long values before a column that it reads`(text: String, values: Int) throws {
        let bytes = 400_000
        func work(_ name: String) throws -> Int {
            let test = try store(1, name: name)
            try delete([text], test)
            return test.work
        }
        let (long, others) = (try work(String(repeating: "n", count: bytes)), try work("n"))
        #expect((values * bytes / 4..<values * bytes / 4 + 100).contains(long - others), "\(long) \(others)")
    }

    @Test func `an operation that changes nothing in a long row is charged`() throws {
        let bytes = 400_000
        let (long, short) = (try store(2, name: String(repeating: "n", count: bytes)), try store(2))
        let operations = (1...10).map { _ in
            #"{"entity": "Employee", "json": {"id": 1, "boss": 0}}, \#(Self.deletion(7))"#
        }
        // The first operation is not charged.
        #expect(try work(of: operations, long) - work(of: operations, short) >= 9 * bytes / 4)
    }
}

/// An operation that exceeds the work budget is ended in the middle of what follows from it, and nothing of it is left.
@Suite(.timeLimit(.minutes(5))) struct InterruptedWorkTests {
    private static let model = """
        {"entities": {
            "Office": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"desks": {"entity": "Desk", "toMany": true, "inverse": "office", "deleteRule": "cascade"}}},
            "Desk": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"office": {"entity": "Office", "inverse": "desks"}}},
            "Team": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"members": {"entity": "Member", "toMany": true, "inverse": "team", "assignment": "replace"}}},
            "Member": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"team": {"entity": "Team", "inverse": "members"}}}}}
        """
    private static let count = 5_000
    private static let limit = 40_000

    /// A store of one office with many desks, and one team with many members.
    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        func records(_ link: String) -> String {
            (0..<Self.count).map { "{\"id\": \($0), \"\(link)\": 1}" }.joined(separator: ",")
        }
        try test.apply("{\"Desk\": [\(records("office"))], \"Member\": [\(records("team"))]}")
        return test
    }

    /// Applies jobs in one transaction, or one by one when that is undone, as the writer does.
    ///
    /// - Returns: how often a transaction was undone; `code path` of each job's fault.
    private func apply(_ jobs: [StoreJob], _ test: TestStore) throws -> (undone: Int, ends: [String]) {
        var undone = 0
        func transaction(_ jobs: [StoreJob]) throws -> [String]? {
            do {
                try test.store.begin()
                let ends = try jobs.map { try test.store.apply($0).failure }
                try test.store.commit()
                return ends
            } catch let error as StoreError where error.code == .overworked {
                #expect(test.store.connection.isAutocommit)
                test.store.rollback()
                undone += 1
                return nil
            }
        }
        if let ends = try transaction(jobs) { return (undone, ends) }
        var ends: [String] = []
        for job in jobs { ends += try transaction([job]) ?? transaction([job]) ?? ["never ended"] }
        return (undone, ends)
    }

    @Test(arguments: [
        (#"{"op": "delete", "entity": "Desk"}"#, true),
        (#"{"op": "sync", "entity": "Desk", "json": []}"#, false),
        (#"{"op": "delete", "entity": "Office", "objects": [1]}"#, true),
        (#"{"op": "delete", "entity": "Team", "objects": [1]}"#, true),
        (#"{"entity": "Team", "object": 1, "json": {"id": 9}}"#, true),
        (#"{"entity": "Team", "json": {"id": 1, "members": []}}"#, false),
    ])
    func `an operation is ended soon after its budget is spent, and other jobs stay`(
        operation: String, undoes: Bool
    ) throws {
        let (test, whole) = (try store(), try store())
        _ = try whole.apply(whole.job(operations: operation, wantsKeys: false))
        test.store.connection.work.jobLimit = Self.limit
        let rows = "SELECT count(*), sum(team) FROM Member, Team UNION ALL SELECT count(*), sum(office) FROM Desk"
        let before = try test.rows(rows)
        let others = #"{"entity": "Office", "json": {"id": 5}}, {"op": "delete", "entity": "Office", "objects": [6]}"#
        let outcome = try apply(
            [
                test.job(#"{"Office": [{"id": 77}]}"#),
                test.job(operations: "\(others), \(operation)", wantsKeys: false),
                test.job(#"{"Office": [{"id": 78}]}"#),
            ], test)
        #expect(outcome.ends == ["", "busy /2", ""])
        #expect(outcome.undone == (undoes ? 1 : 0))
        #expect(whole.work > 2 * Self.limit, "\(whole.work)")
        #expect(try test.rows(rows) == before)
        #expect(try test.rows("SELECT id FROM Office ORDER BY id") == ["1", "77", "78"])
        #expect(try test.isSound())
    }

    @Test func `a job that was interrupted twice takes the same work, and ends at the same operation`() throws {
        var work: [Int] = []
        for other in [0, 3] {
            let test = try store()
            for _ in 0..<other {
                try test.run(#"{"op": "delete", "entity": "Desk", "objects": [-1]}"#)
            }
            test.store.connection.work.jobLimit = Self.limit
            let job = try test.job(operations: #"{"entity": "Team", "object": 1, "json": {"id": 9}}"#)
            #expect(try apply([job], test).ends == ["busy /0"])
            work.append(test.work)
            #expect(try test.run(#"{"op": "delete", "entity": "Desk", "objects": [1]}"#) == "Desk -1")
        }
        #expect(work[0] == work[1] && work[0] > Self.limit && work[0] < Self.limit + 20_000, "\(work)")
    }
}

/// The memory that a job takes while it is applied.
@Suite(.timeLimit(.minutes(5))) struct JobMemoryTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"dept": {"entity": "D"}}},
          "D": {"identity": "id", "attributes": {"id": "integer64", "title": {"type": "string", "optional": false},
            "code": {"type": "string", "unique": true}}, "relationships": {"head": {"entity": "E"}}},
          "M": {"identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64", "text": "string"}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    @Test(arguments: [10_000, 100_000, 300_000]) func `a job that needs more memory than it may take fails as busy`(
        limit: Int
    ) throws {
        let records = (0..<2_000).map { #"{"id": \#($0), "title": "t", "code": "same"}"# }
        let allowance = TestAllowance(limit)
        let fault = try #require(store.apply(store.job(payload("D", records), .skip).with(memory: allowance)).fault)
        #expect(fault.code == .busy)
        #expect(allowance.used == 0)
        #expect(try store.rows("SELECT count(*) FROM D") == ["0"])
        try store.apply(#"{"D": {"id": 1, "title": "t"}}"#)
    }

    @Test func `unique values that are parked take the job's memory, and give it back`() throws {
        func records(_ ids: Range<Int>, from first: Int = 0) -> String {
            ids.map { #"{"id": \#(first + $0), "title": "t", "code": "\#($0)"}"# }.joined(separator: ",")
        }
        try store.apply(#"{"D": [\#(records(0..<1_500))]}"#)
        // Each step parks the values that its rows claim; the claims themselves take memory for one step alone.
        let steps = [0..<500, 500..<1_000, 1_000..<1_500].map {
            #"{"entity": "D", "json": [\#(records($0, from: 10_000))]}, {"op": "delete", "entity": "E", "objects": [1]}"#
        }
        let objects = (0..<1_500).map(String.init).joined(separator: ",")
        let operations = steps.joined(separator: ",") + #", {"op": "delete", "entity": "D", "objects": [\#(objects)]}"#
        let (scarce, ample) = (TestAllowance(1_500 * 320), TestAllowance(.max))
        #expect(try store.failure(of: operations, scarce).hasPrefix("busy "))
        #expect(try store.failure(of: operations, ample).isEmpty)
        #expect(scarce.used == 0 && ample.used == 0)
    }

    @Test func `a sync's record of named objects takes the job's memory`() throws {
        let test = try TestStore(#"{"entities": {"Note": {"attributes": {"text": "string"}}}}"#)
        let notes = Array(repeating: "{}", count: 500).joined(separator: ",")
        func end(_ allowance: TestAllowance) throws -> String {
            try test.failure(of: #"{"op": "sync", "entity": "Note", "json": [\#(notes)]}"#, allowance)
        }
        let ample = TestAllowance(.max)
        #expect(try end(ample).isEmpty)
        #expect(ample.most >= 500 * 64 && ample.used == 0)
        #expect(try end(TestAllowance(ample.most - 1)) == "busy /0")
        #expect(try test.rows("SELECT count(*) FROM Note") == ["500"])
    }
}

extension TestStore {
    fileprivate func failure(of operations: String, _ allowance: TestAllowance) throws -> String {
        try apply(job(operations: operations, wantsKeys: false).with(memory: allowance)).failure
    }
}

/// The memory of what a job records about the objects that it changes.
@Suite(.timeLimit(.minutes(5))) struct NetChangesMemoryTests {
    private static let model = """
        {"entities": {
            "Page": {"identity": "path", "attributes": {"path": "string"}},
            "Office": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"desks": {"entity": "Desk", "toMany": true, "inverse": "office", "deleteRule": "cascade"},
                    "cables": {"entity": "Cable", "toMany": true, "inverse": "office", "deleteRule": "cascade"}}},
            "Desk": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"office": {"entity": "Office", "inverse": "desks"}}},
            "Cable": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"office": {"entity": "Office", "inverse": "cables"},
                    "plug": {"entity": "Desk", "deleteRule": "cascade"}}}}}
        """
    private static let count = 5_000

    private let test: TestStore

    init() throws {
        test = try TestStore(Self.model)
        let desks = (0..<Self.count).map { "{\"id\": \($0), \"office\": 1}" }.joined(separator: ",")
        let pages = (0..<100).map { "{\"path\": \"\($0)\(String(repeating: "p", count: 10_000))\"}" }
        try test.apply("{\"Desk\": [\(desks)], \"Cable\": [\(desks)], \"Page\": [\(pages.joined(separator: ","))]}")
    }

    /// The job, first in a transaction and, when that is undone, alone, as the writer does.
    private func end(_ operations: String, wantsKeys: Bool, _ allowance: TestAllowance) throws -> String {
        let job = try test.job(operations: operations, wantsKeys: wantsKeys).with(memory: allowance)
        func attempt() throws -> JobOutcome? {
            do {
                return try test.apply(job)
            } catch let error as StoreError where error.code == .overworked {
                return nil
            }
        }
        guard let end = try attempt() ?? attempt() else { return "never ended" }
        return end.outcome == nil ? end.failure : "completed"
    }

    /// - Parameter memory: bytes that suffice.
    @Test(arguments: [
        // Each deleted object needs an entry, because another step follows or because its key is reported.
        (#"{"op": "delete", "entity": "Desk"}, {"entity": "Desk", "json": {"id": 9}}"#, false, 400_000, 5_000_000),
        (#"{"op": "delete", "entity": "Desk"}"#, true, 400_000, 5_000_000),
        // Long keys.
        (#"{"op": "delete", "entity": "Page"}"#, true, 800_000, 5_000_000),
        // Counted objects need no entry, but the deletion set has those that may reach others.
        (#"{"op": "delete", "entity": "Office", "objects": [1]}"#, false, 200_000, 2_000_000),
    ])
    func `a job that records more than its memory fails as busy, and leaves nothing`(
        operations: String, wantsKeys: Bool, tooLittle: Int, enough: Int
    ) throws {
        let rows = "SELECT (SELECT count(*) FROM Desk), (SELECT count(*) FROM Page), (SELECT count(*) FROM Office)"
        let before = try test.rows(rows)
        let little = TestAllowance(tooLittle)
        #expect(try end(operations, wantsKeys: wantsKeys, little) == "busy /0")
        #expect(try test.rows(rows) == before)
        #expect(little.used == 0)
        let large = TestAllowance(enough)
        #expect(try end(operations, wantsKeys: wantsKeys, large) == "completed")
        #expect(large.most > tooLittle)
        #expect(large.used == 0)
        #expect(try test.isSound())
    }

    @Test func `a deletion that is only counted needs no memory for each object`() throws {
        let allowance = TestAllowance(100_000)
        #expect(try end(#"{"op": "delete", "entity": "Desk"}"#, wantsKeys: false, allowance) == "completed")
    }
}

@Suite(.timeLimit(.minutes(5))) struct WriterActivityTests {
    @Test func `a long statement is progress, and so is what the thread reads and writes`() throws {
        let activity = WriterActivity()
        activity.begin()
        let folder = TemporaryFolder()
        let connection = try Connection(store: folder.path("a.sqlite"))
        connection.work.activity = activity
        connection.work.watch(connection.handle)
        let before = activity.sample
        _ = try connection.integer(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT max(n) FROM c")
        #expect(activity.sample.steps > before.steps + 10)
        let counted = activity.sample.bytes
        try #require(counted > 0, "this kernel does not count the bytes of a thread")
        let file = open(folder.path("b"), O_WRONLY | O_CREAT, 0o600)
        defer { close(file) }
        // More than reading the counters takes.
        let bytes = [UInt8](repeating: 0, count: 100_000)
        #expect(write(file, bytes, bytes.count) == bytes.count)
        #expect(activity.sample.bytes >= counted + bytes.count)
    }
}

/// SQLite bounds the bytes of a row.
@Suite(.timeLimit(.minutes(5))) struct RowLimitTests {
    @Test func `a record whose object would have too many bytes is rejected, and no other`() throws {
        let test = try TestStore(
            """
            {"entities": {"Doc": {"identity": "id", "attributes": {"id": "integer64", "a": "string", "b": "string"}}}}
            """)
        sqlite3_limit(test.store.connection.handle, SQLITE_LIMIT_LENGTH, 100_000)
        let text = String(repeating: "t", count: 60_000)
        try test.apply("{\"Doc\": {\"id\": 1, \"a\": \"\(text)\"}}")
        let records = "[{\"id\": 2, \"a\": \"x\"}, {\"id\": 1, \"b\": \"\(text)\"}]"
        let operation = "{\"entity\": \"Doc\", \"json\": \(records)}"
        let fault = try #require(try test.apply(test.job(operations: operation)).fault)
        #expect(
            fault.code == .constraintViolation && fault.path == "/0/json/1" && fault.message.contains("no row of more"))
        #expect(!fault.message.contains("too big") && fault.cause == "string or blob too big")
        #expect(try test.apply(test.job(operations: operation, .skip)).outcome != nil)
        #expect(try test.rows("SELECT id, a, b FROM Doc WHERE id = 2") == ["2|x|NULL"])
    }
}
