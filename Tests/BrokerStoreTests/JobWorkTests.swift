import BrokerJSON
import BrokerModel
import BrokerStaging
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
        try test.apply("{\"Employee\": [\(records.joined(separator: ","))]}")
        return test
    }

    /// A job of one `delete` with `where` for each predicate.
    private func deletion(_ test: TestStore, _ predicates: [String]) throws -> StoreJob {
        let steps = try predicates.enumerated().map { index, text in
            let predicate = try test.predicate(text, of: "Employee")
            let selection = StagedSelection(entity: 0, predicate)
            return StagedStep(action: .deleteMatching(selection), rows: nil, pointer: "/operations/\(index)")
        }
        defer { test.nextSequence += 1 }
        return StoreJob(
            id: "deletion-\(test.nextSequence)", contentHash: nil, sequence: test.nextSequence, policy: .fail,
            wantsKeys: false, work: .steps(steps), now: 0)
    }

    private func fault(_ outcome: JobOutcome) -> String? {
        guard case .failed(let fault) = outcome else { return nil }
        return "\(fault.code.rawValue) \(fault.path ?? "")"
    }

    @Test func `many searches through one long text exceed the budget at the same operation each time`() throws {
        var ends: [String?] = []
        var work: [Int] = []
        for other in [0, 3] {
            let test = try store(1, name: String(repeating: "n", count: 100_000))
            // Earlier work of a store must not change a job's charge.
            for _ in 0..<other { _ = try test.apply(deletion(test, ["name LIKE '*z*'", "id == 9"])) }
            test.store.connection.work.jobLimit = 2_000_000
            ends.append(fault(try test.apply(deletion(test, Array(repeating: "name LIKE '*x*y'", count: 200)))))
            work.append(test.store.connection.work.newest)
            #expect(try test.rows("SELECT count(*) FROM Employee") == ["1"])
            #expect(fault(try test.apply(deletion(test, ["name LIKE '*x*y'"]))) == nil)
        }
        #expect(ends[0]?.hasPrefix("busy /operations/") == true)
        #expect(ends[0] == ends[1] && work[0] == work[1])
        #expect(work[0] < 2_100_000)
    }

    @Test(arguments: [
        "name == 'x' OR name == 'y'", "boss.boss.name == 'x'", "boss.name < boss.boss.name",
        "salary > 1 OR name LIKE 'x*'",
    ])
    func `one operation is ended in the middle, and the jobs before it in the transaction stay`(text: String) throws {
        let test = try store(20_000)
        _ = try test.apply(deletion(test, [text]))
        let whole = test.store.connection.work.newest
        test.store.connection.work.jobLimit = 100_000
        try test.store.begin()
        _ = try test.store.apply(test.job(#"{"Employee": [{"id": -1}]}"#))
        let outcome = try test.store.apply(deletion(test, [text]))
        _ = try test.store.apply(test.job(#"{"Employee": [{"id": -2}]}"#))
        try test.store.commit()
        #expect(fault(outcome) == "busy /operations/0")
        #expect(test.store.connection.work.newest < 110_000 && whole > 130_000, "\(whole)")
        #expect(try test.rows("SELECT count(*) FROM Employee") == ["20002"])
    }

    @Test func `an honest search through all objects passes`() throws {
        let test = try store(20_000)
        _ = try test.apply(deletion(test, ["name == 'x' AND salary > 3"]))
        // A million and a half objects fit into the budget of a store (protocol/limits.md), and not many more.
        #expect(test.store.connection.work.jobLimit > 1_500_000 * 30)
        #expect(test.store.connection.work.jobLimit < 2_000_000 * 30)
        #expect(test.store.connection.work.newest < 20_000 * 30)
    }

    @Test func `a comparison of two key paths is charged for the cursors that it opens`() throws {
        let test = try store(50)
        func work(_ count: Int) throws -> Int {
            let path = String(repeating: "boss.", count: 8)
            let text = Array(repeating: "\(path)id < \(path)id", count: count).joined(separator: " OR ")
            _ = try test.apply(deletion(test, [text]))
            return test.store.connection.work.newest
        }
        let (few, many) = (try work(3), try work(30))
        // Ten times the comparisons, each ten times as expensive; SQLite itself counts ten times the instructions.
        #expect(many - JobWork.unitsPerSelection > 30 * (few - JobWork.unitsPerSelection), "\(few) \(many)")
    }

    @Test func `rows that follow a renaming, and the operation itself, are charged`() throws {
        let test = try store(2_000)
        _ = try test.apply(deletion(test, ["id == 7"]))
        let one = test.store.connection.work.newest
        _ = try test.apply(deletion(test, Array(repeating: "id == 7", count: 10)))
        #expect(one >= JobWork.unitsPerSelection && test.store.connection.work.newest >= 10 * JobWork.unitsPerSelection)
    }

    @Test func `bytes that decimals have are charged`() throws {
        let test = try TestStore(Self.model)
        let digits = String(repeating: "7", count: 80_000)
        try test.apply("{\"Employee\": [{\"id\": 1, \"salary\": \(digits)}]}")
        _ = try test.apply(deletion(test, ["salary > 1"]))
        #expect(test.store.connection.work.newest > JobWork.unitsPerSelection + 10_000)
    }

    @Test func `a hostile expression takes linear work in the writer`() throws {
        let test = try store(1, name: String(repeating: "ac", count: 100_000))
        #expect(fault(try test.apply(deletion(test, [#"name MATCHES "[\\s\\S]*?(?:[ac]*)?b""#]))) == nil)
        let text = 200_000
        #expect(test.store.connection.work.newest < text * 20)
        #expect(try test.rows("SELECT count(*) FROM Employee") == ["1"])
    }

    @Test func `the work of merging a job's own rows is counted by their number`() throws {
        let test = try store(1)
        test.store.connection.work.jobLimit = 10_000
        let records = (10..<5_000).map { "{\"id\": \($0), \"name\": \"a\", \"boss\": 0}" }.joined(separator: ",")
        #expect(try test.changes("{\"Employee\": [\(records)]}") == ["Employee +4990 ~0 =1 !0"])
    }

    @Test(.mergesSets, arguments: [nil, SyncPart(id: "s", isLast: true, definition: [])])
    func `a sync is charged for the keys of the objects that it looks at`(part: SyncPart?) throws {
        let test = try TestStore(#"{"entities": {"Page": {"identity": "path", "attributes": {"path": "string"}}}}"#)
        let paths = (0..<100).map { "{\"path\": \"\($0)\(String(repeating: "p", count: 3_200))\"}" }
        let all = "[\(paths.joined(separator: ","))]"
        try test.apply("{\"Page\": \(all)}")
        let job = try test.job(operations: #"{"op": "sync", "entity": "Page", "json": \#(all)}"#, wantsKeys: false)
        guard case .steps(var steps) = job.work else { return #expect(Bool(false)) }
        steps = [
            StagedStep(
                action: .sync(StagedSync(StagedSelection(entity: 0, nil), part: part)), rows: steps[0].rows,
                pointer: "/0")
        ]
        let sync = StoreJob(
            id: "sync", contentHash: nil, sequence: job.sequence, policy: .fail, wantsKeys: false, work: .steps(steps),
            now: 0)
        guard case .completed = try test.apply(sync) else { return #expect(Bool(false)) }
        let others = JobWork.unitsPerSelection + 100 * 200
        #expect(test.store.connection.work.newest > 100 * 100 + JobWork.unitsPerSelection)
        #expect(test.store.connection.work.newest < 100 * 110 + others, "\(test.store.connection.work.newest)")
    }

    /// Work of the job, one step for each operation.
    private func work(of operations: [String], _ test: TestStore) throws -> Int {
        let job = try test.job(operations: operations.joined(separator: ","), wantsKeys: false)
        guard case .completed = try test.apply(job) else {
            Issue.record("the job fails")
            return 0
        }
        return test.store.connection.work.newest
    }

    @Test func `each change of a long row is charged for the bytes of the row`() throws {
        let bytes = 400_000
        let test = try store(2, name: String(repeating: "n", count: bytes))
        let short = try store(2)
        let operations = (1...10).flatMap { number in
            [
                #"{"entity": "Employee", "json": {"id": 1, "salary": \#(number)}}"#,
                #"{"op": "delete", "entity": "Employee", "objects": [0]}"#,
            ]
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
            _ = try test.apply(deletion(test, [text]))
            return test.store.connection.work.newest
        }
        let (long, others) = (try work(String(repeating: "n", count: bytes)), try work("n"))
        #expect((values * bytes / 4..<values * bytes / 4 + 100).contains(long - others), "\(long) \(others)")
    }

    @Test func `an operation that changes nothing in a long row is charged`() throws {
        let bytes = 400_000
        let (long, short) = (try store(2, name: String(repeating: "n", count: bytes)), try store(2))
        let operations = (1...10).flatMap { _ in
            [
                #"{"entity": "Employee", "json": {"id": 1, "boss": 0}}"#,
                #"{"op": "delete", "entity": "Employee", "objects": [7]}"#,
            ]
        }
        // The first operation is not charged.
        #expect(try work(of: operations, long) - work(of: operations, short) >= 9 * bytes / 4)
    }
}
