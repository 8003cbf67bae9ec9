import BrokerModel
import CSQLite
import Synchronization
import Testing

@testable import BrokerStore

/// Settings of SQLite that are set once, when the store is opened, and on which everything relies.
@Suite(.timeLimit(.minutes(5))) struct StoreGuaranteeTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"home": {"entity": "Place"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}}}
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
        #expect(try store.store.apply(store.job(#"{"Person": {"id": 1, "home": "x"}}"#)).outcome != nil)
        // No job of this version can do it by itself, so it is done for it.
        let writer = store.store.connection
        try writer.execute("INSERT INTO Person VALUES (2, 'nowhere')")
        let fault = try #require(try store.store.apply(store.job(#"{"Person": {"id": 3}}"#, id: "bad")).fault)
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
            let store = try TestStore(Self.model) { $0.synchronous = synchronous }
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
            let store = try TestStore(Self.model) { $0.synchronous = synchronous }
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
        let store = try TestStore(Self.model) { ($0.synchronous, $0.walPages) = (.normal, 8) }
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

/// Counts how often SQLite waits for the disk, file by file: the default VFS, with `xSync` seen on its way.
enum SyncCounter {
    private struct Counts {
        var names: [UInt: String] = [:]
        var syncs: [String: Int] = [:]
    }

    private static let counts = Mutex(Counts())

    /// Every database that is opened afterwards is counted.
    static func install() { _ = isInstalled }

    static func syncs(ofFile name: String) -> Int { counts.withLock { $0.syncs[name] ?? 0 } }

    private static let isInstalled: Bool = {
        counting.pointee = original.pointee
        counting.pointee.pNext = nil
        counting.pointee.zName = UnsafePointer(name)
        counting.pointee.xOpen = { _, name, file, flags, outFlags in
            let result = original.pointee.xOpen(original, name, file, flags, outFlags)
            guard result == SQLITE_OK, let file, let found = file.pointee.pMethods else { return result }
            SyncCounter.watch(file, found, name.map { String(cString: $0) } ?? "")
            return result
        }
        return sqlite3_vfs_register(counting, 1) == SQLITE_OK
    }()

    private static func watch(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ found: UnsafePointer<sqlite3_io_methods>, _ name: String
    ) {
        counts.withLock { $0.names[UInt(bitPattern: file)] = name }
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: found.pointee)
        methods.pointee.xSync = { file, flags in
            let name = SyncCounter.counts.withLock { $0.names[UInt(bitPattern: file)] ?? "" }
            SyncCounter.counts.withLock { $0.syncs[name, default: 0] += 1 }
            return SyncCounter.originalSync.withLock { $0 }?(file, flags) ?? SQLITE_IOERR
        }
        originalSync.withLock { $0 = $0 ?? found.pointee.xSync }
        file.pointee.pMethods = UnsafePointer(methods)
    }

    private static let originalSync = Mutex<(@convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32)?>(
        nil)

    // SQLite's own, immutable once it is registered, and never taken away.
    nonisolated(unsafe) private static let original = sqlite3_vfs_find(nil)!
    // Written before it is registered, then read alone.
    nonisolated(unsafe) private static let counting = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    // Immutable, for the life of the process.
    nonisolated(unsafe) private static let name: UnsafeMutablePointer<CChar> = {
        let text = "counting".utf8CString
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.count)
        for (index, character) in text.enumerated() { copy[index] = character }
        return copy
    }()
}
