internal import BrokerModel
internal import BrokerSQLite

/// Compares the tables of a database that another program made with those that a model requires: whether Broker's
/// statements fit them as they are.
///
/// Declared types may differ from the model's, but must preserve its values. Tables and columns outside of the model
/// are allowed as long as rows can be inserted without them.
struct ExistingTables {
    /// The reasons why the model cannot be used with them.
    private(set) var faults: [StoreChange] = []
    private let connection: Connection
    private let naming: ColumnNaming

    /// - Parameters:
    ///   - connection: must enforce foreign keys, or their faults are not detected.
    ///   - checksRows: whether existing links must lead to existing rows; that reads every row with a link.
    init(_ connection: Connection, of model: Model, checksRows: Bool) throws(StoreError) {
        self.connection = connection
        naming = ColumnNaming(model)
        for entity in model.entities where entity.parent != nil {
            refuse(
                entity.name, "\(entity.name) has a parent, and existing tables hold entities without parents",
                "take out the parent")
        }
        guard faults.isEmpty else { return }
        let schema = Schema(model)
        let entityCount = model.tableEntities.count
        for (index, table) in schema.tables.enumerated() {
            try compare(table, entity: index < entityCount ? model.tableEntities[index] : nil)
        }
        for table in faults.isEmpty ? schema.tables : [] { try checkStatements(on: table.name) }
        for table in faults.isEmpty && checksRows ? schema.tables : [] { try checkReferences(of: table.name) }
    }

    private mutating func refuse(_ subject: String, _ text: String, _ remedy: String) {
        faults.append(StoreChange(.refused, subject, text, remedy: remedy))
    }

    /// - Parameter entity: nil for a link table.
    private mutating func compare(_ table: Schema.Table, entity: Int?) throws(StoreError) {
        guard let existing = try ExistingTable(table.name, on: connection) else {
            return refuse(
                table.name, "there is no table \(table.name)",
                "make it, take it out of the model, or give the entity its \"table\"")
        }
        guard existing.kind == "table", existing.hasRowNumbers else {
            let what = existing.hasRowNumbers ? "a \(existing.kind)" : "a table WITHOUT ROWID"
            return refuse(table.name, "\(table.name) is \(what)", "take it out of the model")
        }
        let links = Set(table.foreignKeys.flatMap(\.columns).map(FoldedName.init))
        for column in table.columns {
            compare(column, of: table, existing, isLink: links.contains(FoldedName(column.name)))
        }
        let known = Set(table.columns.map { FoldedName($0.name) })
        for column in existing.columns where !known.contains(FoldedName(column.name)) && column.mustBeGiven {
            refuse(
                "\(table.name).\(column.name)",
                "\(table.name).\(column.name) is NOT NULL without a default, and not in the model",
                "add it to the model")
        }
        compareKeys(table, existing, entity)
        for key in table.foreignKeys { compare(key, of: table, existing, isLinkTable: entity == nil) }
    }

    private mutating func compare(
        _ column: Schema.Column, of table: Schema.Table, _ existing: ExistingTable, isLink: Bool
    ) {
        let name = "\(table.name).\(column.name)"
        guard let found = existing.column(column.name) else {
            return refuse(name, "there is no column \(name)", "add it, or take it out of the model")
        }
        if found.isGenerated { refuse(name, "\(name) is generated", "take it out of the model") }
        if !found.affinity.keeps(column.type.storage) {
            refuse(
                name,
                "\(name) is declared \(found.declaredType), which does not store \(column.type.storage.rawValue) unchanged, as the model requires",
                "give the attribute another type")
        }
        let isKey = table.primaryKey.contains { $0.hasSameBytes(as: column.name) }
        if found.mustBeGiven, !column.isRequired, !isKey, !isLink {
            refuse(
                name, "\(name) is NOT NULL without a default, and optional in the model", "make it \"optional\": false")
        }
    }

