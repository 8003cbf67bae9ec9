internal import BrokerJSON
package import BrokerModel
package import BrokerSQLite

/// How a database is recognized as a store, and of which version.
///
/// Its header has ``applicationID``, which `file(1)` and every SQLite tool can read; `_broker_meta` has the version of
/// the format and the model in force.
package enum StoreFormat {
    /// "Brok" in ASCII, 0x42726F6B: SQLite's `application_id` (sqlite.org/fileformat2.html, offset 68).
    package static let applicationID: Int64 = 0x4272_6F6B
    /// Rises when an older version of Broker would misread a store.
    package static let version: Int64 = 3
    /// That of another program's database, so that a Broker that does not support these refuses it.
    package static let foreignVersion: Int64 = 2

    package enum Kind {
        case new
        /// A store of this version, with the text of the model in force. `held` is the effective model, with the retained parts of
        /// earlier models; nil when nothing is retained.
        case store(model: String, held: String?)
        /// Another program's database, to which Broker applies jobs if the model fits its tables. `isMarked`: it did so before.
        case foreign(isMarked: Bool)
    }

    /// - Throws: ``StoreError`` `incompatible` when the database belongs to another program, or to a newer Broker.
    package static func kind(of connection: Connection, path: String) throws(StoreError) -> Kind {
        let id = try connection.integer("PRAGMA application_id") ?? 0
        let tables = try tables(of: connection)
        if tables.isEmpty, id == 0 { return .new }
        let isMarked = id == applicationID
        if !isMarked, !tables.isEmpty, !tables.contains(where: { $0.hasPrefix("_broker_") }) {
            return .foreign(isMarked: false)
        }
        if !isMarked, try isForeign(connection, tables) {
            try checkVersion(StoreMeta(connection: connection).value(of: .formatVersion), foreignVersion, path)
            return .foreign(isMarked: true)
        }
        guard isMarked, ["_broker_jobs", "_broker_meta"].allSatisfy(tables.contains) else {
            throw StoreError(
                .incompatible,
                "\(path) is a database, but not one that Broker made (\(describe(id, tables))). Name another file for the "
                    + "store; nothing was touched.")
        }
        let meta = StoreMeta(connection: connection)
        let version = try meta.value(of: .formatVersion)
        if version != nil { try checkVersion(version, Self.version, path) }
        guard version != nil, let model = try meta.value(of: .model) else {
            throw StoreError(
                .incompatible,
                "The store \(path) does not state the version of its format and its model, so it is damaged. Put a good "
                    + "copy in its place; nothing was touched.")
        }
        return .store(model: model, held: try meta.value(of: .heldModel))
    }

    /// The model in force of a store, or of another program's database that Broker has opened; nil for any other.
    package static func modelInForce(of connection: Connection, path: String) throws(StoreError) -> String? {
        switch try kind(of: connection, path: path) {
        case .store(let model, _): model
        case .foreign(isMarked: true): try StoreMeta(connection: connection).value(of: .model)
        case .new, .foreign(isMarked: false): nil
        }
    }

    private static func checkVersion(_ text: String?, _ known: Int64, _ path: String) throws(StoreError) {
        let number = text.flatMap { Int64($0) }
        if number == known { return }
        throw StoreError(
            .incompatible,
            "The store \(path) is of \(number ?? .max < known ? "an earlier" : "a newer") Broker: format "
                + "\(text ?? "unknown"), and this one knows \(known). Use that Broker; nothing was touched.")
    }

    /// Whether Broker has opened the database before, without having made it.
    package static func isForeign(_ connection: Connection) throws(StoreError) -> Bool {
        try isForeign(connection, tables(of: connection))
    }

    private static func isForeign(_ connection: Connection, _ tables: [String]) throws(StoreError) -> Bool {
        guard ["_broker_jobs", "_broker_meta"].allSatisfy(tables.contains) else { return false }
        do throws(StoreError) {
            return try StoreMeta(connection: connection).value(of: .tables) == StoreMeta.foreign
        } catch {
            // The table of that name is not Broker's.
            guard error.code == .defect else { throw error }
            return false
        }
    }

    /// The contents of a database that another program made, for messages.
    package static func contents(of connection: Connection) throws(StoreError) -> String {
        describe(try connection.integer("PRAGMA application_id") ?? 0, try tables(of: connection))
    }

    private static func describe(_ id: Int64, _ tables: [String]) -> String {
        let named = tables.prefix(3).joined(separator: ", ") + (tables.count > 3 ? " …" : "")
        return tables.isEmpty ? "application id \(id)" : "tables \(named)"
    }

    private static func tables(of connection: Connection) throws(StoreError) -> [String] {
        try connection.texts(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "ORDER BY name"
        ).map { $0[0] }
    }
}

