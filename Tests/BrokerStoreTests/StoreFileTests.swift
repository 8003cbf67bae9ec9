import BrokerModel
import CSQLite
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// Files at a store's path, and whether they are stores.
@Suite(.timeLimit(.minutes(5))) struct StoreFileTests {
    private static let model =
        #"{"entities": {"Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}"#
    private let folder = TemporaryFolder()
    private var path: String { folder.path("store") }

    /// The reason why opening is refused; opening must have created and changed nothing.
    private func refusal(_ path: String) throws -> StoreError {
        let before = try snapshot()
        let plan = try stagingPlan(Self.model)
        let error = try #require(throws: StoreError.self) { try Store(path: path, plan: plan) }
        let check = try #require(throws: StoreError.self) { try Store.check(path: path, plan: plan) }
        #expect(check.message == error.message)
        #expect(!error.message.contains("\n") && !error.message.contains("SELECT") && !error.message.contains("PRAGMA"))
        #expect(try snapshot() == before)
        return error
    }

    /// The files of the folder and what they hold, but for FIFOs and the memory that SQLite's connections share.
    private func snapshot() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path("")) {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path(name))
            let isFile = attributes[.type] as? FileAttributeType == .typeRegular && !name.hasSuffix("-shm")
            contents[name] = isFile ? try Data(contentsOf: URL(filePath: folder.path(name))) : Data()
        }
        return contents
    }

    @Test func `an impossible path is reported in one line`() throws {
        #expect(try refusal("").message.contains("has no name"))
        #expect(try refusal(":memory:").message.contains("in memory"))
        #expect(try refusal(folder.path("")).message.contains("is a folder"))
        #expect(try refusal(path + "/").message.contains("\(path)/ cannot be reached"))
        #expect(try refusal("/dev/null").message.contains("is a device"))
        mkfifo(path, 0o600)
        #expect(try refusal(path).message.contains("is a FIFO"))
        #expect(try refusal("/nowhere/at/all/store").message.contains("/nowhere/at/all/store cannot be reached"))
        symlink("loop", folder.path("loop"))
        #expect(try refusal(folder.path("loop")).message.contains("symbolic links"))
    }

    @Test func `a file that is no database is reported by its name`() throws {
        try Data(String(repeating: "this is no database\n", count: 100).utf8).write(to: URL(filePath: path))
        let error = try refusal(path)
        #expect(error.code == .unavailable)
        #expect(error.message.contains("The store \(path) is no SQLite database"))
    }

    @Test func `a truncated database is reported by its name`() throws {
        do {
            let store = try Store(path: path, plan: stagingPlan(Self.model))
            withExtendedLifetime(store) {}
        }
        let whole = try Data(contentsOf: URL(filePath: path))
        try (whole.prefix(200) + Data(repeating: 7, count: 5000)).write(to: URL(filePath: path))
        #expect(try refusal(path).message.contains(path))
    }

    @Test(arguments: [
        ("CREATE TABLE Note (text)", "tables Note"),
        ("CREATE TABLE Person (id INTEGER PRIMARY KEY)", "tables Person"),
        ("CREATE TABLE _broker_meta (key, value)", "tables _broker_meta"),
        ("CREATE TABLE _broker_meta (x); CREATE TABLE _broker_jobs (x); PRAGMA application_id = 1", "_broker_jobs"),
        ("PRAGMA application_id = 7; CREATE TABLE _broker_meta (key, value); CREATE TABLE _broker_jobs (id)", "tables"),
        ("PRAGMA application_id = 7", "application id 7"),
        ("CREATE TABLE a (x); CREATE TABLE b (x); CREATE TABLE c (x); CREATE VIEW d AS SELECT 1", "tables a, b, c …"),
    ])
    func `another program's database is refused and stays unchanged`(sql: String, held: String) throws {
        try Connection(store: path).execute(sql)
        let error = try refusal(path)
        #expect(error.code == .incompatible)
        #expect(error.message.contains("not one that Broker made"))
        #expect(error.message.contains(held), "\(error)")
    }

    @Test func `another program's database with a WAL is refused and the WAL stays`() throws {
        let other = try Connection(store: path)
        try other.execute("PRAGMA journal_mode = WAL; CREATE TABLE Note (text)")
        let error = try refusal(path)
        #expect(error.message.contains("tables Note"))
        withExtendedLifetime(other) {}
    }

    @Test func `the refused store of a killed server retains its WAL`() throws {
        let other = TemporaryFolder()
        let killed = try Store(path: other.path("store"), plan: stagingPlan(Self.model))
        try killed.connection.execute("UPDATE _broker_meta SET value = '9' WHERE key = 'formatVersion'")
        for suffix in ["", "-wal", "-shm"] {
            try FileManager.default.copyItem(atPath: other.path("store") + suffix, toPath: path + suffix)
        }
        #expect(try refusal(path).message.contains("newer Broker"))
        withExtendedLifetime(killed) {}
    }

    @Test func `a store bears Broker's mark, its format's version and its model`() throws {
        let store = try Store(path: path, plan: stagingPlan(Self.model))
        #expect(try SQLRows.of("PRAGMA application_id", in: path) == ["1114795883"])
        #expect(StoreFormat.applicationID == "Brok".utf8.reduce(0) { $0 << 8 | Int64($1) })
        #expect(try SQLRows.of("SELECT value FROM _broker_meta WHERE key = 'formatVersion'", in: path) == ["3"])
        #expect(
            try SQLRows.of(
                "SELECT value ->> '$.entities.Person.attributes.name.type' FROM _broker_meta "
                    + "WHERE key = 'model'", in: path) == ["string"])
        withExtendedLifetime(store) {}
    }

    @Test func `a store of a newer format is refused`() throws {
        do { _ = try Store(path: path, plan: stagingPlan(Self.model)) }
        for (version, message) in [("4", "newer Broker: format 4"), ("x", "newer Broker: format x")] {
            try Connection(store: path).execute(
                "UPDATE _broker_meta SET value = '\(version)' WHERE key = 'formatVersion'")
            let error = try refusal(path)
            #expect(error.code == .incompatible)
            #expect(error.message.contains(message))
        }
        try Connection(store: path).execute("DELETE FROM _broker_meta WHERE key = 'formatVersion'")
        #expect(try refusal(path).message.contains("does not state the version of its format"))
    }

    @Test func `a defect's message contains no SQL, and its description for the log does`() throws {
        let connection = try Connection(store: path)
        let error = try #require(throws: StoreError.self) { try connection.execute("SELEKT secret") }
        #expect(error.code == .defect)
        #expect(error.message.contains(path) && !error.message.contains("secret"))
        #expect(error.description.contains("SELEKT secret"))
        try connection.execute("CREATE TABLE t (x UNIQUE); INSERT INTO t VALUES (1)")
        let constraint = try #require(throws: StoreError.self) { try connection.execute("INSERT INTO t VALUES (1)") }
        #expect(constraint.code == .constraint && !constraint.message.contains("INSERT"))
    }

    @Test(arguments: [
        // The model in the store.
        "UPDATE _broker_meta SET value = CAST(zeroblob(70000000) AS TEXT) WHERE key = 'model'",
        // A statement of the schema.
        "PRAGMA writable_schema = ON; "
            + "UPDATE sqlite_schema SET sql = sql || ' /*' || hex(zeroblob(40000000)) || '*/' WHERE name = 'Person'",
    ])
    func `a store with a text that is larger than any of a store is not opened`(sql: String) throws {
        _ = try Store(path: path, plan: stagingPlan(Self.model))
        var handle: OpaquePointer?
        #expect(sqlite3_open(path, &handle) == SQLITE_OK)
        #expect(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle)))")
        sqlite3_close(handle)
        let error = try refusal(path)
        #expect(error.code == .unavailable)
        #expect(error.message.contains("is larger than any that Broker makes"), "\(error.message.prefix(300))")
    }
}

