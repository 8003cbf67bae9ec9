internal import BrokerModel
internal import BrokerSQLite

/// Compares the tables of a database with those of its model.
///
/// A missing table is assumed to be new. A table or column that the model does not have, or that differs from the
/// model, was changed by another program, and is reported.
struct StoredTables {
    /// Changes by other programs.
    private(set) var differences: [StoreChange] = []
    /// The model's tables, as far as they exist.
    private(set) var tables: [Schema.Table] = []
    private var positions: [ExactText: Int] = [:]
    /// The types of everything in the file, by name as SQLite compares names.
    private var types: [FoldedName: Set<String>] = [:]
    private let connection: Connection

    init(_ connection: Connection, of schema: Schema) throws(StoreError) {
        self.connection = connection
        let present = try connection.prepare("SELECT name, type FROM sqlite_schema")
        while try present.step() { types[FoldedName(present.text(0)), default: []].insert(present.text(1)) }
        for table in schema.tables where has(["table"], table.name) { try compare(table) }
    }

    func table(named name: String) -> Schema.Table? { positions[name].map { tables[$0] } }

    /// Whether there is one of that name, as SQLite compares names.
    func has(_ types: Set<String>, _ name: String) -> Bool {
        self.types[FoldedName(name)].map { !$0.isDisjoint(with: types) } ?? false
    }

    /// - Parameter wanted: how it is in the model, where the text says how it is in the store.
    private mutating func differ(_ subject: String, _ text: String, _ wanted: String? = nil) {
        let text = wanted.map { "\(text) in the store, and \($0) in the model" } ?? text
        differences.append(
            StoreChange(.refused, subject, text, remedy: "something else than Broker changed the file: put it back"))
    }

    private mutating func compare(_ table: Schema.Table) throws(StoreError) {
        let existing = try ExistingTable(ours: table.name, on: connection)
        let present = existing.columns.filter { !$0.isGenerated }
        for column in table.columns {
            guard let found = existing.column(column.name) else { continue }
            let subject = "\(table.name).\(column.name)"
            if found.affinity != Affinity(declaredType: column.type.declared) {
                differ(subject, "\(subject) is \(found.declaredType)", column.type.declared)
            }
            if found.isRequired != column.isRequired, !table.primaryKey.contains(column.name) {
                let (stored, wanted) = found.isRequired ? ("required", "optional") : ("optional", "required")
                differ(subject, "\(subject) is \(stored)", wanted)
            }
        }
        let key = present.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.name)
        if key != table.primaryKey {
            differ(
                table.name, "\(table.name) is identified by \(key.joined(separator: ", "))",
                "by \(table.primaryKey.joined(separator: ", "))")
        }
        let wanted = Set(table.columns.map { ExactText($0.name) })
        for column in present.sorted(by: { $0.name < $1.name }) where !wanted.contains(ExactText(column.name)) {
            let subject = "\(table.name).\(column.name)"
            differ(subject, "\(subject) is in the store, but not in the model")
        }
        compareConstraints(table, existing)
        let there = table.columns.filter { existing.column($0.name) != nil }
        let names = Set(there.map(\.name))
        positions[table.name] = positions[table.name] ?? tables.count
        tables.append(
            Schema.Table(
                name: table.name, columns: there, primaryKey: table.primaryKey,
                unique: table.unique.filter { names.isSuperset(of: $0) },
                foreignKeys: table.foreignKeys.filter { names.isSuperset(of: $0.columns) },
                indexes: table.indexes.filter { names.isSuperset(of: $0.columns) }, checks: table.checks))
    }

    /// Compares unique lists and foreign keys, as sets.
    private mutating func compareConstraints(_ table: Schema.Table, _ existing: ExistingTable) {
        let stored = Set(existing.uniqueLists.filter(\.isConstraint).map(\.columns))
        let wanted = Set(table.unique)
        for columns in wanted.symmetricDifference(stored).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            let name = "\(table.name) (\(columns.joined(separator: ", ")))"
            let (here, there) = wanted.contains(columns) ? ("model", "store") : ("store", "model")
            differ(name, "\(name) is unique in the \(here), but not in the \(there)")
        }
        for key in table.foreignKeys {
            guard let found = existing.foreignKeys.first(where: { $0.columns == key.columns }),
                found.target != key.target
            else { continue }
            let name = "\(table.name).\(key.columns.joined(separator: ", "))"
            differ(name, "\(name) refers to \(found.target)", "to \(key.target)")
        }
    }
}

extension Schema.ForeignKey {
    /// The target of the foreign key, for people.
    var target: String { "\(table).\(keys.joined(separator: ", ")) ON DELETE \(onDelete)" }
}