    private mutating func compareKeys(_ table: Schema.Table, _ existing: ExistingTable, _ entity: Int?) {
        // In any order.
        let unique = Set(existing.uniqueLists.filter(\.isPlain).map { Set($0.columns.map(FoldedName.init)) })
        let keyColumns = Set(table.primaryKey.map(FoldedName.init))
        if !unique.contains(keyColumns) {
            let list = table.primaryKey.joined(separator: ", ")
            refuse(
                table.name, "\(table.name) has no primary key or unique index of \(list), compared byte by byte",
                "make it the identity of what is unique")
        }
        for list in table.unique where !unique.contains(Set(list.map(FoldedName.init))) {
            let name = "\(table.name) (\(list.joined(separator: ", ")))"
            refuse(name, "\(name) is unique in the model, but not in the table", "take it out of \"unique\"")
        }
        guard let entity else { return }
        let number = naming.rowNumber(entity)
        if existing.columns.contains(where: { $0.name.lowercased() == number && !$0.isRowNumber }) {
            refuse(
                table.name, "\(table.name) has a column \(number), which hides the numbers of its rows",
                "rename the column, or add it to the model")
        }
        let firstHidden = existing.columns.firstIndex(where: \.isVirtual) ?? existing.columns.count
        if existing.columns.dropFirst(firstHidden).contains(where: { keyColumns.contains(FoldedName($0.name)) }) {
            refuse(
                table.name,
                "\(table.name) has a generated column before its key, where changes of rows cannot be followed",
                "make the column STORED, or take the table out of the model")
        }
    }

    private mutating func compare(
        _ key: Schema.ForeignKey, of table: Schema.Table, _ existing: ExistingTable, isLinkTable: Bool
    ) {
        let name = "\(table.name).\(key.columns.joined(separator: ", "))"
        let target = "\(key.table) (\(key.keys.joined(separator: ", ")))"
        func pairs(_ key: Schema.ForeignKey) -> Set<[FoldedName]> {
            Set(zip(key.columns, key.keys).map { [FoldedName($0), FoldedName($1)] })
        }
        let found = existing.foreignKeys.first {
            FoldedName($0.table) == FoldedName(key.table) && pairs($0) == pairs(key)
        }
        guard let found else {
            return refuse(
                name, "\(name) has no foreign key to \(target)", "make it a plain attribute, or declare the foreign key"
            )
        }
        // Broker itself deletes by cascade and checks for `deny`; it leaves the other rules to the database.
        let fits: [String]? =
            switch key.onDelete {
            case "CASCADE": isLinkTable ? ["CASCADE"] : nil
            case "SET NULL": ["SET NULL"]
            default: ["NO ACTION", "RESTRICT", "SET DEFAULT"]
            }
        if let fits, !fits.contains(found.onDelete) {
            refuse(
                name,
                "\(name) is ON DELETE \(found.onDelete), and the model wants \(fits[0])",
                "let the \"deleteRule\" of the relationship's inverse be what the database does: "
                    + "cascade, nullify for SET NULL, or deny")
        }
    }

    /// With foreign keys enforced, SQLite compiles no statement on a table with a foreign key that cannot be checked.
    private mutating func checkStatements(on table: String) throws(StoreError) {
        do throws(StoreError) {
            _ = try connection.prepare("DELETE FROM \(quoted(table))")
        } catch {
            guard error.code == .defect else { throw error }
            refuse(
                table, "a foreign key to or from \(table) cannot be checked (\(connection.lastMessage))", "correct it")
        }
    }

    private mutating func checkReferences(of table: String) throws(StoreError) {
        let check = try connection.prepare("SELECT rowid, parent FROM pragma_foreign_key_check(?1) LIMIT 1", table)
        guard try check.step() else { return }
        refuse(
            table,
            "row \(check.integer(0)) of \(table) refers to a row of \(check.text(1)) that does not exist",
            "correct the row; PRAGMA foreign_key_check lists all")
        check.reset()
    }
}