@Suite(.timeLimit(.minutes(5))) struct StoreLockTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("store") }
    private let files = FileManager.default

    private func refusal(_ path: String) throws -> StoreError {
        try #require(throws: StoreError.self) { try StoreLock(storePath: path) }
    }

    @Test func `a second owner is refused with the process of the first`() throws {
        let lock = try StoreLock(storePath: path)
        let error = try refusal(path)
        #expect(error.code == .unavailable)
        #expect(error.message.contains("process \(getpid())"))
        #expect(error.message.contains("another store"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a lock ends with its owner, and another store has another`() throws {
        do {
            let lock = try StoreLock(storePath: path)
            _ = try StoreLock(storePath: folder.path("other"))
            withExtendedLifetime(lock) {}
        }
        _ = try StoreLock(storePath: path)
    }

    @Test func `the lock is the store's, whatever its name`() throws {
        let lock = try StoreLock(storePath: path)
        try files.createDirectory(atPath: folder.path("sub"), withIntermediateDirectories: false)
        try files.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "store")
        try files.createSymbolicLink(atPath: folder.path("sub/link"), withDestinationPath: "../link")
        try files.createSymbolicLink(atPath: folder.path("folder"), withDestinationPath: folder.path(""))
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        let descriptor = open(folder.path("sub"), O_RDONLY)
        defer { close(descriptor) }
        let names = [
            "link", "sub/link", "sub/../store", "./store", "folder/store", "folder/link", "hard",
            "/proc/self/fd/\(descriptor)/../store",
        ]
        for name in names {
            let error = try refusal(name.hasPrefix("/") ? name : folder.path("") + "/" + name)
            #expect(error.message.contains("belongs to another broker, process \(getpid())"), "\(name): \(error)")
        }
        withExtendedLifetime(lock) {}
        #expect(try files.contentsOfDirectory(atPath: folder.path("sub")) == ["link"], "no lock beside a link")
        #expect(!files.fileExists(atPath: folder.path("hard.lock")))
    }

    @Test func `an owner that is refused in the same process does not end SQLite's own locks`() throws {
        let lock = try StoreLock(storePath: path)
        let connection = try Connection(store: path)
        try connection.execute("CREATE TABLE t (x); BEGIN; SELECT * FROM t")
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        // Open until the end: to close it would end SQLite's locks, too. A lock of an open file meets the process's own.
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        let isLocked = {
            var wanted = flock()
            wanted.l_type = Int16(F_WRLCK)
            wanted.l_whence = Int16(SEEK_SET)
            let getOpenFileLock: Int32 = 36  // F_OFD_GETLK, fcntl(2)
            return fcntl(descriptor, getOpenFileLock, &wanted) == 0 && wanted.l_type != Int16(F_UNLCK)
        }
        #expect(isLocked())
        _ = try refusal(folder.path("hard"))
        #expect(isLocked())
        withExtendedLifetime((lock, connection)) {}
    }

    @Test func `a store that is not there yet has one lock, too, through a link that leads to it`() throws {
        try files.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "store")
        let lock = try StoreLock(storePath: folder.path("link"))
        #expect(try refusal(path).message.contains("process"))
        #expect(files.fileExists(atPath: folder.path("store.lock")))
        withExtendedLifetime(lock) {}
    }

    @Test func `a name whose file was replaced is still its owner's`() throws {
        let lock = try StoreLock(storePath: path)
        try files.removeItem(atPath: path)
        try Data().write(to: URL(filePath: path))
        #expect(try refusal(path).message.contains("process"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a store with two names is refused, because its WAL has only one`() throws {
        try Data().write(to: URL(filePath: path))
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        #expect(try refusal(folder.path("hard")).message.contains("hard links"))
        #expect(try files.contentsOfDirectory(atPath: folder.path("")).sorted() == ["hard", "store"])
    }

    @Test func `a file with the lock's name is neither followed nor overwritten`() throws {
        let letter = "a letter of mine\n"
        try letter.write(toFile: folder.path("letter"), atomically: false, encoding: .utf8)
        try files.createSymbolicLink(atPath: folder.path("store.lock"), withDestinationPath: "letter")
        #expect(try refusal(path).message.contains("store.lock is a symbolic link"))
        try files.removeItem(atPath: folder.path("store.lock"))
        try files.linkItem(atPath: folder.path("letter"), toPath: folder.path("store.lock"))
        #expect(try refusal(path).message.contains("no lock file of Broker's"))
        try files.removeItem(atPath: folder.path("store.lock"))
        try letter.write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        #expect(try refusal(path).message.contains("no lock file of Broker's"))
        #expect(try String(contentsOfFile: folder.path("letter"), encoding: .utf8) == letter)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == letter)
        #expect(!files.fileExists(atPath: path))
    }

    @Test(arguments: ["", "\0\0\0\0\0", "12345678\0\0"])
    func `a lock file that a power failure has left is taken over`(content: String) throws {
        try content.write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        let lock = try StoreLock(storePath: path)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == "\(getpid())\n")
        withExtendedLifetime(lock) {}
    }

    @Test func `the lock file of one that was killed is taken over`() throws {
        try "1234567890\n".write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        let lock = try StoreLock(storePath: path)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == "\(getpid())\n")
        withExtendedLifetime(lock) {}
    }

    @Test func `files of a failed start are deleted, and existing files stay`() throws {
        let lock = try StoreLock(storePath: path)
        lock.abandon()
        #expect(try files.contentsOfDirectory(atPath: folder.path("")) == [])
        try Data("x".utf8).write(to: URL(filePath: folder.path("there")))
        try StoreLock(storePath: folder.path("there")).abandon()
        #expect(try files.contentsOfDirectory(atPath: folder.path("")) == ["there"])
        withExtendedLifetime(lock) {}
    }

    @Test func `a missing folder is reported with the store's path`() throws {
        #expect(try refusal("/nowhere/at/all/store").message.contains("/nowhere/at/all/store"))
    }

    private func mode(_ suffix: String) throws -> UInt32 {
        var status = stat()
        try #require(lstat(path + suffix, &status) == 0)
        return status.permissions
    }

    @Test func `new files have the requested mode, and existing ones retain theirs until it is set`() throws {
        do {
            let lock = try StoreLock(storePath: path, mode: 0o666)
            #expect(try [mode(""), mode(".lock")] == [0o666, 0o666])
            withExtendedLifetime(lock) {}
        }
        let lock = try StoreLock(storePath: path, mode: 0o600)
        #expect(try [mode(""), mode(".lock")] == [0o666, 0o666])
        let connection = try Connection(store: path)
        try connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        #expect(try [mode("-wal"), mode("-shm")] == [0o666, 0o666])
        try lock.setMode(0o600)
        #expect(try ["", ".lock", "-wal", "-shm"].map(mode) == [0o600, 0o600, 0o600, 0o600])
        withExtendedLifetime((lock, connection)) {}
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files away and use them all the same"))
    func `root can set the mode of another user's store`() throws {
        do { _ = try StoreLock(storePath: path) }
        #expect(chown(path, 65_534, 65_534) == 0)
        let lock = try StoreLock(storePath: path, mode: 0o600)
        try lock.setMode(0o600)
        #expect(try mode("") == 0o600)
    }
}

