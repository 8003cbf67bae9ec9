/// What must be done to a database so that it has a schema's tables: either statements that lose nothing, or a refusal.
///
/// New entities, attributes, relationships and indexes are added. Anything else is told, and nothing is touched.
struct SchemaMigration {
    private(set) var statements: [String] = []
    /// What differs and cannot be mended without loss, a line each.
    private(set) var differences: [String] = []
    private let connection: Connection

    init(of connection: Connection, to schema: Schema) throws(StoreError) {
        self.connection = connection
        for table in schema.tables {
            if try exists("table", table.name) {
                try compare(table)
            } else {
                statements += [table.sql] + table.indexSQL
            }
        }
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
        let type: String
        let isRequired: Bool
        let keyPosition: Int64
    }

    private mutating func compare(_ table: Schema.Table) throws(StoreError) {
        let existing = try columns(of: table.name)
        for column in table.columns {
            guard let found = existing[column.name] else {
                try add(column, to: table)
                continue
            }
            let isKey = table.primaryKey.contains(column.name)
            if found.type != column.type {
                differences.append(
                    "\(table.name).\(column.name) is \(found.type) in the store, and \(column.type) in the model")
            }
            if found.isRequired != column.isRequired, !isKey {
                let (stored, wanted) = found.isRequired ? ("required", "optional") : ("optional", "required")
                differences.append("\(table.name).\(column.name) is \(stored) in the store, and \(wanted) in the model")
            }
        }
        let key = existing.filter { $0.value.keyPosition > 0 }.sorted { $0.value.keyPosition < $1.value.keyPosition }
        if key.map(\.key) != table.primaryKey {
            differences.append(
                "\(table.name) is identified by \(key.map(\.key).joined(separator: ", ")) in the store, "
                    + "and by \(table.primaryKey.joined(separator: ", ")) in the model")
        }
        for name in existing.keys.sorted() where !table.columns.contains(where: { $0.name == name }) {
            differences.append("\(table.name).\(name) is in the store, but not in the model")
        }
        try compareConstraints(table, Set(existing.keys))
    }

    private mutating func add(_ column: Schema.Column, to table: Schema.Table) throws(StoreError) {
        guard !column.isRequired, !table.unique.contains(where: { $0.contains(column.name) }) else {
            differences.append(
                "\(table.name).\(column.name) is new and \(column.isRequired ? "required" : "unique"), "
                    + "but there may be rows without it")
            return
        }
        guard !table.foreignKeys.contains(where: { $0.columns.count > 1 && $0.columns.contains(column.name) }) else {
            differences.append("\(table.name).\(column.name) is new and part of a link of several columns")
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
            differences.append(
                "\(table.name) (\(columns.joined(separator: ", "))) is unique in the model, but not in the store")
        }
        for columns in stored.subtracting(wanted).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            differences.append(
                "\(table.name) (\(columns.joined(separator: ", "))) is unique in the store, but not in the model")
        }
        let references = try storedReferences(of: table.name)
        for key in table.foreignKeys where key.columns.count == 1 {
            guard let target = references[key.columns[0]] else { continue }
            let expected = "\(key.table).\(key.keys[0]) ON DELETE \(key.onDelete)"
            if target != expected {
                differences.append(
                    "\(table.name).\(key.columns[0]) refers to \(target) in the store, and to \(expected) in the model")
            }
        }
        for (columns, sql) in zip(table.indexes, table.indexSQL)
        where try !exists("index", "\(table.name).\(columns.joined(separator: "."))") {
            statements.append(sql)
        }
    }

    private func columns(of table: String) throws(StoreError) -> [String: ExistingColumn] {
        let statement = try connection.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)")
        statement.bind(table, at: 1)
        var columns: [String: ExistingColumn] = [:]
        while try statement.step() {
            columns[statement.text(0)] = ExistingColumn(
                type: statement.text(1), isRequired: statement.integer(2) != 0, keyPosition: statement.integer(3))
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

    private func storedReferences(of table: String) throws(StoreError) -> [String: String] {
        let statement = try connection.prepare(
            "SELECT \"from\", \"table\", \"to\", on_delete FROM pragma_foreign_key_list(?1)")
        statement.bind(table, at: 1)
        var references: [String: String] = [:]
        while try statement.step() {
            references[statement.text(0)] = "\(statement.text(1)).\(statement.text(2)) ON DELETE \(statement.text(3))"
        }
        return references
    }
}
