/// What must be done to a database so that it has a schema's tables: either statements that lose nothing, or a refusal.
///
/// New entities, attributes, relationships and indexes are added. Anything else is told, and nothing is touched.
struct SchemaMigration {
    private(set) var statements: [String] = []
    /// What differs and cannot be mended without loss.
    private(set) var differences: [StoreDifference] = []
    private let connection: Connection

    /// - Parameter stored: of the model that the store keeps; nil when it keeps none, and every table may be ours.
    init(of connection: Connection, from stored: Schema?, to schema: Schema) throws(StoreError) {
        self.connection = connection
        let known = stored.map { Set($0.tables.map { $0.name.lowercased() }) }
        for table in schema.tables {
            if try exists("table", table.name) {
                guard known?.contains(table.name.lowercased()) ?? true else {
                    differ(
                        table.name, "the table \(table.name) is there already, and not the model's that made the store")
                    continue
                }
                try compare(table)
            } else {
                statements += [table.sql] + table.indexSQL
            }
        }
    }

    private mutating func differ(_ subject: String, _ text: String) {
        differences.append(StoreDifference(subject: subject, text: text))
    }

    private func exists(_ kind: String, _ name: String) throws(StoreError) -> Bool {
        let statement = try connection.prepare(
            "SELECT 1 FROM sqlite_schema WHERE type = ?1 AND lower(name) = lower(?2)")
        statement.bind(kind, at: 1)
        statement.bind(name, at: 2)
        defer { statement.reset() }
        return try statement.step()
    }

    private struct ExistingColumn {
        let name: String
        let type: String
        let isRequired: Bool
        let keyPosition: Int64
    }

    private mutating func compare(_ table: Schema.Table) throws(StoreError) {
        let existing = try columns(of: table.name)
        for column in table.columns {
            guard let found = existing[Array(column.name.utf8)] else {
                try add(column, to: table)
                continue
            }
            let subject = "\(table.name).\(column.name)"
            if found.type != column.type {
                differ(subject, "\(subject) is \(found.type) in the store, and \(column.type) in the model")
            }
            if found.isRequired != column.isRequired, !table.primaryKey.contains(column.name) {
                let (stored, wanted) = found.isRequired ? ("required", "optional") : ("optional", "required")
                differ(subject, "\(subject) is \(stored) in the store, and \(wanted) in the model")
            }
        }
        let key = existing.values.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.name)
        if key != table.primaryKey {
            differ(
                table.name,
                "\(table.name) is identified by \(key.joined(separator: ", ")) in the store, "
                    + "and by \(table.primaryKey.joined(separator: ", ")) in the model")
        }
        let wanted = Set(table.columns.map { Array($0.name.utf8) })
        for column in existing.values.sorted(by: { $0.name < $1.name }) where !wanted.contains(Array(column.name.utf8))
        {
            differ(
                "\(table.name).\(column.name)", "\(table.name).\(column.name) is in the store, but not in the model")
        }
        try compareConstraints(table, Set(existing.values.map(\.name)))
    }

    private mutating func add(_ column: Schema.Column, to table: Schema.Table) throws(StoreError) {
        guard !column.isRequired, !table.unique.contains(where: { $0.contains(column.name) }) else {
            differ(
                "\(table.name).\(column.name)",
                "\(table.name).\(column.name) is new and \(column.isRequired ? "required" : "unique"), "
                    + "but there may be rows without it")
            return
        }
        guard !table.foreignKeys.contains(where: { $0.columns.count > 1 && $0.columns.contains(column.name) }) else {
            differ(
                "\(table.name).\(column.name)",
                "\(table.name).\(column.name) is new and part of a link of several columns")
            return
        }
        statements.append("ALTER TABLE \(quoted(table.name)) ADD COLUMN \(table.definition(of: column))")
    }

    /// Unique lists, foreign keys and indexes: what the store has is compared as sets; new indexes are added.
    private mutating func compareConstraints(_ table: Schema.Table, _ existing: Set<String>) throws(StoreError) {
        let stored = try uniqueLists(of: table.name)
        // Of new columns that are to be unique, it has been told already.
        let wanted = Set(table.unique.filter(existing.isSuperset))
        for columns in wanted.subtracting(stored).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            differ(
                "\(table.name) (\(columns.joined(separator: ", ")))",
                "\(table.name) (\(columns.joined(separator: ", "))) is unique in the model, but not in the store")
        }
        for columns in stored.subtracting(wanted).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            differ(
                "\(table.name) (\(columns.joined(separator: ", ")))",
                "\(table.name) (\(columns.joined(separator: ", "))) is unique in the store, but not in the model")
        }
        let references = try storedReferences(of: table.name)
        for key in table.foreignKeys {
            guard let target = references[key.columns] else { continue }
            let expected = "\(key.table).\(key.keys.joined(separator: ", ")) ON DELETE \(key.onDelete)"
            guard target != expected else { continue }
            let name = "\(table.name).\(key.columns.joined(separator: ", "))"
            differ(name, "\(name) refers to \(target) in the store, and to \(expected) in the model")
        }
        for (columns, sql) in zip(table.indexes, table.indexSQL)
        where try !exists("index", "\(table.name).\(columns.joined(separator: "."))") {
            statements.append(sql)
        }
    }

    /// By name, as bytes: Swift takes some names that differ for equal.
    private func columns(of table: String) throws(StoreError) -> [[UInt8]: ExistingColumn] {
        let statement = try connection.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)")
        statement.bind(table, at: 1)
        var columns: [[UInt8]: ExistingColumn] = [:]
        while try statement.step() {
            columns[Array(statement.bytes(0))] = ExistingColumn(
                name: statement.text(0), type: statement.text(1), isRequired: statement.integer(2) != 0,
                keyPosition: statement.integer(3))
        }
        return columns
    }

    private func uniqueLists(of table: String) throws(StoreError) -> Set<[String]> {
        let statement = try connection.prepare(
            "SELECT l.name, i.name FROM pragma_index_list(?1) AS l, pragma_index_info(l.name) AS i "
                + "WHERE l.origin = 'u' ORDER BY l.name, i.seqno")
        statement.bind(table, at: 1)
        var lists: [String: [String]] = [:]
        while try statement.step() { lists[statement.text(0), default: []].append(statement.text(1)) }
        return Set(lists.values)
    }

    /// What each list of columns refers to.
    private func storedReferences(of table: String) throws(StoreError) -> [[String]: String] {
        let statement = try connection.prepare(
            "SELECT id, \"from\", \"table\", \"to\", on_delete FROM pragma_foreign_key_list(?1) ORDER BY id, seq")
        statement.bind(table, at: 1)
        var keys: [Int64: (columns: [String], table: String, keys: [String], onDelete: String)] = [:]
        while try statement.step() {
            var key = keys[statement.integer(0)] ?? ([], statement.text(2), [], statement.text(4))
            key.columns.append(statement.text(1))
            key.keys.append(statement.text(3))
            keys[statement.integer(0)] = key
        }
        return Dictionary(
            keys.values.map {
                ($0.columns, "\($0.table).\($0.keys.joined(separator: ", ")) ON DELETE \($0.onDelete)")
            }, uniquingKeysWith: { first, _ in first })
    }
}