/// A store whose files are deleted, moved or replaced while it is open: nothing more is acknowledged.
@Suite(.timeLimit(.minutes(5))) struct StoreLossTests {
    private let store: TestStore
    private let files = FileManager.default

    init() throws {
        store = try TestStore(#"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try store.apply(#"{"Row": {"id": 1}}"#)
    }

    private func lossIsNoticed(_ what: String, _ name: String) throws {
        for id in 2...3 {
            let error = try #require(throws: StoreError.self) { try store.apply("{\"Row\": {\"id\": \(id)}}") }
            #expect(error.code == .unavailable)
            #expect(error.message.contains("\(name) was \(what)"), "\(error)")
        }
        #expect(store.store.connection.isAutocommit, "nothing is left open")
        #expect(throws: StoreError.self) { try store.store.checkpoint() }
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is deleted is noticed before the next COMMIT`(suffix: String) throws {
        try files.removeItem(atPath: store.path + suffix)
        try lossIsNoticed("deleted or moved", store.path + suffix)
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is replaced is noticed before the next COMMIT`(suffix: String) throws {
        let path = store.path + suffix
        try files.copyItem(atPath: path, toPath: store.folder.path("copy"))
        rename(store.folder.path("copy"), path)
        try lossIsNoticed("replaced by another file", path)
    }

    @Test func `a store that is moved away and back is not used again`() throws {
        rename(store.path, store.folder.path("elsewhere"))
        try lossIsNoticed("deleted or moved", store.path)
        rename(store.folder.path("elsewhere"), store.path)
        try lossIsNoticed("deleted or moved", store.path)
        try store.reopen()
        try store.apply(#"{"Row": {"id": 4}}"#)
        #expect(try store.rows("SELECT id FROM Row") == ["1", "4"])
    }

    @Test func `a symbolic link that leads elsewhere is noticed`() throws {
        let link = store.folder.path("link")
        try files.createSymbolicLink(atPath: link, withDestinationPath: "store.sqlite")
        let linked = try Store(path: link, plan: store.plan)
        try linked.begin()
        try linked.commit()
        try files.removeItem(atPath: link)
        try files.createSymbolicLink(atPath: link, withDestinationPath: "other")
        try linked.begin()
        #expect(throws: StoreError.self) { try linked.commit() }
        linked.rollback()
    }
}

/// A store that reaches its limit refuses what does not fit, and goes on.
@Suite(.timeLimit(.minutes(5))) struct StoreFullTests {
    private let store: TestStore

    init() throws {
        store = try TestStore(
            #"{"entities": {"Blob": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
        ) { $0.maximumPages = 40 }
    }

    private func blob(_ id: Int, kibibytes: Int) -> String {
        "{\"Blob\": {\"id\": \(id), \"text\": \"\(String(repeating: "x", count: kibibytes << 10))\"}}"
    }

    @Test func `a job that does not fit is refused as full and leaves nothing`() throws {
        try store.apply(blob(1, kibibytes: 8), id: "fits")
        let error = try #require(throws: StoreError.self) { try store.apply(blob(2, kibibytes: 400), id: "large") }
        #expect(error.code == .full)
        #expect(try store.rows("SELECT id, length(text) FROM Blob") == ["1|8192"])
        #expect(try store.store.outcome(ofJob: "large") == nil)
        try store.apply(blob(3, kibibytes: 8), id: "after")
        #expect(try store.rows("SELECT id FROM Blob") == ["1", "3"])
        #expect(try store.isSound())
    }

    @Test func `a transaction that SQLite rolled back is reported, and the next one begins normally`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(blob(1, kibibytes: 8)))
        #expect(throws: StoreError.self) { try store.store.apply(store.job(blob(2, kibibytes: 400))) }
        store.store.rollback()
        #expect(store.store.connection.isAutocommit)
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["0"])
        try store.apply(blob(3, kibibytes: 8))
        #expect(try store.rows("SELECT id FROM Blob") == ["3"])
    }

    @Test func `a store filled to the brim takes what makes room, and then more`() throws {
        var id = 0
        #expect(throws: StoreError.self) {
            while true {
                id += 1
                try store.apply(blob(id, kibibytes: 8))
            }
        }
        #expect(id > 5)
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["\(id - 1)"])
        try store.apply("{\"Blob\": [\((1...5).map { #"{"id": \#($0), "text": ""}"# }.joined(separator: ","))]}")
        try store.apply(blob(id, kibibytes: 8))
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["\(id)"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct SQLiteLibraryTests {
    @Test func `the library of this machine works`() throws {
        try SQLiteLibrary.check()
    }

    @Test func `an older library is refused with the version that is needed`() throws {
        let error = try #require(throws: StoreError.self) {
            try SQLiteLibrary.check(version: 3_037_002, name: "3.37.2")
        }
        #expect(error.code == .unavailable)
        #expect(
            error.message
                == "The SQLite library has version 3.37.2, and Broker needs 3.38.0 or later. Install another libsqlite3, as "
                + "Debian 12 has it, and start again; nothing was touched.")
    }

    @Test func `a library without the preupdate hook is refused`() throws {
        let error = try #require(throws: StoreError.self) {
            try SQLiteLibrary.check(version: 3_046_001, name: "3.46.1", hasPreupdateHook: false)
        }
        #expect(error.message.contains("(version 3.46.1) was built without SQLITE_ENABLE_PREUPDATE_HOOK"))
    }
}

