import BrokerModel
import CSQLite
import Testing

@testable import BrokerStore

/// Settings of SQLite that are set once, when the store is opened, and on which everything relies.
@Suite(.timeLimit(.minutes(5))) struct StoreGuaranteeTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"home": {"entity": "Place"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}
        }}
        """

    @Test func `foreign keys are enforced on the connection that writes`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Person": {"id": 1, "home": "x"}}"#)
        let writer = store.store.connection
        #expect(try writer.integer("PRAGMA foreign_keys") == 1)
        let error = try #require(throws: StoreError.self) {
            try writer.execute("INSERT INTO Person VALUES (2, 'nowhere')")
        }
        #expect(error.code == .constraint)
        try writer.execute("UPDATE Place SET code = 'y'")
        #expect(try store.rows("SELECT home FROM Person") == ["y"])
        try writer.execute("DELETE FROM Place")
        #expect(try store.rows("SELECT home FROM Person") == ["NULL"])
    }

    @Test func `a job that leaves a link to nothing fails by itself, before COMMIT`() throws {
        let store = try TestStore(Self.model)
        try store.store.begin()
        guard case .completed = try store.store.apply(store.job(#"{"Person": {"id": 1, "home": "x"}}"#)) else {
            Issue.record("the good job failed")
            return
        }
        // No job of this version can do it by itself, so it is done for it.
        let writer = store.store.connection
        try writer.execute("INSERT INTO Person VALUES (2, 'nowhere')")
        guard case .failed(let fault) = try store.store.apply(store.job(#"{"Person": {"id": 3}}"#, id: "bad")) else {
            Issue.record("a dangling link was let through")
            return
        }
        #expect(fault.code == .constraintViolation)
        try writer.execute("DELETE FROM Person WHERE id = 2")
        try store.store.commit()
        #expect(try store.rows("SELECT * FROM Person") == ["1|x"])
        #expect(try store.store.outcome(ofJob: "bad")?.isFailure == true)
    }

    @Test func `a COMMIT waits for the disk, unless it was asked not to`() throws {
        SyncCounter.install()
        #expect(StoreOptions().synchronous == .full)
        for (synchronous, level, waits) in [(Synchronous.full, 2, true), (.normal, 1, false), (.off, 0, false)] {
            var options = StoreOptions()
            options.synchronous = synchronous
            let store = try TestStore(Self.model, options: options)
            #expect(try store.store.connection.integer("PRAGMA synchronous") == Int64(level))
            try store.apply(#"{"Person": {"id": 0}}"#)
            for id in 1...5 {
                let before = SyncCounter.syncs(ofFile: store.path + "-wal")
                try store.apply("{\"Person\": {\"id\": \(id)}}")
                #expect((SyncCounter.syncs(ofFile: store.path + "-wal") > before) == waits, "\(synchronous)")
            }
        }
    }

    @Test func `jobs that the journal may forget are on the disk: at COMMIT, or after the WAL has been copied`() throws
    {
        for synchronous in [Synchronous.full, .normal] {
            var options = StoreOptions()
            options.synchronous = synchronous
            let store = try TestStore(Self.model, options: options)
            try store.store.beginLog("log", after: 0)
            store.nextSequence = 7
            try store.apply(#"{"Person": {"id": 1}}"#)
            // The store's note of its journal is on the disk in any case.
            #expect(store.store.durablePosition == (synchronous == .full ? 7 : 0), "\(synchronous)")
            _ = try store.store.checkpointAtOnce()
            #expect(store.store.durablePosition == 7)
        }
    }

    @Test(arguments: ["when it is due", "while no job waits", "at once"])
    func `what a copied WAL had is on the disk, also after later jobs`(copied: String) throws {
        var options = StoreOptions()
        options.synchronous = .normal
        options.walPages = 8
        let store = try TestStore(Self.model, options: options)
        try store.store.beginLog("log", after: 0)
        try store.apply(#"{"Person": {"id": 1}}"#)
        switch copied {
        case "when it is due":
            var id = 2
            repeat {
                try store.apply(#"{"Person": {"id": \#(id)}}"#)
                store.store.copyWALIfDue()
                id += 1
            } while store.store.wal.uncheckpointedPages > 0 && id < 100
        case "while no job waits": store.store.idle()
        default: _ = try store.store.checkpointAtOnce()
        }
        let position = try #require(store.store.history?.position)
        #expect(store.store.durablePosition == position)
        // Checkpoints of servers that share a log report it, which are seldom: else nothing would be trimmed.
        try store.apply(#"{"Person": {"id": 1000}}"#)
        #expect(store.store.durablePosition == position, "\(copied)")
    }
}
