import BrokerModel
import Testing

@testable import BrokerStore

/// Texts that jobs write with their changes.
@Suite(.timeLimit(.minutes(5))) struct BookmarkTests {
    private static let model = #"""
        {"entities": {"Land": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}
        """#
    private static let land = #"{"Land": {"id": 1, "name": "a"}}"#

    private func job(
        _ test: TestStore, _ value: String?, of name: String = "feed", _ payload: String = land, id: String? = nil
    ) throws -> StoreJob {
        try test.job(payload, id: id).with(bookmark: Bookmark(name: name, value: value))
    }

    private func bookmarks(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT name, value, sequence FROM _broker_bookmarks ORDER BY name")
    }

    @Test func `a job writes its bookmark, also if it changes nothing, and null deletes it`() throws {
        let test = try TestStore(Self.model)
        try test.apply(job(test, "a"))
        #expect(try bookmarks(test) == ["feed|a|1"])
        try test.apply(job(test, "b\u{0}\u{1F600}"))
        try test.apply(job(test, "", of: "Feed"))
        let reader = try LedgerReader(path: test.path, test.store.jobs)
        #expect(try reader.bookmark(named: "feed") == StoredBookmark(value: "b\u{0}\u{1F600}", sequence: 2))
        #expect(try reader.bookmark(named: "Feed") == StoredBookmark(value: "", sequence: 3))
        #expect(try reader.bookmark(named: "fee") == nil)
        try test.apply(job(test, nil))
        #expect(try reader.bookmark(named: "feed") == nil)
        try test.apply(job(test, nil))
        #expect(try bookmarks(test) == ["Feed||3"])
    }

    @Test func `a job that fails, is tried or is a duplicate writes no bookmark`() throws {
        let test = try TestStore(Self.model)
        try test.apply(job(test, "a", id: "one"))
        guard case .failed = try test.apply(job(test, "b", #"{"Land": {"id": "x"}}"#)) else {
            throw Fault(.internal, "no failure")
        }
        try test.apply(job(test, "c").with(isDryRun: true))
        guard case .duplicate = try test.apply(job(test, "d", id: "one")) else {
            throw Fault(.internal, "no duplicate")
        }
        guard case .conflict = try test.apply(job(test, "e", #"{"Land": []}"#, id: "one")) else {
            throw Fault(.internal, "no conflict")
        }
        #expect(try bookmarks(test) == ["feed|a|1"])
    }

    @Test(.mergesSets) func `jobs that share a transaction write theirs in order, and none if it is undone`() throws {
        let test = try TestStore(Self.model)
        let jobs = try [job(test, "a"), job(test, nil), job(test, "b"), job(test, "c", of: "other")]
        #expect(try test.applyBatch(jobs)?.count == 4)
        #expect(try bookmarks(test) == ["feed|b|3", "other|c|4"])
        try test.store.begin()
        _ = try test.store.apply(job(test, "d"))
        #expect(try test.ownRows("SELECT value FROM _broker_bookmarks WHERE name = 'feed'") == ["d"])
        test.store.rollback()
        #expect(try bookmarks(test) == ["feed|b|3", "other|c|4"])
    }

    @Test func `bookmarks stay when the model changes and outcomes are forgotten`() throws {
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 1, seconds: 1_000)
        let test = try TestStore(Self.model, options: options)
        try test.apply(job(test, "a"))
        for _ in 0..<3 { try test.apply(Self.land) }
        #expect(try test.store.outcome(ofJob: "job-1") == nil)
        try test.reopen(Self.model.replacing(#""name": "string""#, with: #""name": "string", "size": "double""#))
        #expect(try bookmarks(test) == ["feed|a|1"])
    }
}
