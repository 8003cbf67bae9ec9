package import BrokerModel
package import BrokerSQLite

/// A table as SQLite describes it.
package struct ExistingTable {
    package struct Column {
        let name: String
        let declaredType: String
        let isGenerated: Bool
        /// Generated when it is read, so rows do not store it.
        let isVirtual: Bool
        /// An alias of SQLite's row number.
        let isRowNumber: Bool
        /// No row can be inserted without it.
        package let mustBeGiven: Bool

        package var affinity: Affinity { Affinity(declaredType: declaredType) }
    }

    package struct Reference {
        var columns: [String]
        let table: String
        var keys: [String]
        let onDelete: String
    }

    /// `table`, `view`, `virtual` or `shadow`.
    package let kind: String
    package let hasRowNumbers: Bool
    package private(set) var columns: [Column] = []
    /// Lists of columns that are unique among all rows, and compared byte by byte.
    package private(set) var uniqueLists: [NameSet] = []
    package private(set) var references: [Reference] = []

    /// Nil when there is no table of exactly that name.
    package init?(_ name: String, on connection: Connection) throws(StoreError) {
        let find = try connection.prepare(
            "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1", name)
        guard try find.step() else { return nil }
        kind = find.text(0)
        hasRowNumbers = find.integer(1) == 0
        find.reset()
        guard kind == "table" else { return }
        try readColumns(name, connection)
        try readIndexes(name, connection)
        try readReferences(name, connection)
    }

    package func column(_ name: String) -> Column? { columns.first { $0.name.hasSameBytes(as: name) } }

    private mutating func readColumns(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden, (SELECT count(*) FROM "
                + "pragma_table_xinfo(?1) WHERE pk > 0) FROM pragma_table_xinfo(?1) ORDER BY cid", table)
        while try read.step() {
            let type = read.text(1)
            // Only this exact type makes a primary key the number of the row (sqlite.org/lang_createtable.html#rowid).
            let isRowNumber =
                hasRowNumbers && read.integer(4) > 0 && read.integer(6) == 1 && Name("INTEGER").isSame(as: type)
            let hidden = read.integer(5)
            columns.append(
                Column(
                    name: read.text(0), declaredType: type, isGenerated: hidden != 0, isVirtual: hidden == 2,
                    isRowNumber: isRowNumber,
                    mustBeGiven: read.integer(2) != 0 && read.integer(3) == 0 && hidden == 0 && !isRowNumber))
            if isRowNumber { uniqueLists.append(NameSet([read.text(0)])) }
        }
    }

    private mutating func readIndexes(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT l.seq, i.name, i.coll = 'BINARY' AND i.name IS NOT NULL FROM pragma_index_list(?1) AS l, "
                + "pragma_index_xinfo(l.name) AS i WHERE l.\"unique\" AND NOT l.partial AND i.key ORDER BY l.seq, i.seqno",
            table)
        var lists: [Int64: (names: [String], isPlain: Bool)] = [:]
        while try read.step() {
            var list = lists[read.integer(0)] ?? ([], true)
            list.names.append(read.text(1))
            list.isPlain = list.isPlain && read.integer(2) != 0
            lists[read.integer(0)] = list
        }
        uniqueLists += lists.values.filter(\.isPlain).map { NameSet($0.names) }
    }

    private mutating func readReferences(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT f.id, f.\"from\", f.\"table\", coalesce(f.\"to\", (SELECT name FROM pragma_table_info(f.\"table\") "
                + "WHERE pk = f.seq + 1), ''), f.on_delete FROM pragma_foreign_key_list(?1) AS f ORDER BY f.id, f.seq",
            table)
        var last: Int64 = -1
        while try read.step() {
            if read.integer(0) != last {
                references.append(Reference(columns: [], table: read.text(2), keys: [], onDelete: read.text(4)))
                last = read.integer(0)
            }
            references[references.count - 1].columns.append(read.text(1))
            references[references.count - 1].keys.append(read.text(3))
        }
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

/// The type of a column: the form of its values, and the name in CREATE TABLE, which tools show and interpret.
///
/// Types with the same storage are equal: earlier programs declared the storage alone, and their tables stay as they are.
package struct ColumnType: Sendable {
    /// The names of SQLite's storage classes; each is also a declared type with that affinity.
    package enum Storage: String, Sendable {
        case integer = "INTEGER"
        case real = "REAL"
        case text = "TEXT"
        case blob = "BLOB"

        var affinity: Affinity {
            switch self {
            case .integer: .integer
            case .real: .real
            case .text: .text
            case .blob: .blob
            }
        }
    }

    package let storage: Storage
    /// It contains the storage's name and no other one, so that it has the same affinity (sqlite.org/datatype3.html,
    /// 3.1).
    package let declared: String

    /// - Parameter meaning: the part before the storage: `DATETIME` for `DATETIME_TEXT`.
    private init(_ storage: Storage, _ meaning: String = "") {
        self.storage = storage
        declared = meaning.isEmpty ? storage.rawValue : "\(meaning)_\(storage.rawValue)"
    }

    static let integer = ColumnType(.integer)
    static let text = ColumnType(.text)

    /// The type of an attribute's column. Exact decimals and dates are texts, unless the model stores them otherwise.
    init(_ attribute: Attribute) {
        switch attribute.type {
        case .integer16, .integer32, .integer64: self.init(.integer)
        case .boolean: self.init(.integer, "BOOLEAN")
        case .double, .float: self.init(.real)
        case .string: self.init(.text)
        case .decimal: self.init(attribute.decimalScale == nil ? .text : .integer, "DECIMAL")
        case .calendarDate: self.init(.text, "DATE")
        case .uuid: self.init(.text, "UUID")
        case .uri: self.init(.text, "URI")
        case .transformable: self.init(.text, "JSON")
        case .binary: self.init(.blob)
        case .date:
            switch attribute.dateStorage {
            case .iso8601: self.init(.text, "DATETIME")
            case .unix: self.init(.integer, "DATETIME")
            case .coreData: self.init(.real, "DATETIME")
            }
        }
    }
}

extension ColumnType: Equatable {
    package static func == (left: ColumnType, right: ColumnType) -> Bool { left.storage == right.storage }
}

extension Attribute {
    /// The form of its values in the store.
    package var columnStorage: ColumnType.Storage { ColumnType(self).storage }
}