/// Single facts about a store, in its table `_broker_meta`.
package struct StoreMeta {
    package enum Key: String {
        case formatVersion, model, heldModel
        /// The owner of the tables that the model names: ``foreign``, or absent where Broker made them.
        case tables
        /// The journal whose jobs are applied to the store, and the position reached (`StateDigest.text`).
        case log, logApplied
        /// The fingerprint under which the journal accepted jobs (`ApplicationFingerprint.text`), and the limits in force.
        case fingerprint, limits
        /// The servers that share its log, and why this store takes no more entries of it.
        case replicas, halt
        /// In a table without a mark of its own, no row key up to this one is assigned again.
        case rowKeys
        /// The lines of the ledger up to this sequence may have been deleted; absent while none was.
        case forgotten
        /// No sequence up to this one is given to another job.
        case reservedSequence
        /// When the newest backup was done, in milliseconds since 1970; absent while none was.
        case backedUpAt
    }

    package static let foreign = "foreign"

    package let connection: Connection

    package init(connection: Connection) { self.connection = connection }

    package func value(of key: Key) throws(StoreError) -> String? { try value(key.rawValue) }

    package func set(_ key: Key, to value: String?) throws(StoreError) { try set(key.rawValue, to: value) }

    private func value(_ key: String) throws(StoreError) -> String? {
        let statement = try connection.prepare("SELECT value FROM _broker_meta WHERE key = ?1", key)
        return try statement.step() ? statement.text(0) : nil
    }

    private func set(_ key: String, to value: String?) throws(StoreError) {
        guard let value else {
            return try connection.prepare("DELETE FROM _broker_meta WHERE key = ?1", key).run()
        }
        let statement = try connection.prepare(
            "INSERT INTO _broker_meta (key, value) VALUES (?1, ?2) "
                + "ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value", key)
        statement.bind(value, at: 2)
        try statement.run()
    }

    // MARK: - Row keys

    private static let rowKeyPrefix = "rowKeys "

    /// The newest row key that was assigned in a table; nil when the table has no mark.
    package func newestRowKey(of table: String) throws(StoreError) -> Int64? {
        try value(Self.rowKeyPrefix + table).flatMap { Int64($0) }
    }

    package func set(newestRowKey key: Int64, of table: String) throws(StoreError) {
        try set(Self.rowKeyPrefix + table, to: String(key))
    }

    /// Called before tables are renamed: the largest mark becomes that of every table.
    package func uniteRowKeys() throws(StoreError) {
        let marks = "substr(key, 1, \(Self.rowKeyPrefix.utf8.count)) = '\(Self.rowKeyPrefix)'"
        let newest = try connection.integer("SELECT max(CAST(value AS INTEGER)) FROM _broker_meta WHERE \(marks)") ?? 0
        let before = try value(of: .rowKeys).flatMap { Int64($0) } ?? 0
        if newest > before { try set(.rowKeys, to: String(newest)) }
        try connection.execute("DELETE FROM _broker_meta WHERE \(marks)")
    }
}

extension Model {
    /// The text in the store: the resolved form, which ``ModelReader`` reads as the same model.
    package var text: String {
        var writer = JSONWriter()
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// The tables of the ledger and of single facts about a store, which Broker adds to every database.
package enum LedgerTables {
    private static let tables = [
        """
        CREATE TABLE IF NOT EXISTS "_broker_jobs" (
            /* Broker's: the jobs that ended */
            "sequence" INTEGER PRIMARY KEY /* position in the order of commits */,
            "id" TEXT NOT NULL /* given by the client */,
            "hash" BLOB /* of the job's content */,
            "failed" INTEGER NOT NULL /* boolean: 0 or 1 */,
            "ended" INTEGER NOT NULL /* time in milliseconds since 1970-01-01 UTC */,
            "outcome" TEXT NOT NULL /* JSON */,
            "owner" INTEGER /* number of the user who sent it */
        )
        """,
        // It contains only failed jobs, so that completed ones cost nothing.
        """
        CREATE INDEX IF NOT EXISTS "_broker_failures" ON "_broker_jobs" ("sequence", "owner", "ended") WHERE "failed" = 1
        """,
        """
        CREATE TABLE IF NOT EXISTS "_broker_meta" (
            /* Broker's: facts about the store, as the model in force */
            "key" TEXT PRIMARY KEY,
            "value" TEXT NOT NULL
        )
        """,
        // One row for each COMMIT: its last job, and a line of keys for each of its jobs that changed objects.
        """
        CREATE TABLE IF NOT EXISTS "_broker_feed" (
            /* Broker's: the keys of the objects that each transaction changed */
            "sequence" INTEGER PRIMARY KEY /* of its last job */,
            "keys" BLOB NOT NULL
        )
        """,
        // One row for each migration: its changes, and the sequence of the last job before it.
        """
        CREATE TABLE IF NOT EXISTS "_broker_migrations" (
            /* Broker's: the changes of the model */
            "number" INTEGER PRIMARY KEY,
            "after" INTEGER NOT NULL /* sequence of the last job before */,
            "time" TEXT NOT NULL /* in UTC like 2011-12-22T02:24:51.000Z */,
            "changes" TEXT NOT NULL /* JSON: an array of lines */
        )
        """,
        """
        CREATE TABLE IF NOT EXISTS "_broker_bookmarks" (
            /* Broker's: texts that jobs wrote with their changes */
            "name" TEXT PRIMARY KEY /* given by the client */,
            "value" TEXT NOT NULL,
            "sequence" INTEGER NOT NULL /* of the job */
        ) WITHOUT ROWID
        """,
        // `bytes` is before the texts, so that they are not read for it.
        """
        CREATE TABLE IF NOT EXISTS "_broker_rejects" (
            /* Broker's: the records that jobs skipped */
            "id" INTEGER PRIMARY KEY /* 1,000 times the sequence of the job, and the number of the record in it */,
            "bytes" INTEGER NOT NULL /* of the texts */,
            "time" INTEGER NOT NULL /* when the job was accepted, in milliseconds since 1970-01-01 UTC */,
            "job" TEXT NOT NULL /* its id */,
            "owner" INTEGER /* number of the user who sent it */,
            "entity" TEXT NOT NULL,
            "errors" TEXT NOT NULL /* JSON: an array, with paths in the request */,
            "request" TEXT NOT NULL /* JSON: a job with the record alone */
        )
        """,
    ]

    /// Creates those that are not there. Runs inside the caller's transaction.
    package static func prepare(_ connection: Connection) throws(StoreError) {
        for sql in tables { try connection.execute(sql) }
    }
}
