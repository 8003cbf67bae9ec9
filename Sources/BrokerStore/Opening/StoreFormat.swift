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

    enum Kind {
        /// An empty database: it becomes a store.
        case new
        /// A store of this version, with the model in force as it was written.
        ///
        /// - Parameter held: the model with what is kept of models before it; nil when nothing is.
        case store(model: String, held: String?)
        /// A store made before models were kept: taken over as it is.
        case unmarked
    }

    /// - Throws: ``StoreError`` `incompatible` when the database is somebody else's, or a newer Broker's.
    static func kind(of connection: Connection, path: String) throws(StoreError) -> Kind {
        let id = try connection.integer("PRAGMA application_id") ?? 0
        let tables = try tables(of: connection)
        if tables.isEmpty, id == 0 { return .new }
        let isMarked = id == applicationID
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
        guard let number = Int64(version), number <= Self.version else {
            throw StoreError(
                .incompatible,
                "The store \(path) is of a newer Broker: format \(version), and this one knows \(Self.version). Use that "
                    + "Broker; nothing was touched.")
        }
        guard let model = try meta.value(of: .model) else { return .unmarked }
        return .store(model: model, held: try meta.value(of: .heldModel))
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
        let named = tables.prefix(3).joined(separator: ", ") + (tables.count > 3 ? " …" : "")
        let holds = tables.isEmpty ? "application id \(id)" : "tables \(named)"
        return StoreError(
            .incompatible,
            "\(path) is a database, but not one that Broker made (\(holds)). Give --store another file; nothing was "
                + "touched.")
    }
}

/// Single facts about a store, in its table `_broker_meta`.
struct StoreMeta {
    enum Key: String {
        case formatVersion, model, heldModel
    }

    let connection: Connection

    func value(of key: Key) throws(StoreError) -> String? {
        let statement = try connection.prepare("SELECT value FROM _broker_meta WHERE key = ?1")
        statement.bind(key.rawValue, at: 1)
        return try statement.step() ? statement.text(0) : nil
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
