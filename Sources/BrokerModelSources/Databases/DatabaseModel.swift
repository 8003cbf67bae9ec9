internal import BrokerModel
internal import BrokerSchema
internal import BrokerSQLite

/// The model of a SQLite database that is there already.
package enum DatabaseModel {
    package struct Failure: Error, CustomStringConvertible {
        /// What happened and the remedy, in one line.
        package let description: String
    }

    /// The first bytes of every SQLite database (sqlite.org/fileformat2.html, 1.2).
    package static let magic = Array("SQLite format 3\0".utf8)

    /// The model of the tables in its JSON form, with a `description` on each guess and on each skipped part.
    ///
    /// The file is only read.
    package static func modelText(ofDatabaseAt path: String) throws(Failure) -> String {
        do throws(StoreError) {
            return DatabaseConversion(try DatabaseReader(path).tables()).model().indentedJSON
        } catch {
            throw Failure(description: "The database \(path) cannot be read: \(DatabaseReader.reason(error))")
        }
    }
}

/// A table or view of a database.
struct DatabaseTable {
    /// A column, and what the sampled values show.
    @dynamicMemberLookup struct Column {
        let existing: ExistingTable.Column
        /// The types of the sampled values: `typeof`, and whether all texts have the form that Broker writes.
        var storedTypes: Set<String> = []
        var hasOurDates = true
        var hasDays = true
        var hasOurUUIDs = true
        var hasOurDecimals = true
        /// All sampled values are texts with an object or an array of JSON.
        var hasJSON = false

        subscript<Value>(dynamicMember path: KeyPath<ExistingTable.Column, Value>) -> Value { existing[keyPath: path] }
    }

    let name: String
    let existing: ExistingTable
    var columns: [Column] = []
    var hasTriggers = false

    var key: [Column] { columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition } }
    func column(_ name: String) -> Column? { columns.first { $0.name.lowercased() == name.lowercased() } }
}

/// Reads the schema of a database. Made for one call.
final class DatabaseReader {
    private let connection: Connection
    /// Rows of each table whose values are looked at.
    private static let sampledRows = 1_000

    init(_ path: String) throws(StoreError) {
        connection = try Connection(path: path, .read).bounded(
            valueBytes: Self.mostBytes, schemaBytes: Self.mostBytes, memory: Self.mostMemory)
    }

    /// Bytes of a statement of the schema, and of a value that is read.
    private static let mostBytes: Int32 = 4 << 20
    /// Bytes of memory that SQLite may take: the schema of the largest model takes a quarter.
    private static let mostMemory: Int64 = 128 << 20
    /// Tables and views: those of entities, and as many for relationships.
    private static let mostTables = 2 * ModelLimits.mostEntities
    /// A relationship takes several columns, when what it leads to has a compound key.
    private static let mostColumns = 4 * ModelLimits.mostPropertiesInAll

    static func reason(_ error: StoreError) -> String {
        if error.sqliteCode == 0 { return error.message }
        guard error.isBeyondBound else { return "\(error.sqliteMessage). Check the file." }
        return "its schema has a statement of more than \(mostBytes >> 20) MiB, or takes more than "
            + "\(mostMemory >> 20) MiB of memory. Check the file, or write the model by hand."
    }

    func tables() throws(StoreError) -> [DatabaseTable] {
        var tables: [DatabaseTable] = []
        // For many views, SQLite lists the tables in quadratic time.
        let count = try connection.integer(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' OR type = 'view' AND NOT \(Self.isReadableView)")
        try check(Int(count ?? 0), Self.mostTables, "tables and views")
        let rows = try connection.texts(
            "SELECT name, ncol FROM pragma_table_list "
                + "WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "AND name NOT LIKE '\\_broker\\_%' ESCAPE '\\' AND name NOT IN ('_litestream_seq', '_litestream_lock') "
                + "AND name NOT IN (SELECT name FROM sqlite_schema WHERE type = 'view' AND \(Self.isReadableView)) "
                + "ORDER BY name")
        try check(rows.reduce(0) { $0 + (Int($1[1]) ?? 0) }, Self.mostColumns, "columns")
        for row in rows {
            guard let existing = try ExistingTable(row[0], on: connection) else { continue }
            var table = DatabaseTable(name: row[0], existing: existing)
            for column in existing.columns { table.columns.append(try sampled(column, of: table.name)) }
            table.hasTriggers =
                try connection.integer(
                    "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = \(textLiteral(table.name))")
                != nil
            tables.append(table)
        }
        return tables
    }

    /// One of the views that Broker makes for readers.
    private static let isReadableView =
        "(name LIKE '%\\_readable' ESCAPE '\\' AND sql LIKE 'CREATE VIEW %\" AS /* made by Broker */%')"

    /// Before a database that is larger than any model takes time and memory.
    private func check(_ count: Int, _ most: Int, _ what: String) throws(StoreError) {
        guard count > most else { return }
        throw StoreError(
            .incompatible, "there are \(count) \(what), and at most \(most) are read; split the model")
    }

    private func sampled(
        _ existing: ExistingTable.Column, of table: String
    ) throws(StoreError) -> DatabaseTable.Column {
        var column = DatabaseTable.Column(existing: existing)
        guard !column.isGenerated else { return column }
        let value = quoted(column.name)
        // `typeof` does not read the value.
        let sampled = "FROM \(quoted(table)) WHERE typeof(\(value)) <> 'null' LIMIT \(Self.sampledRows)"
        let types = try connection.texts("SELECT DISTINCT t FROM (SELECT typeof(\(value)) AS t \(sampled))")
        column.storedTypes = Set(types.map { $0[0] })
        guard !types.isEmpty else { return column }
        (column.hasOurDates, column.hasDays, column.hasOurUUIDs, column.hasOurDecimals) = (false, false, false, false)
        guard column.storedTypes == ["text"] else { return column }
        let date = "____-__-__T__:__:__.___Z"
        // SQLite reads a day that does not exist as another one.
        let day = "v LIKE '____-__-__' AND v IS date(julianday(v)) AND v >= '0001'"
        let digits = "ltrim(substr(v, 1, 1), '-') || substr(v, 2)"
        let decimal =
            "(SELECT d GLOB '[0-9]*' AND d NOT GLOB '*[^0-9.]*' AND d NOT GLOB '*.*.*' AND d NOT GLOB '*.' "
            + "AND d NOT GLOB '0[0-9]*' AND (v NOT GLOB '-*' OR d GLOB '*[1-9]*') FROM (SELECT \(digits) AS d))"
        let forms =
            "min(v LIKE '\(date)'), min(length(v) = 36 AND v = upper(v)), min(\(day)), min(\(decimal))"
        do throws(StoreError) {
            let found = try connection.texts("SELECT \(forms) FROM (SELECT \(value) AS v \(sampled))")[0].map {
                $0 == "1"
            }
            (column.hasOurDates, column.hasOurUUIDs, column.hasDays, column.hasOurDecimals) =
                (found[0], found[1], found[2], found[3])
            // The first byte decides for most other texts.
            let json = "v GLOB '[[{]*' AND json_valid(v) AND json_type(v) IN ('object', 'array')"
            let other = try connection.texts(
                "SELECT 1 FROM (SELECT \(value) AS v \(sampled)) WHERE NOT (\(json)) LIMIT 1")
            column.hasJSON = other.isEmpty
        } catch {
            // A text beyond the bound is neither.
            guard error.isTooLarge else { throw error }
        }
        return column
    }
}
