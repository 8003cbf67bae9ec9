@testable import BrokerSchema
import CSQLite
import Foundation
import Testing
import TestSupport

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
