import BrokerModel
import TestSupport
import Testing

@testable import BrokerStaging
@testable import BrokerStore

/// The table of rejected records. The entity is called `json`, so that a test's payload has the form of a message.
@Suite(.timeLimit(.minutes(5))) struct KeptRejectsTests {
    private static let model = Models.of(["json": "id integer64, name string"])

    private func store(bytes: Int = 1 << 20) throws -> TestStore {
        try TestStore(Self.model) { $0.rejectBytes = bytes }
    }

    private func ids(_ store: TestStore) throws -> [String] {
        let rows = try store.rows("SELECT id FROM _broker_rejects ORDER BY id")
        let held = try store.rows("SELECT count(*), ifnull(sum(bytes), 0) FROM _broker_rejects")
        #expect(held == ["\(store.store.rejectTally.count)|\(store.store.rejectTally.bytes)"])
        return rows
    }

    @Test func `later records take the place of the oldest, which are counted`() throws {
        let store = try store(bytes: 1_000)
        for _ in 1...10 { try store.apply(#"{"json": {"id": "x"}}"#, .skip) }
        let size = try #require(try store.rows("SELECT max(bytes) FROM _broker_rejects").first.flatMap { Int($0) })
        let kept = 1_000 / size
        #expect(kept > 1 && kept < 10)
        #expect(try ids(store) == (11 - kept...10).map { "\($0)000" })
        #expect(store.store.rejectTally.omitted == 10 - kept)
        try store.reopen()
        #expect(try ids(store).count == kept)
    }

    @Test func `a store that keeps none deletes those that are there`() throws {
        let store = try store()
        try store.apply(#"{"json": {"id": "x"}}"#, .skip)
        let other = try Store(
            path: store.path, plan: store.plan, options: .init().with { $0.rejectBytes = 0 })
        #expect(other.rejectTally.count == 0)
        #expect(try store.rows("SELECT count(*) FROM _broker_rejects") == ["0"])
    }

    @Test func `a transaction that is undone leaves none`() throws {
        let store = try store()
        let job = { try store.job(#"{"json": {"id": "x"}}"#, .skip) }
        try store.applyTogether([job(), job()], isUndone: true)
        #expect(try ids(store) == [])
        try store.applyTogether([job()])
        #expect(try ids(store) == ["3000"])
    }

    @Test(.mergesSets) func `jobs that share a transaction keep theirs`() throws {
        let store = try store()
        let jobs = try (1...3).map { try store.job("{\"json\": [{\"id\": \($0)}, {\"id\": \"x\"}]}", .skip) }
        #expect(try store.applyBatch(jobs)?.count == 3)
        #expect(try ids(store) == ["1000", "2000", "3000"])
    }

    @Test func `one job keeps its first thousand records, and eight mebibytes`() throws {
        let store = try store(bytes: 1 << 30)
        let many = Array(repeating: #"{"id": "x"}"#, count: 1_500).joined(separator: ",")
        try store.apply("{\"json\": [\(many)]}", .skip)
        #expect(try ids(store).count == 1_000)
        #expect(try ids(store).last == "1999")
        #expect(store.store.rejectTally.omitted == 500)
        let long = String(repeating: "a", count: 3 << 20)
        let large = Array(repeating: "{\"id\": \"x\", \"name\": \"\(long)\"}", count: 4).joined(separator: ",")
        try store.apply("{\"json\": [\(large), {\"id\": \"y\"}]}", .skip)
        #expect(try ids(store).dropFirst(1_000) == ["2000", "2001", "2002"])
        #expect(store.store.rejectTally.omitted == 502)
    }

    @Test func `a record with very many faults lists the first twenty`() throws {
        let store = try TestStore(
            """
            {"entities": {"json": {"identity": "id", "attributes": {"id": "integer64"},
              "relationships": {"parts": {"entity": "Part", "toMany": true}}},
              "Part": {"identity": "id", "attributes": {"id": "integer64"}}}}
            """)
        let parts = Array(repeating: #"{"id": "x"}"#, count: 50).joined(separator: ",")
        try store.apply("{\"json\": [{\"id\": 1, \"parts\": [\(parts)]}]}", .skip)
        #expect(try store.rows("SELECT json_array_length(errors) FROM _broker_rejects") == ["20"])
    }

    @Test func `users see and drop those of their own jobs`() throws {
        let store = try store()
        try store.apply(#"{"json": {"id": "x"}}"#, .skip)
        let reader = try LedgerReader(path: store.path, store.store.jobs)
        let (stranger, query) = (JobOwner(user: 4_000_000_000), RejectQuery(limit: 10))
        #expect(try reader.rejects(query, as: stranger).rejects.isEmpty)
        #expect(try reader.rejects(query, as: .server).rejects.map(\.id) == [1_000])
        #expect(try store.store.drop(.through(.max), as: stranger) == 0)
        #expect(try store.store.drop(.ids([1_000]), as: stranger) == 0)
        #expect(try store.store.drop(.through(.max), as: .server) == 1)
        #expect(try ids(store) == [])
    }
}

extension StoreOptions {
    fileprivate func with(_ change: (inout StoreOptions) -> Void) -> StoreOptions {
        var options = self
        change(&options)
        return options
    }
}
