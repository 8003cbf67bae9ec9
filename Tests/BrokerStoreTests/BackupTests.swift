import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// Copies of a store made beside its writer.
@Suite(.timeLimit(.minutes(5))) struct StoreBackupTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
    private let store: TestStore
    private let folder = TemporaryFolder()
    private let files = FileManager.default

    init() throws {
        store = try TestStore(Self.model) { $0.synchronous = .off }
    }

    private func write(_ ids: Range<Int>, bytes: Int = 100) throws {
        let text = String(repeating: "x", count: bytes)
        let rows = ids.map { "{\"id\": \($0), \"text\": \"\(text)\"}" }.joined(separator: ", ")
        try store.apply("{\"Row\": [\(rows)]}")
    }

    private func backup(_ name: String = "copy", replaces: Bool = false) -> StoreBackup {
        StoreBackup(of: store.path, to: folder.path(name), replaces: replaces)
    }

    private var names: [String] { get throws { try files.contentsOfDirectory(atPath: folder.path("")).sorted() } }

    /// The reason why the backup was refused; it must leave no file.
    private func refusal(_ backup: StoreBackup) throws -> StoreError {
        let before = try names
        let error = try #require(throws: StoreError.self) { try backup.run() }
        #expect(try names == before)
        return error
    }

    @Test func `a copy is the state after one COMMIT, whatever is committed while it is made`() throws {
        for id in 0..<40 { try write(id * 100..<(id + 1) * 100, bytes: 1_000) }
        var committed = 40
        var steps = 0
        let copy = try backup().run(progress: { progress in
            steps += 1
            #expect(progress.pages <= progress.ofPages)
            do { try write(committed * 100..<(committed + 1) * 100, bytes: 1_000) } catch { Issue.record(error) }
            committed += 1
        })
        #expect(steps > 1)
        #expect(copy == StoreBackup.Copy(sequence: 40, bytes: fileSize(folder.path("copy")) ?? -1))
        #expect(try SQLRows.of("SELECT count(*), max(id) FROM Row", in: folder.path("copy")) == ["4000|3999"])
        #expect(try store.rows("SELECT count(*) FROM Row") == ["\(committed * 100)"])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: folder.path("copy")) == ["ok"])
        #expect(try SQLRows.of("SELECT max(sequence) FROM _broker_jobs", in: folder.path("copy")) == ["40"])
    }

    @Test func `a copy is one file with the store's mode, and continues as a store after the reserved sequences`()
        throws
    {
        try write(0..<10)
        let newest = try store.store.openSequences(1_000)
        #expect(chmod(store.path, 0o604) == 0)
        let copy = try backup().run()
        #expect(copy?.sequence == 1)
        #expect(try names == ["copy"])
        var status = stat()
        #expect(stat(folder.path("copy"), &status) == 0 && status.permissions == 0o604)
        let restored = try Store(path: folder.path("copy"), plan: store.plan)
        #expect(restored.migration.changes.isEmpty)
        #expect(try restored.lastSequence() == newest + 1_000)
        #expect(try restored.outcome(ofJob: "job-1")?.sequence == 1)
    }

    @Test func `an empty store has a copy, too`() throws {
        #expect(try backup().run()?.sequence == 0)
        _ = try Store(path: folder.path("copy"), plan: store.plan)
    }

    @Test func `a cancelled backup leaves no file, at any step`() throws {
        try write(0..<3_000, bytes: 3_000)
        for steps in 0..<5 {
            var left = steps
            let copy = try backup().run(isWanted: {
                left -= 1
                return left >= 0
            })
            #expect(copy == nil)
            #expect(try names == [])
        }
    }

    @Test func `an existing file stays, unless it is to be replaced`() throws {
        try Data("mine".utf8).write(to: URL(fileURLWithPath: folder.path("copy")))
        let error = try refusal(backup())
        #expect(error.message.contains("copy is there already") && error.message.contains("have it replaced"))
        #expect(try refusal(backup(replaces: true)).message.contains("no SQLite database"))
        #expect(try String(contentsOfFile: folder.path("copy"), encoding: .utf8) == "mine")
        for old in [Data(), Data("SQLite format 3\0 and more".utf8)] {
            try old.write(to: URL(fileURLWithPath: folder.path("copy")))
            #expect(try backup(replaces: true).run() != nil)
        }
        #expect(try names == ["copy"])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: folder.path("copy")) == ["ok"])
    }

    @Test func `a file in the way is reported before anything is copied, and the store itself is never replaced`()
        throws
    {
        _ = files.createFile(atPath: folder.path("copy"), contents: nil)
        var steps = 0
        #expect(throws: StoreError.self) { try backup().run(progress: { _ in steps += 1 }) }
        #expect(steps == 0)
        try files.removeItem(atPath: folder.path("copy"))
        #expect(link(store.path, folder.path("copy")) == 0)
        #expect(try refusal(backup(replaces: true)).message.contains("is the store itself"))
        #expect(FileIdentity(ofFileAt: folder.path("copy")) == FileIdentity(ofFileAt: store.path))
    }

    @Test func `a file that appears while the copy is made stays`() throws {
        let error = try #require(throws: StoreError.self) {
            try backup().run(progress: { _ in _ = files.createFile(atPath: folder.path("copy"), contents: nil) })
        }
        #expect(error.message.contains("is there already"))
        #expect(try names == ["copy"])
    }

    @Test func `a file that appears while the copy is made is not replaced if it is no database`() throws {
        let file = folder.path("copy")
        let error = try #require(throws: StoreError.self) {
            try backup(replaces: true).run(progress: { _ in
                _ = files.createFile(atPath: file, contents: Data("mine".utf8))
            })
        }
        #expect(error.message.contains("no SQLite database"))
        #expect(try names == ["copy"])
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "mine")
    }

    @Test func `a store that is in use is not replaced`() throws {
        let other = folder.path("other")
        do { _ = try Store(path: other, plan: store.plan) }
        let lock = try StoreLock(storePath: other)
        let error = try refusal(backup("other", replaces: true))
        withExtendedLifetime(lock) {}
        #expect(error.message.contains("is a store in use"))
    }

    @Test(arguments: ["-wal", "-shm", "-journal"])
    func `a file that SQLite would use as the copy's WAL is reported`(suffix: String) throws {
        _ = files.createFile(atPath: folder.path("copy" + suffix), contents: nil)
        #expect(try refusal(backup()).message.contains("copy\(suffix)"))
    }

    @Test func `an invalid path for a copy is reported, and nothing is written`() throws {
        try files.createDirectory(atPath: folder.path("folder"), withIntermediateDirectories: false)
        try files.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "nowhere")
        for (file, words) in [
            ("", "no file's name"), ("\(folder.path("x"))\0y", "no file's name"),
            (folder.path("folder/"), "is a folder"),
            (folder.path("folder"), "is a folder"), (folder.path("link"), "is a symbolic link"),
            (folder.path("missing/copy"), "No such file or directory"), ("/dev/null/copy", "Not a directory"),
            (store.path, "belongs to the store"), (store.path + "-wal", "belongs to the store"),
            (store.path + "-journal", "belongs to the store"), (store.path + ".lock", "belongs to the store"),
            (store.path + ".journal", "belongs to the store"),
            ("/proc/copy", "cannot be backed up"),
        ] {
            let error = try refusal(StoreBackup(of: store.path, to: file, replaces: true))
            #expect(error.message.contains(words), "\(error)")
        }
    }

    @Test(.enabled(if: geteuid() != 0, "root may write anywhere"))
    func `a folder without write permission is reported`() throws {
        #expect(chmod(folder.path(""), 0o500) == 0)
        defer { chmod(folder.path(""), 0o700) }
        let error = try refusal(backup())
        #expect(error.message.contains("Permission denied") && error.message.contains("write that folder"))
    }

    @Test func `a full disk is reported as such, and leaves no file`() throws {
        try write(0..<1_000, bytes: 1_000)
        var backup = backup()
        backup.maximumPages = 10
        let error = try refusal(backup)
        #expect(error.code == .full)
        #expect(error.message.contains("Free some space"))
    }

    @Test func `files of a killed backup are deleted, and files of other programs stay`() throws {
        let others = [
            "copy.partial", "copy.partial-", "copy.partial-0123456789abcde", "copy.partial-0123456789abcdeF",
            "copy.partial-0123456789abcdef0", "other.partial-0123456789abcdef",
        ]
        let database = Data("SQLite format 3\0 and more".utf8)
        for name in others { try database.write(to: URL(fileURLWithPath: folder.path(name))) }
        for left in [Data(), database, Data(count: 100_000)] {
            try left.write(to: URL(fileURLWithPath: folder.path("copy.partial-0123456789abcdef")))
            #expect(try backup(replaces: true).run() != nil)
            #expect(try names == (others + ["copy"]).sorted())
        }
        for name in others { #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path(name))) == database) }
    }

    @Test func `no file of the store, its lock or its journal is replaced, whatever its name is`() throws {
        let location = try StoreFile(path: store.path).location
        let journal = location + ".journal"
        try files.createDirectory(atPath: journal, withIntermediateDirectories: false)
        let segment = journal + "/0000000000000001.jobs"
        try Data("BrokerJ2 and more".utf8).write(to: URL(fileURLWithPath: segment))
        defer { try? files.removeItem(atPath: journal) }
        try files.createSymbolicLink(atPath: folder.path("journal"), withDestinationPath: journal)
        let beside = (location as NSString).deletingLastPathComponent
        try files.createSymbolicLink(atPath: folder.path("beside"), withDestinationPath: beside)
        #expect(link(segment, folder.path("segment")) == 0)
        let name = (location as NSString).lastPathComponent
        for target in [
            segment, journal + "/copy", folder.path("journal/copy"), folder.path("segment"), journal,
            folder.path("beside/\(name)"), folder.path("beside/\(name).lock"), folder.path("beside/\(name)-journal"),
            folder.path("beside/\(name).journal"),
        ] {
            _ = try refusal(StoreBackup(of: store.path, to: target, replaces: true))
            let remaining = try files.contentsOfDirectory(atPath: journal)
            #expect(remaining == ["0000000000000001.jobs"], "\(target)")
            #expect(try String(contentsOfFile: segment, encoding: .utf8) == "BrokerJ2 and more", "\(target)")
        }
    }

    @Test func `a store whose name ends with that of a partial file is not overwritten`() throws {
        let path = folder.path("copy.partial")
        do { _ = try Store(path: path, plan: store.plan) }
        let identity = FileIdentity(ofFileAt: path)
        #expect(try StoreBackup(of: path, to: folder.path("copy")).run() != nil)
        #expect(FileIdentity(ofFileAt: path) == identity)
        #expect(try SQLRows.of("PRAGMA integrity_check", in: path) == ["ok"])
    }

    @Test func `two backups to one file do not meet`() throws {
        var isTried = false
        let copy = try backup().run(progress: { _ in
            guard !isTried else { return }
            isTried = true
            let error = #expect(throws: StoreError.self) { try backup().run() }
            #expect(error?.message.contains("being written by another backup") == true)
        })
        #expect(isTried && copy != nil)
        #expect(try names == ["copy"])
    }
}

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
        #expect(left == ["copy", "store.sqlite", "store.sqlite.replaced-20261125T213000Z"], "\(left)")
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
        for position in 0...5 { #expect(try reader.part(after: Int64(position), selection) == nil, "\(position)") }
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
