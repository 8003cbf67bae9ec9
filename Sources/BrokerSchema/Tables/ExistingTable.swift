package import BrokerModel
package import BrokerSQLite

/// A table as SQLite describes it.
package struct ExistingTable {
    package struct Column {
        let name: String
        let declaredType: String
        /// `NOT NULL`.
        let isRequired: Bool
        let hasDefault: Bool
        /// From 1, in the primary key; 0 outside of it.
        let keyPosition: Int64
        let isGenerated: Bool
        /// Generated when it is read, so rows do not store it.
        let isVirtual: Bool
        /// An alias of SQLite's row number.
        let isRowNumber: Bool

        /// No row can be inserted without it.
        package var mustBeGiven: Bool { isRequired && !hasDefault && !isGenerated && !isRowNumber }
        package var affinity: Affinity { Affinity(declaredType: declaredType) }
    }

    /// Columns that are unique among all rows.
    struct UniqueList {
        var columns: [String] = []
        /// A constraint of the table, and not an index or its key.
        let isConstraint: Bool
        /// All columns are compared byte by byte.
        var isPlain = true
    }

    /// `table`, `view`, `virtual` or `shadow`.
    let kind: String
    let hasRowNumbers: Bool
    private(set) var columns: [Column] = []
    private(set) var uniqueLists: [UniqueList] = []
    private(set) var foreignKeys: [Schema.ForeignKey] = []
    private var positions: [ExactText: Int] = [:]

    /// Nil when there is no table of exactly that name.
    package init?(_ name: String, on connection: Connection) throws(StoreError) {
        let find = try connection.prepare(
            "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1", name)
        guard try find.step() else { return nil }
        (kind, hasRowNumbers) = (find.text(0), find.integer(1) == 0)
        find.reset()
        guard kind == "table" else { return }
        try read(name, connection)
    }

    /// A table that Broker made.
    init(ours name: String, on connection: Connection) throws(StoreError) {
        (kind, hasRowNumbers) = ("table", true)
        try read(name, connection)
    }

    package func column(_ name: String) -> Column? { positions[name].map { columns[$0] } }

    private mutating func read(_ table: String, _ connection: Connection) throws(StoreError) {
        try readColumns(table, connection)
        try readIndexes(table, connection)
        try readForeignKeys(table, connection)
    }

    private mutating func readColumns(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden, (SELECT count(*) FROM "
                + "pragma_table_xinfo(?1) WHERE pk > 0) FROM pragma_table_xinfo(?1) ORDER BY cid", table)
        while try read.step() {
            let type = read.text(1)
            // Only this exact type makes a primary key the number of the row (sqlite.org/lang_createtable.html#rowid).
            let isRowNumber =
                hasRowNumbers && read.integer(4) > 0 && read.integer(6) == 1
                && FoldedName("INTEGER") == FoldedName(type)
            let column = Column(
                name: read.text(0), declaredType: type, isRequired: read.integer(2) != 0,
                hasDefault: read.integer(3) != 0, keyPosition: read.integer(4), isGenerated: read.integer(5) != 0,
                isVirtual: read.integer(5) == 2, isRowNumber: isRowNumber)
            positions[column.name] = columns.count
            columns.append(column)
            if isRowNumber { uniqueLists.append(UniqueList(columns: [column.name], isConstraint: false)) }
        }
    }

    private mutating func readIndexes(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT l.seq, l.origin = 'u', i.name, i.coll = 'BINARY' AND i.name IS NOT NULL FROM "
                + "pragma_index_list(?1) AS l, pragma_index_xinfo(l.name) AS i WHERE l.\"unique\" AND NOT l.partial "
                + "AND i.key ORDER BY l.seq, i.seqno", table)
        var lists: [Int64: UniqueList] = [:]
        while try read.step() {
            var list = lists[read.integer(0)] ?? UniqueList(isConstraint: read.integer(1) != 0)
            list.columns.append(read.text(2))
            list.isPlain = list.isPlain && read.integer(3) != 0
            lists[read.integer(0)] = list
        }
        uniqueLists += lists.values
    }

    private mutating func readForeignKeys(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT f.id, f.\"from\", f.\"table\", coalesce(f.\"to\", (SELECT name FROM pragma_table_info(f.\"table\") "
                + "WHERE pk = f.seq + 1), ''), f.on_delete FROM pragma_foreign_key_list(?1) AS f ORDER BY f.id, f.seq",
            table)
        var keys: [Int64: Schema.ForeignKey] = [:]
        while try read.step() {
            let known = keys[read.integer(0)]
            keys[read.integer(0)] = Schema.ForeignKey(
                columns: (known?.columns ?? []) + [read.text(1)], table: read.text(2),
                keys: (known?.keys ?? []) + [read.text(3)], onDelete: read.text(4))
        }
        foreignKeys = keys.sorted { $0.key < $1.key }.map(\.value)
    }
}

/// The affinity of a column (sqlite.org/datatype3.html, 3.1).
package enum Affinity {
    case integer, text, blob, real, numeric

    package init(declaredType: String) {
        let type = declaredType.uppercased()
        func has(_ parts: String...) -> Bool { parts.contains { type.contains($0) } }
        self =
            has("INT")
            ? .integer
            : has("CHAR", "CLOB", "TEXT")
                ? .text : type.isEmpty || has("BLOB") ? .blob : has("REAL", "FLOA", "DOUB") ? .real : .numeric
    }

    /// Whether values of one of Broker's own column types are returned as they were, or as equivalent values.
    ///
    /// Texts that look like numbers become numbers in numeric columns; that is SQLite's rule, and lookups still find
    /// them.
    package func keeps(_ storage: ColumnType.Storage) -> Bool {
        switch storage {
        case .integer: self == .integer || self == .numeric || self == .blob
        case .real: self != .text
        case .text, .blob: true
        }
    }
}
