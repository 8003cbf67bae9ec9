internal import BrokerModel
package import BrokerSQLite
/// Compares the tables of a database with those of its model.
///
/// A missing table is assumed to be new. A table or column that the model does not have, or that differs from the
/// model, was changed by another program, and is reported.
package struct StoredTables {
    /// Changes by other programs.
    package private(set) var differences: [StoreChange] = []
    /// The model's tables, as far as they exist.
    package private(set) var tables: [Schema.Table] = []
    private var positions: [[UInt8]: Int] = [:]
    /// The types of everything in the file, by name as SQLite compares names.
    private var types: [Name: Set<String>] = [:]
    private let connection: Connection

    package init(_ connection: Connection, of schema: Schema) throws(StoreError) {
        self.connection = connection
        let present = try connection.prepare("SELECT name, type FROM sqlite_schema")
        while try present.step() { types[Name(present.text(0)), default: []].insert(present.text(1)) }
        for table in schema.tables where has(["table"], table.name) { try compare(table) }
    }

    package func table(named name: String) -> Schema.Table? { positions[Array(name.utf8)].map { tables[$0] } }

    /// Whether there is one of that name, as SQLite compares names.
    package func has(_ types: Set<String>, _ name: String) -> Bool {
        self.types[Name(name)].map { !$0.isDisjoint(with: types) } ?? false
    }

    private mutating func differ(_ subject: String, _ text: String) {
        differences.append(
            StoreChange(.refused, subject, text, remedy: "something else than Broker changed the file: put it back"))
    }

    private mutating func compare(_ table: Schema.Table) throws(StoreError) {
        let existing = try columns(of: table.name)
        for column in table.columns {
            guard let found = existing[Array(column.name.utf8)] else { continue }
            let subject = "\(table.name).\(column.name)"
            if Affinity(declaredType: found.type) != column.type.storage.affinity {
                differ(
                    subject,
                    "\(subject) is \(found.type) in the store, and \(column.type.declared) in the model")
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
        try compareConstraints(table)
        let there = table.columns.filter { existing[Array($0.name.utf8)] != nil }
        let names = Set(there.map(\.name))
        positions[Array(table.name.utf8)] = positions[Array(table.name.utf8)] ?? tables.count
        tables.append(
            Schema.Table(
                name: table.name, columns: there, primaryKey: table.primaryKey,
                unique: table.unique.filter { names.isSuperset(of: $0) },
                foreignKeys: table.foreignKeys.filter { names.isSuperset(of: $0.columns) },
                indexes: table.indexes.filter { names.isSuperset(of: $0) }, checks: table.checks,
                partialUnique: table.partialUnique.filter { names.isSuperset(of: $0.columns) }))
    }

    /// Compares unique lists and foreign keys, as sets.
    private mutating func compareConstraints(_ table: Schema.Table) throws(StoreError) {
        let stored = try uniqueLists(of: table.name)
        let wanted = Set(table.unique)
        for columns in wanted.symmetricDifference(stored).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            let name = "\(table.name) (\(columns.joined(separator: ", ")))"
            let (here, there) = wanted.contains(columns) ? ("model", "store") : ("store", "model")
            differ(name, "\(name) is unique in the \(here), but not in the \(there)")
        }
        let references = try storedReferences(of: table.name)
        for key in table.foreignKeys {
            guard let target = references[key.columns], target != key.target else { continue }
            let name = "\(table.name).\(key.columns.joined(separator: ", "))"
            differ(name, "\(name) refers to \(target) in the store, and to \(key.target) in the model")
        }
    }

    // MARK: - Reading

    private struct ExistingColumn {
        let name: String
        let type: String
        let isRequired: Bool
        let keyPosition: Int64
    }

    /// By name, as bytes: Swift treats some names that differ as equal.
    private func columns(of table: String) throws(StoreError) -> [[UInt8]: ExistingColumn] {
        let statement = try connection.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)", table)
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
                + "WHERE l.origin = 'u' ORDER BY l.name, i.seqno", table)
        var lists: [String: [String]] = [:]
        while try statement.step() { lists[statement.text(0), default: []].append(statement.text(1)) }
        return Set(lists.values)
    }

    /// The target of each list of columns.
    private func storedReferences(of table: String) throws(StoreError) -> [[String]: String] {
        let statement = try connection.prepare(
            "SELECT id, \"from\", \"table\", \"to\", on_delete FROM pragma_foreign_key_list(?1) ORDER BY id, seq", table
        )
        var keys: [Int64: (columns: [String], table: String, keys: [String], onDelete: String)] = [:]
        while try statement.step() {
            var key = keys[statement.integer(0)] ?? ([], statement.text(2), [], statement.text(4))
            key.columns.append(statement.text(1))
            key.keys.append(statement.text(3))
            keys[statement.integer(0)] = key
        }
        return Dictionary(
            keys.values.map {
                (
                    $0.columns,
                    Schema.ForeignKey(columns: $0.columns, table: $0.table, keys: $0.keys, onDelete: $0.onDelete).target
                )
            }, uniquingKeysWith: { first, _ in first })
    }
}

extension Schema.ForeignKey {
    /// The target of the foreign key, for people.
    package var target: String { "\(table).\(keys.joined(separator: ", ")) ON DELETE \(onDelete)" }
}
