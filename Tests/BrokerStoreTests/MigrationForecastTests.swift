import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// What a migration takes is said before it begins.
@Suite(.timeLimit(.minutes(5))) struct MigrationForecastTests {
    private static let before = """
        {"entities": {"Text": {"identity": "id", "attributes": {
          "id": "integer64", "body": "string", "size": {"type": "integer16", "indexed": true}}}}}
        """
    private static let after = before.replacing(#""integer16""#, with: #""double""#)

    /// One with a table of some 12 MB.
    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        let body = String(repeating: "x", count: 4_000)
        try store.apply(
            #"{"Text": [\#((0..<3_000).map { #"{"id": \#($0), "body": "\#(body)", "size": 1}"# }.joined(separator: ", "))]}"#
        )
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return store
    }

    private func lines(_ store: TestStore, _ model: String, freeBytes: Int64? = nil) throws -> [String] {
        try Store.changes(path: store.path, plan: stagingPlan(model), freeBytes: freeBytes).dropFirst().map {
            "\($0.verdict): \($0.line)"
        }
    }

    @Test func `rows, time and disk of a table that is written again are said, and what does not fit is refused`()
        throws
    {
        let store = try store()
        let told = try lines(store, Self.after)
        let match = try #require(
            told.first?.wholeMatch(
                of:
                    /migrated: 3000 rows of Text are written again: (\d+) MB, in about 1 s, and (\d+) MB more of the disk meanwhile/
            ), "\(told)")
        let (size, disk) = (try #require(Int(match.1)), try #require(Int(match.2)))
        #expect(told.count == 1 && size >= 12 && size < 30 && abs(disk - 2 * size) <= 1)
        #expect(
            try lines(store, Self.after, freeBytes: 5_000_000).last
                == "refused: the migration takes \(disk) MB more of the disk meanwhile, and 5 MB are free (free some space)"
        )
        #expect(try lines(store, Self.after, freeBytes: Int64(disk + 1) * 1_000_000) == told)
    }

    @Test func `a change that writes no row has no forecast`() throws {
        let store = try store()
        let model = Self.before.replacing(#""body""#, with: #""tag": {"type": "string", "default": "a"}, "body""#)
        #expect(try lines(store, model, freeBytes: 0) == [])
    }

    @Test func `a store is not opened where its migration has no room, and stays as it was`() throws {
        let store = try store()
        let schema = try store.rows("SELECT sql FROM sqlite_schema ORDER BY name")
        let plan = try stagingPlan(Self.after)
        let connection = try Store.look(at: StoreFile(path: store.path))
        let error = try #require(throws: StoreError.self) {
            try Store.opening(connection, store.path, plan, .refuse).refuseLackOfSpace(freeBytes: 1_000_000)
        }
        #expect(
            error.code == .full && error.message.contains("and 1 MB are free (free some space). Nothing was touched"))
        #expect(try store.rows("SELECT sql FROM sqlite_schema ORDER BY name") == schema)
        try store.reopen(Self.after)
    }
}
