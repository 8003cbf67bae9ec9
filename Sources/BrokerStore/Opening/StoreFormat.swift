internal import BrokerJSON
internal import BrokerModel

/// How a database is known to be a store, and of which version.
///
/// Its header bears ``applicationID``, which `file(1)` and every SQLite tool can read; `_broker_meta` holds the version of
/// the format and the model in force. Stores made before there were such marks are known by their `_broker_` tables.
enum StoreFormat {
    /// "Brok" in ASCII, 0x42726F6B: SQLite's `application_id` (sqlite.org/fileformat2.html, offset 68).
    static let applicationID: Int64 = 0x4272_6F6B
    /// Rises when a version of Broker that does not know better would misread a store.
    static let version: Int64 = 1
    /// Of a database that another program made: a Broker that does not know of such would take it over.
    static let foreignVersion: Int64 = 2

    enum Kind {
        /// An empty database: it becomes a store.
        case new
        /// A store of this version, with the model in force as it was written.
        ///
        /// - Parameter held: the model with what is kept of models before it; nil when nothing is.
        case store(model: String, held: String?)
        /// A store made before models were kept: taken over as it is.
        case unmarked
        /// Another program's database, which is fed as it is, if the model fits its tables.
        ///
        /// - Parameter isMarked: it was fed before.
        case foreign(isMarked: Bool)
    }

    /// - Throws: ``StoreError`` `incompatible` when the database is somebody else's, or a newer Broker's.
    static func kind(of connection: Connection, path: String) throws(StoreError) -> Kind {
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
        guard isMarked || id == 0, ["_broker_jobs", "_broker_meta"].allSatisfy(tables.contains) else {
            throw stranger(path, id, tables)
        }
        let meta = StoreMeta(connection: connection)
        guard let version = try meta.value(of: .formatVersion) else {
            guard isMarked else { return .unmarked }
            throw StoreError(
                .incompatible,
                "The store \(path) does not tell the version of its format, so it is not whole. Put a good copy in its "
                    + "place; nothing was touched.")
        }
        try checkVersion(version, Self.version, path)
        guard let model = try meta.value(of: .model) else { return .unmarked }
        return .store(model: model, held: try meta.value(of: .heldModel))
    }

    /// The model in force of a store, or of a database of another program that Broker has fed; nil of any other database.
    static func modelInForce(of connection: Connection, path: String) throws(StoreError) -> String? {
        switch try kind(of: connection, path: path) {
        case .store(let model, _): model
        case .foreign(isMarked: true): try StoreMeta(connection: connection).value(of: .model)
        case .new, .unmarked, .foreign(isMarked: false): nil
        }
    }

    private static func checkVersion(_ text: String?, _ known: Int64, _ path: String) throws(StoreError) {
        if let number = text.flatMap({ Int64($0) }), number <= known { return }
        throw StoreError(
            .incompatible,
            "The store \(path) is of a newer Broker: format \(text ?? "unknown"), and this one knows \(known). Use that "
                + "Broker; nothing was touched.")
    }

    /// Whether Broker has fed the database before, without having made it.
    static func isForeign(_ connection: Connection) throws(StoreError) -> Bool {
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

    /// What a database holds that another program made, for people.
    static func contents(of connection: Connection) throws(StoreError) -> String {
        told(try connection.integer("PRAGMA application_id") ?? 0, try tables(of: connection))
    }

    private static func told(_ id: Int64, _ tables: [String]) -> String {
        let named = tables.prefix(3).joined(separator: ", ") + (tables.count > 3 ? " …" : "")
        return tables.isEmpty ? "application id \(id)" : "tables \(named)"
    }

    private static func tables(of connection: Connection) throws(StoreError) -> [String] {
        let statement = try connection.prepare(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "ORDER BY name")
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }

    private static func stranger(_ path: String, _ id: Int64, _ tables: [String]) -> StoreError {
        StoreError(
            .incompatible,
            "\(path) is a database, but not one that Broker made (\(told(id, tables))). Give --store another file; nothing was "
                + "touched.")
    }
}

/// Single facts about a store, in its table `_broker_meta`.
struct StoreMeta {
    enum Key: String {
        case formatVersion, model, heldModel
        /// Whose the tables are that the model names: ``foreign``, or nothing where Broker made them.
        case tables
        /// Which log the store is fed from, and how far it came (``StateDigest/text``); nothing where there is none.
        case log, logApplied
        /// No key of the store's own up to this is given again in a table that has no mark of its own.
        case rowKeys
    }

    static let foreign = "foreign"

    let connection: Connection

    func value(of key: Key) throws(StoreError) -> String? {
        let statement = try connection.prepare("SELECT value FROM _broker_meta WHERE key = ?1")
        statement.bind(key.rawValue, at: 1)
        return try statement.step() ? statement.text(0) : nil
    }

    // MARK: - The store's own keys

    private static let rowKeyPrefix = "rowKeys "

    /// The newest key of the store's own that was given in a table; nil when the table has no mark.
    func newestRowKey(of table: String) throws(StoreError) -> Int64? {
        let statement = try connection.prepare("SELECT value FROM _broker_meta WHERE key = ?1")
        statement.bind(Self.rowKeyPrefix + table, at: 1)
        return try statement.step() ? Int64(statement.text(0)) : nil
    }

    func set(newestRowKey key: Int64, of table: String) throws(StoreError) {
        let statement = try connection.prepare(
            "INSERT INTO _broker_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        statement.bind(Self.rowKeyPrefix + table, at: 1)
        statement.bind(String(key), at: 2)
        try statement.run()
    }

    /// Before tables get other names: the largest mark becomes that of every table, so that no table gives a key again.
    func uniteRowKeys() throws(StoreError) {
        let marks = "substr(key, 1, \(Self.rowKeyPrefix.utf8.count)) = '\(Self.rowKeyPrefix)'"
        let newest = try connection.integer("SELECT max(CAST(value AS INTEGER)) FROM _broker_meta WHERE \(marks)") ?? 0
        let before = try value(of: .rowKeys).flatMap { Int64($0) } ?? 0
        if newest > before { try set(.rowKeys, to: String(newest)) }
        try connection.execute("DELETE FROM _broker_meta WHERE \(marks)")
    }

    /// - Parameter value: nil takes the fact away.
    func set(_ key: Key, to value: String?) throws(StoreError) {
        guard let value else {
            let delete = try connection.prepare("DELETE FROM _broker_meta WHERE key = ?1")
            delete.bind(key.rawValue, at: 1)
            return try delete.run()
        }
        let statement = try connection.prepare(
            "INSERT INTO _broker_meta (key, value) VALUES (?1, ?2) "
                + "ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value")
        statement.bind(key.rawValue, at: 1)
        statement.bind(value, at: 2)
        try statement.run()
    }
}

extension Model {
    /// As a store keeps it: the resolved form, which ``ModelReader`` reads as the same model.
    var text: String {
        var writer = JSONWriter()
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