/// A closed store can be read while another process opens it; a backup opens where nothing can be written beside it.
@Suite(.timeLimit(.minutes(5))) struct JournalModeTests {
    private static let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    /// The format versions for writing and reading: 1 without a WAL, 2 with one (sqlite.org/fileformat2.html, 1.3).
    private func versions(_ path: String) throws -> [UInt8] {
        try Array(Data(contentsOf: URL(filePath: path))[18..<20])
    }

    private func files(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path("")).sorted()
    }

    @Test func `a store that was closed is one file in WAL mode`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"A": {"id": 1}}"#)
        let path = store.folder.path("closed")
        do {
            let open = try Store(path: path, plan: store.plan)
            try open.checkpoint()
        }
        #expect(try versions(path) == [2, 2])
        #expect(try files(store.folder).filter { $0.hasPrefix("closed") } == ["closed"])
        #expect(try SQLRows.of("SELECT count(*) FROM A", in: path) == ["0"])
    }

    @Test func `a reader's open transaction keeps no one from opening, writing and closing the store`() throws {
        let test = try TestStore(Self.model)
        let path = test.folder.path("read")
        do { try Store(path: path, plan: test.plan).checkpoint() }
        let reader = try Connection(store: path, .read)
        try reader.execute("BEGIN; SELECT count(*) FROM A")
        for number in 1...3 {
            let store = try Store(path: path, plan: test.plan)
            try store.begin()
            _ = try store.apply(test.job("{\"A\": {\"id\": \(number)}}"))
            try store.commit()
            try store.checkpoint()
        }
        #expect(try reader.integer("SELECT count(*) FROM A") == 0)
        try reader.execute("COMMIT")
        #expect(try reader.integer("SELECT count(*) FROM A") == 3)
    }

    @Test func `a store whose files were replaced is not touched when it is closed`() throws {
        let store = try TestStore(Self.model)
        try FileManager.default.moveItem(atPath: store.path, toPath: store.folder.path("moved"))
        try Data("other".utf8).write(to: URL(filePath: store.path))
        #expect(throws: StoreError.self) { try store.store.checkpoint() }
        #expect(try versions(store.folder.path("moved")) == [2, 2])
        #expect(try Data(contentsOf: URL(filePath: store.path)) == Data("other".utf8))
    }

    @Test func `a backup is not in WAL mode`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"A": {"id": 1}}"#)
        let copy = store.folder.path("copy.sqlite")
        #expect(try StoreBackup(of: store.path, to: copy).run()?.sequence == 1)
        #expect(try versions(copy) == [1, 1])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: copy) == ["ok"])
        #expect(try SQLRows.of("SELECT id FROM A", in: copy) == ["1"])
    }
}

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
