package import BrokerJSON
package import BrokerModel
package import BrokerSQLite

/// Compares the tables of a database that another program made with those that a model requires: whether Broker's
/// statements fit them as they are.
///
/// Declared types may differ from the model's, but must preserve its values. Tables and columns outside of the model
/// are allowed as long as rows can be inserted without them.
package struct ExistingTables {
    /// The reasons why the model cannot be used with them.
    package private(set) var faults: [StoreChange] = []
    private let connection: Connection
    private let naming: ColumnNaming

    /// - Parameters:
    ///   - connection: must enforce foreign keys, or their faults are not detected.
    ///   - checksRows: whether existing links must lead to existing rows; that reads every row with a link.
    package init(_ connection: Connection, of model: Model, checksRows: Bool) throws(StoreError) {
        self.connection = connection
        naming = ColumnNaming(model: model, layout: RowLayout(model))
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
        let links = Set(table.foreignKeys.flatMap(\.columns).map(Name.init))
        for column in table.columns { compare(column, of: table, existing, isLink: links.contains(Name(column.name))) }
        let known = Set(table.columns.map { Name($0.name) })
        for column in existing.columns where !known.contains(Name(column.name)) && column.mustBeGiven {
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
        let unique = Set(existing.uniqueLists)
        if !unique.contains(NameSet(table.primaryKey)) {
            let list = table.primaryKey.joined(separator: ", ")
            refuse(
                table.name, "\(table.name) has no primary key or unique index of \(list), compared byte by byte",
                "make it the identity of what is unique")
        }
        for list in table.unique where !unique.contains(NameSet(list)) {
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
        let keyColumns = Set(table.primaryKey.map(Name.init))
        if existing.columns.dropFirst(firstHidden).contains(where: { keyColumns.contains(Name($0.name)) }) {
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
        let pairs = Set(zip(key.columns, key.keys).map { [Name($0), Name($1)] })
        let found = existing.references.first {
            Name($0.table).isSame(as: key.table) && Set(zip($0.columns, $0.keys).map { [Name($0), Name($1)] }) == pairs
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

/// A name as SQLite compares columns: by bytes, except for ASCII case.
package struct Name: Hashable {
    private let bytes: [UInt8]

    package init(_ name: String) {
        bytes = name.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }

    package func isSame(as name: String) -> Bool { self == Name(name) }
}

/// Columns of an index, in any order.
package struct NameSet: Hashable {
    private let names: Set<Name>
    package init(_ names: [String]) { self.names = Set(names.map(Name.init)) }
}

/// The treatment of parts of a store that the model no longer has.
package enum RemovalPolicy: String, Sendable, CaseIterable {
    /// The store is refused.
    case refuse
    /// The part stays in the file, unused, so that the earlier model can be used again.
    case keep
    /// The part is dropped with all its values.
    case drop
}

/// A difference between a store and a model, and its treatment.
package struct StoreChange: Sendable, Equatable {
    package enum Verdict: String, Sendable, CaseIterable {
        /// The store is migrated without loss.
        case migrated
        /// The part stays in the file, unused.
        case kept
        case dropped
        /// The store cannot be migrated without loss, so nothing at all is changed.
        case refused
    }

    package let verdict: Verdict
    /// The subject of the change: `Entity`, `Entity.attribute`, a table or `table.column`.
    package let subject: String
    /// The state in the store and in the model; for people, without the full stop.
    package let text: String
    /// The remedy for a refused change.
    package let remedy: String?
    /// The contents that go when the part is dropped; nil where nothing does, or it was not counted.
    package var loss: StoreLoss?

    package static let remedyByDropping = "`broker migrate --drop` drops it"

    package init(
        _ verdict: Verdict, _ subject: String, _ text: String, remedy: String? = nil, loss: StoreLoss? = nil
    ) {
        self.verdict = verdict
        self.subject = subject
        self.text = text
        self.remedy = remedy
        self.loss = loss
    }

    /// The text, and the remedy in brackets.
    package var line: String { remedy.map { "\(text) (\($0))" } ?? text }

    /// Writes it as an object.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("change", verdict.rawValue)
            writer.member("subject", subject)
            writer.member("message", text)
            if let remedy { writer.member("remedy", remedy) }
            guard let loss else { return }
            writer.key("loss")
            writer.object { writer in
                writer.member("kind", loss.kind.rawValue)
                writer.key("count")
                writer.integer(loss.count)
                writer.key("examples")
                writer.array { writer in
                    for example in loss.examples { writer.string(example) }
                }
            }
        }
    }
}

/// The changes that were made to a store when it was opened.
package struct StoreMigration: Sendable, Equatable {
    package let changes: [StoreChange]
    package let milliseconds: Int
    /// Further facts about the database that an operator should know: sentences.
    package let notes: [String]

    package init(changes: [StoreChange], milliseconds: Int, notes: [String]) {
        self.changes = changes
        self.milliseconds = milliseconds
        self.notes = notes
    }

    /// For people: a line for each change and one for all, then ``notes``.
    package var lines: [String] {
        guard !changes.isEmpty else { return notes }
        let count = "\(changes.count) change\(changes.count == 1 ? "" : "s")"
        return changes.map { "The store was changed, \($0.verdict.rawValue): \($0.text)." }
            + ["The store fits the model now: \(count) in \(milliseconds) ms."] + notes
    }
}

/// The rows or values that go when a part of the model is dropped.
package struct StoreLoss: Sendable, Equatable {
    package enum Kind: String, Sendable {
        case objects, values, links
    }

    package let kind: Kind
    package let count: Int64
    /// Some of them, for people: the key of an object, and what it has, in SQL.
    package let examples: [String]

    package init(_ kind: Kind, count: Int64, examples: [String]) {
        self.kind = kind
        self.count = count
        self.examples = examples
    }
}
