import BrokerJSON
@testable import LoadTesting
import CSQLite
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(5)))
struct BaselineTests {
    private let folder = TemporaryFolder()

    private func value(_ sql: String) throws -> String? {
        var handle: OpaquePointer?
        var statement: OpaquePointer?
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(handle)
        }
        try #require(sqlite3_open_v2(folder.path("f"), &handle, SQLITE_OPEN_READONLY, nil) == SQLITE_OK)
        try #require(sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, "\(sql)")
        guard sqlite3_step(statement) == SQLITE_ROW else { return nil }
        return sqlite3_column_text(statement, 0).map { String(cString: $0) }
    }

    private func payloads(_ options: RecordOptions, _ mix: RecordMix = .allNew, existing: Int = 0) -> [JSONText] {
        var job = JobOptions(options, mix)
        job.recordsOfJob = 50
        job.existing = existing
        return Baseline.payloads(job, jobs: 4)
    }

    @Test(arguments: RecordShape.allCases, RecordKeys.allCases)
    func `the baseline keeps every record of every shape`(shape: RecordShape, keys: RecordKeys) throws {
        for (presence, order) in [(1.0, RecordKeyOrder.declared), (0.5, .random)] {
            let options = RecordOptions(shape: shape, presence: presence, nulls: 0.2, keyOrder: order, keys: keys)
            var baseline = Baseline(path: folder.path("f"), records: options)
            baseline.transactionRows = 33
            let results = try baseline.load([payloads(options), payloads(options)])
            #expect(results.map(\.amount) == [200, 200])
            #expect(try value("SELECT count(*) FROM \(RecordLayout(options).entity)") == "200")
        }
    }

    @Test func `the baseline writes what the records say`() throws {
        let options = RecordOptions(shape: .nested, keyOrder: .random)
        _ = try Baseline(path: folder.path("f"), records: options).load([payloads(options)])
        #expect(
            try value(
                "SELECT name || '|' || email || '|' || salary || '|' || score || '|' || active || '|' || hiredAt || '|' "
                    + "|| level || '|' || department FROM Employee WHERE id = 137")
                == "Employee 137|employee137@example.com|3137.57|17.125|0|2015-03-26T17:30:00Z|5|137")
        #expect(try value("SELECT name FROM Department WHERE id = 137") == "Department 137")
    }

    @Test func `a second pass changes what its mix says`() throws {
        let options = RecordOptions()
        let mix = try RecordMix(parsing: "changed:1,unchanged:3")
        _ = try Baseline(path: folder.path("f"), records: options).load([
            payloads(options), payloads(options, mix, existing: 200),
        ])
        #expect(try value("SELECT count(*) FROM Employee WHERE name <> 'Employee ' || id") == "50")
        #expect(try value("SELECT count(*) FROM Employee") == "200")
    }

    @Test func `a link that is absent leaves the one that was there`() throws {
        let options = RecordOptions(presence: 0.5, seed: 4)
        let baseline = Baseline(path: folder.path("f"), records: options)
        _ = try baseline.load([payloads(RecordOptions(presence: 1)), payloads(options)])
        #expect(try value("SELECT count(*) FROM Employee WHERE department IS NULL OR name IS NULL") == "0")
    }

    @Test(arguments: [1, 7, GroupBaseline.mostInFlight])
    func `the group baseline answers every job and commits for groups`(inFlight: Int) throws {
        let baseline = GroupBaseline(path: folder.path("f"), records: RecordOptions(), inFlight: inFlight, jobs: 500)
        let result = try baseline.run()
        #expect(result.amount == 500)
        #expect(result.latencies?.count == 500)
        let commits = try #require(result.commits)
        #expect(commits <= 500 && commits * inFlight >= 500)
        #expect(try value("SELECT count(*) FROM Employee") == "500")
    }

    @Test func `the group baseline with a ledger notes every job once, in the order of answers`() throws {
        var baseline = GroupBaseline(path: folder.path("f"), records: RecordOptions(), inFlight: 7, jobs: 300)
        baseline.hasLedger = true
        #expect(try baseline.run().amount == 300)
        #expect(try value("SELECT count(*) || ' ' || min(sequence) || ' ' || max(sequence) FROM ledger") == "300 1 300")
        #expect(try value("SELECT count(DISTINCT id) FROM ledger WHERE outcome LIKE '%\"inserted\":1%'") == "300")
    }

    @Test func `a file that is no database cannot be the database of a baseline`() {
        let error = #expect(throws: (any Error).self) {
            try Baseline(path: "/nowhere/f", records: RecordOptions()).load([])
        }
        #expect("\(error as Any)".contains("/nowhere/f"))
    }
}
