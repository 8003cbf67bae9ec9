internal import BrokerSQLite
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite

/// The DEFAULT clauses of a store's tables. A migration writes one with a column that it adds, for the rows that are there: no
/// row that is inserted later may take it, because later models may have another default or none.
struct DeclaredDefaults {
    private var columns: [String: [(name: String, position: Int32, value: OwnedCell)]] = [:]

    /// None.
    init() {}

    init(on connection: Connection) throws(StoreError) {
        let find = try connection.prepare(
            "SELECT t.name, c.name, c.cid, c.dflt_value FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c "
                + "WHERE t.type = 'table' AND t.sql LIKE '% DEFAULT %' AND c.dflt_value IS NOT NULL")
        while try find.step() {
            let value = try connection.prepare("SELECT \(find.text(3))").first { OwnedCell(copying: $0.cell(0)) }
            guard let value else { continue }
            columns[find.text(0), default: []].append((find.text(1), Int32(find.integer(2)), value))
        }
    }

    func names(in table: String) -> [String] { (columns[table] ?? []).map(\.name) }

    /// By the position of their columns.
    func values(in table: String) -> [Int32: OwnedCell] {
        Dictionary(uniqueKeysWithValues: (columns[table] ?? []).map { ($0.position, $0.value) })
    }
}

enum PreupdateHook {
    /// The value that `sqlite3_preupdate_old` gives for a column that was added after the row was written, whatever the column's
    /// DEFAULT: SQLite 3.40 gives one NULL for all of them, which is at no other place. Nil where the library gives the default.
    /// Only its address is used.
    nonisolated(unsafe) static let absentValue: OpaquePointer? = {
        let values = try? oldValues()
        guard let values, values.count == 2, values[0].value != values[1].value, values[0].isNull else { return nil }
        return values[0].value
    }()

    /// The values in the hook, of a row without the column and of one with NULL in it.
    private static func oldValues() throws(StoreError) -> [(value: OpaquePointer?, isNull: Bool)] {
        let connection = try Connection(path: ":memory:")
        for sql in [
            "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b DEFAULT 2",
            "INSERT INTO t VALUES (1, NULL)",
        ] { try connection.execute(sql) }
        var values: [(value: OpaquePointer?, isNull: Bool)] = []
        try withUnsafeMutablePointer(to: &values) { found throws(StoreError) in
            sqlite3_preupdate_hook(
                connection.handle,
                { found, database, _, _, _, _, _ in
                    var value: OpaquePointer?
                    _ = sqlite3_preupdate_old(database, 1, &value)
                    found?.assumingMemoryBound(to: [(value: OpaquePointer?, isNull: Bool)].self).pointee.append(
                        (value, sqlite3_value_type(value) == SQLITE_NULL))
                }, found)
            defer { sqlite3_preupdate_hook(connection.handle, nil, nil) }
            try connection.execute("UPDATE t SET a = 3")
        }
        return values
    }
}
