import Foundation
import Testing
import TestSupport

@testable import BrokerStore

/// Backups put in the place of a store.
@Suite(.timeLimit(.minutes(5))) struct StoreRestoreTests {
    private static let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
    private let folder = TemporaryFolder()
    private let files = FileManager.default
    private var store: String { folder.path("store.sqlite") }
    private var copy: String { folder.path("copy") }

    /// Makes a store of three jobs, a backup of it, and two more jobs.
    init() throws {
        let open = try Store(path: store, plan: stagingPlan(Self.model))
        let template = try TestStore(Self.model)
        func apply(_ numbers: ClosedRange<Int>) throws {
            for number in numbers {
                try open.begin()
                template.nextSequence = Int64(number)
                _ = try open.apply(template.job(#"{"Row": [{"id": \#(number)}]}"#, id: "job-\(number)"))
                try open.commit()
            }
        }
        try apply(1...3)
        _ = try StoreBackup(of: store, to: copy).run()
        try apply(4...5)
    }

    private func restore(_ backup: String? = nil) -> StoreRestore {
        StoreRestore(of: backup ?? copy, to: store, time: "20261125T213000Z")
    }

    private var names: [String] { get throws { try files.contentsOfDirectory(atPath: folder.path("")).sorted() } }

    private func opened() throws -> Store { try Store(path: store, plan: stagingPlan(Self.model)) }

    @Test func `the jobs after the backup are counted and named, and the store is not changed by that`() throws {
        let survey = try restore().survey()
        #expect(survey.sequence == 3)
        #expect(survey.replaced?.forgottenJobs == 2)
        #expect(survey.replaced?.forgottenIDs == ["job-5", "job-4"])
        #expect(!survey.hasJournal)
        #expect(try opened().outcome(ofJob: "job-5") != nil)
    }

    @Test func `a restored store has the backup's objects and ids, and the replaced one stays under another name`()
        throws
    {
        let outcome = try restore().run()
        #expect(outcome.replacedPath?.hasSuffix("/store.sqlite.replaced-20261125T213000Z") == true)
        let left = try names
        #expect(
            left == ["copy", "store.sqlite", "store.sqlite.replaced-20261125T213000Z"], "\(left)")
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["3"])
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: outcome.replacedPath ?? "") == ["5"])
        let restored = try opened()
        #expect(try restored.outcome(ofJob: "job-3") != nil && restored.outcome(ofJob: "job-4") == nil)
    }

    @Test func `no sequence is given twice, and each follower of the replaced store learns that it must begin again`()
        throws
    {
        _ = try restore().run()
        let restored = try opened()
        #expect(try restored.lastSequence() == 6)
        let reader = try FeedReader(path: store)
        let selection = FeedSelection(entities: ["Row"], wantsKeys: false, asker: JobOwner(user: 0))
        for position in 0...5 {
            #expect(try reader.part(after: Int64(position), selection) == nil, "\(position)")
        }
        #expect(try reader.bounds() == FeedReader.Bounds(oldest: 6, newest: 6))
    }

    @Test func `deleting old outcomes of a restored store does not let the feed begin earlier`() throws {
        _ = try restore().run()
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 1, seconds: 1)
        let template = try TestStore(Self.model)
        let restored = try Store(path: store, plan: stagingPlan(Self.model), options: options)
        for sequence in 7...9 {
            try restored.begin()
            template.nextSequence = Int64(sequence)
            _ = try restored.apply(template.job(#"{"Row": [{"id": 1}]}"#, now: Int64(sequence) * 1_000_000))
            try restored.commit()
        }
        #expect(try FeedReader(path: store).bounds().oldest >= 6)
    }

    @Test func `a restored store has the mode and the owner of the one that it replaces, and is in WAL mode`() throws {
        chmod(store, 0o606)
        chmod(copy, 0o640)
        let other: (user: uid_t, group: gid_t) = geteuid() == 0 ? (65_534, 65_533) : (geteuid(), getegid())
        chown(store, other.user, other.group)
        _ = try restore().run()
        var status = stat()
        #expect(stat(store, &status) == 0)
        #expect(status.st_mode & 0o7777 == 0o606 && status.st_uid == other.user && status.st_gid == other.group)
        #expect(try Array(Data(contentsOf: URL(filePath: store))[18..<20]) == [2, 2])
    }

    @Test func `a WAL whose database is gone does not become that of the restored store`() throws {
        let open = try opened()
        let template = try TestStore(Self.model)
        try open.begin()
        template.nextSequence = 6
        _ = try open.apply(template.job(#"{"Row": [{"id": 6}]}"#, id: "job-6"))
        try open.commit()
        rename(store, folder.path("moved"))
        #expect(throws: StoreError.self) { try open.checkpoint() }
        _ = try restore().run()
        #expect(try SQLRows.of("PRAGMA integrity_check", in: store) == ["ok"])
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["3"])
        #expect(try names.contains("store.sqlite.replaced-20261125T213000Z-wal"))
    }

    @Test func `the journal of the replaced store goes with it`() throws {
        try files.createDirectory(atPath: store + ".journal", withIntermediateDirectories: false)
        let outcome = try restore().run()
        #expect(outcome.survey.hasJournal)
        #expect(try names.contains("store.sqlite.replaced-20261125T213000Z.journal"))
        #expect(try !names.contains("store.sqlite.journal"))
    }

    @Test func `a store that is missing, and one that is no database, are replaced`() throws {
        try Data("no database at all, but a file".utf8).write(to: URL(fileURLWithPath: store))
        let fault = try restore().run().survey.replaced?.fault
        #expect(fault?.contains("no SQLite database") == true)
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["3"])
        try files.removeItem(atPath: store)
        #expect(try restore().run().replacedPath == nil)
        // Another restore of the same second does not overwrite the first replaced store.
        #expect(try restore().run().replacedPath?.hasSuffix(".replaced-20261125T213000Z-2") == true)
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["3"])
    }

    @Test func `a damaged backup, and one that is no store, leave everything as it was`() throws {
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: copy))
        let bytes = try handle.seekToEnd()
        try handle.seek(toOffset: bytes - 8_192)
        try handle.write(contentsOf: Data(repeating: 0xFF, count: 8_192))
        try handle.close()
        let before = try names
        #expect(throws: StoreError.self) { try restore().run() }
        #expect(throws: StoreError.self) { try restore(folder.path("absent")).run() }
        #expect(try names == before)
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["5"])
    }

    @Test func `a store in use is not replaced`() throws {
        let lock = try StoreLock(storePath: store)
        defer { withExtendedLifetime(lock) {} }
        let error = try #require(throws: StoreError.self) { try restore().run() }
        #expect(error.message.contains("belongs to another broker"), "\(error.message)")
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: store) == ["5"])
    }

    @Test func `a sound backup has no faults, and a link to nothing is one`() throws {
        #expect(try StoreVerification.faults(of: copy) == [])
        try Connection(store: copy).execute(
            "CREATE TABLE b (a REFERENCES Row (id)); PRAGMA foreign_keys = OFF; INSERT INTO b VALUES (99)")
        #expect(try StoreVerification.faults(of: copy).first?.contains("link to no row of Row") == true)
    }
}
