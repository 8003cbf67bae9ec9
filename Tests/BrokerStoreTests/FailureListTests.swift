import BrokerModel
import Testing

@testable import BrokerStore

/// The list of failed jobs, from the ledger.
@Suite(.timeLimit(.minutes(5))) struct FailureListTests {
    private static let thing = #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    private let store: TestStore

    init() throws { store = try TestStore(Self.thing) }

    private func failures(_ filter: FailureFilter = FailureFilter(), as asker: JobOwner = .server) throws -> [String] {
        try LedgerReader(path: store.path, store.store.jobs).failures(9, filter, as: asker).map(\.id)
    }

    /// Many lines at once, of jobs that never were.
    private func insert(_ count: Int, after sequence: Int, failed: Bool, code: String = "busy", user: Int = 1) throws {
        try store.execute(
            """
            INSERT INTO _broker_jobs (sequence, id, failed, ended, outcome, owner)
                WITH RECURSIVE n (i) AS (SELECT \(sequence + 1) UNION ALL SELECT i + 1 FROM n WHERE i < \(sequence + count))
                SELECT i, 'line-' || i, \(failed ? 1 : 0), 1000 * i, '{"code":"\(code)","message":"m"}', \(user) FROM n
            """)
    }

    @Test func `a failure is listed, however many jobs completed or failed after it`() throws {
        try store.apply(#"{"Thing": [{"id": "x"}]}"#, id: "first")
        try insert(30_000, after: 1, failed: false)
        #expect(try failures() == ["first"])
        try insert(30_000, after: 40_000, failed: true)
        #expect(try failures().first == "line-70000" && failures().count == 9)
        #expect(try failures(FailureFilter(code: "invalidValue")) == ["first"])
    }

    @Test func `failures are chosen by their time, user and code, and by all of them`() throws {
        try insert(3, after: 0, failed: true, code: "busy", user: 70_001)
        try insert(3, after: 3, failed: true, code: "busyOtherwise", user: 70_002)
        #expect(try failures(FailureFilter(since: 5_000)) == ["line-6", "line-5"])
        #expect(try failures(FailureFilter(user: 70_001)) == ["line-3", "line-2", "line-1"])
        #expect(try failures(FailureFilter(code: "busy")) == ["line-3", "line-2", "line-1"])
        #expect(try failures(FailureFilter(since: 2_000, user: 70_001, code: "busy")) == ["line-3", "line-2"])
        #expect(try failures(FailureFilter(user: 70_002, code: "busy")).isEmpty)
        #expect(try failures(as: JobOwner(user: 70_001)) == ["line-3", "line-2", "line-1"])
        #expect(try failures(FailureFilter(user: 70_002), as: JobOwner(user: 70_001)).isEmpty)
        let error = Array(#"{"code":"busyOtherwise","message":"m"}"#.utf8)
        #expect(!FailureFilter(code: "busy").includes(acceptedAt: 1, of: .server, error: error))
        #expect(FailureFilter(since: 1, code: "busyOtherwise").includes(acceptedAt: 1, of: .server, error: error))
        #expect(!FailureFilter(since: 2).includes(acceptedAt: 1, of: .server, error: error))
    }

    @Test func `the index has failures alone`() throws {
        try insert(10, after: 0, failed: false)
        try insert(2, after: 10, failed: true)
        let count = "SELECT count(*) FROM _broker_jobs INDEXED BY _broker_failures WHERE failed = 1"
        #expect(try store.rows(count) == ["2"])
        #expect(try store.rows("EXPLAIN QUERY PLAN " + count)[0].contains("INDEX _broker_failures"))
        #expect(try store.isSound())
    }
}
