package import BrokerJSON
package import BrokerModel
package import BrokerSQLite

/// A table as SQLite describes it.
package struct ExistingTable {
    package struct Column {
        package let name: String
        package let declaredType: String
        package let isRequired: Bool
        /// SQL; nil when there is none.
        package let defaultValue: String?
        /// From 1, in the primary key; 0 outside of it.
        package let keyPosition: Int64
        package let isGenerated: Bool
        /// Generated when it is read, so rows do not store it.
        let isVirtual: Bool
        /// An alias of SQLite's row number.
        let isRowNumber: Bool

        /// No row can be inserted without it.
        package var mustBeGiven: Bool { isRequired && defaultValue == nil && !isGenerated && !isRowNumber }
        package var affinity: Affinity { Affinity(declaredType: declaredType) }
    }

    /// An index, also of a constraint or of the key.
    package struct Index {
        package let isUnique: Bool
        package let isPartial: Bool
        /// `pk`, `u` or `c`.
        package let origin: String
        /// Nil for an expression.
        package fileprivate(set) var columns: [String?] = []
        /// All of them are columns, and compared byte by byte.
        package fileprivate(set) var isPlain = true
    }

    /// `table`, `view`, `virtual` or `shadow`.
    package let kind: String
    package let hasRowNumbers: Bool
    package private(set) var columns: [Column] = []
    /// By name.
    package private(set) var indexes: [Index] = []
    package private(set) var foreignKeys: [Schema.ForeignKey] = []
    private var positions: [ExactText: Int] = [:]

    /// Nil when there is no table of exactly that name.
    package init?(_ name: String, on connection: Connection) throws(StoreError) {
        let find = try connection.prepare(
            "SELECT type, wr FROM pragma_table_list(?1) WHERE schema = 'main' AND name = ?1", name)
        guard try find.step() else { return nil }
        (kind, hasRowNumbers) = (find.text(0), find.integer(1) == 0)
        find.reset()
        guard kind == "table" else { return }
        try read(name, connection)
    }

    init(ours name: String, on connection: Connection) throws(StoreError) {
        (kind, hasRowNumbers) = ("table", true)
        try read(name, connection)
    }

    package func column(_ name: String) -> Column? { positions[name].map { columns[$0] } }

    /// Columns that are unique among all rows, by an index or a constraint.
    func uniqueLists(where isWanted: (Index) -> Bool) -> [[String]] {
        indexes.filter { $0.isUnique && !$0.isPartial && isWanted($0) }.map { $0.columns.compactMap { $0 } }
    }

    private mutating func read(_ table: String, _ connection: Connection) throws(StoreError) {
        try readColumns(table, connection)
        try readIndexes(table, connection)
        try readForeignKeys(table, connection)
    }

    private mutating func readColumns(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT name, type, \"notnull\", dflt_value, pk, hidden, (SELECT count(*) FROM "
                + "pragma_table_xinfo(?1) WHERE pk > 0) FROM pragma_table_xinfo(?1) ORDER BY cid", table)
        while try read.step() {
            let type = read.text(1)
            // Only this exact type makes a primary key the number of the row (sqlite.org/lang_createtable.html#rowid).
            let isRowNumber =
                hasRowNumbers && read.integer(4) > 0 && read.integer(6) == 1
                && FoldedName("INTEGER") == FoldedName(type)
            let column = Column(
                name: read.text(0), declaredType: type, isRequired: read.integer(2) != 0,
                defaultValue: read.isNull(3) ? nil : read.text(3), keyPosition: read.integer(4),
                isGenerated: read.integer(5) != 0, isVirtual: read.integer(5) == 2, isRowNumber: isRowNumber)
            positions[column.name] = columns.count
            columns.append(column)
        }
    }

    private mutating func readIndexes(_ table: String, _ connection: Connection) throws(StoreError) {
        let read = try connection.prepare(
            "SELECT i.seqno, l.\"unique\", l.partial, l.origin, i.name, i.coll = 'BINARY' AND i.name IS NOT NULL FROM "
                + "pragma_index_list(?1) AS l, pragma_index_xinfo(l.name) AS i WHERE i.key ORDER BY l.name, i.seqno",
            table)
        while try read.step() {
            if read.integer(0) == 0 {
                indexes.append(
                    Index(isUnique: read.integer(1) != 0, isPartial: read.integer(2) != 0, origin: read.text(3)))
            }
            let last = indexes.count - 1
            indexes[last].columns.append(read.isNull(4) ? nil : read.text(4))
            indexes[last].isPlain = indexes[last].isPlain && read.integer(5) != 0
        }
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

/// Compares the tables of a database that another program made with those that a model requires: whether Broker's
/// statements fit them as they are.
///
/// Declared types may differ from the model's, but must preserve its values. Tables and columns outside of the model
/// are allowed as long as rows can be inserted without them.
struct ExistingTables {
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
        let lists = existing.uniqueLists(where: \.isPlain) + existing.columns.filter(\.isRowNumber).map { [$0.name] }
        let unique = Set(lists.map { Set($0.map(FoldedName.init)) })
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
        guard let (row, parent) = try connection.danglingReference(of: table) else { return }
        refuse(
            table, "row \(row) of \(table) refers to a row of \(parent) that does not exist",
            "correct the row; PRAGMA foreign_key_check lists all")
    }
}

extension Connection {
    /// The rows of a query as texts; NULL is empty.
    ///
    /// - Parameter text: the first parameter, if there is one.
    package func texts(_ sql: String, _ text: String? = nil) throws(StoreError) -> [[String]] {
        let statement = try prepare(sql)
        if let text { statement.bind(text, at: 1) }
        var rows: [[String]] = []
        while try statement.step() { rows.append((0..<statement.columnCount).map(statement.text)) }
        return rows
    }

    /// The number of a row that refers to one that is not there, and the table of that; nil when there is none.
    func danglingReference(of table: String) throws(StoreError) -> (row: Int64, parent: String)? {
        let check = try prepare("SELECT rowid, parent FROM pragma_foreign_key_check(?1) LIMIT 1", table)
        guard try check.step() else { return nil }
        defer { check.reset() }
        return (check.integer(0), check.text(1))
    }
}

/// Compares the tables of a database with those of its model.
///
/// A missing table is assumed to be new. A table or column that the model does not have, or that differs from the
/// model, was changed by another program, and is reported.
struct StoredTables {
    private(set) var differences: [StoreChange] = []
    /// The model's tables, as far as they exist.
    private(set) var tables: [Schema.Table] = []
    private var positions: [ExactText: Int] = [:]
    /// The types of everything in the file, by name as SQLite compares names.
    private var types: [FoldedName: Set<String>] = [:]
    private let connection: Connection

    init(_ connection: Connection, of schema: Schema) throws(StoreError) {
        self.connection = connection
        for row in try connection.texts("SELECT name, type FROM sqlite_schema") {
            types[FoldedName(row[0]), default: []].insert(row[1])
        }
        for table in schema.tables where has(["table"], table.name) { try compare(table) }
    }

    func table(named name: String) -> Schema.Table? { positions[name].map { tables[$0] } }

    /// Whether there is one of that name, as SQLite compares names.
    func has(_ types: Set<String>, _ name: String) -> Bool {
        self.types[FoldedName(name)].map { !$0.isDisjoint(with: types) } ?? false
    }

    private mutating func differ(_ subject: String, is stored: String, butIn wanted: String) {
        guard !stored.hasSameBytes(as: wanted) else { return }
        differences.append(
            StoreChange(
                .refused, subject, "\(subject) is \(stored) in the store, and \(wanted) in the model",
                remedy: "something else than Broker changed the file: put it back"))
    }

    private mutating func compare(_ table: Schema.Table) throws(StoreError) {
        let existing = try ExistingTable(ours: table.name, on: connection)
        let present = existing.columns.filter { !$0.isGenerated }
        let wanted = [ExactText: Schema.Column](firstOf: table.columns.map { ($0.name, $0) })
        for found in present {
            let subject = "\(table.name).\(found.name)"
            guard let column = wanted[found.name] else {
                differ(subject, is: "a column", butIn: "none")
                continue
            }
            if found.affinity != Affinity(declaredType: column.type.declared) {
                differ(subject, is: found.declaredType, butIn: column.type.declared)
            }
            guard !table.primaryKey.contains(column.name) else { continue }
            let words = [found.isRequired, column.isRequired].map { $0 ? "required" : "optional" }
            differ(subject, is: words[0], butIn: words[1])
        }
        let key = present.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.name)
        differ(
            table.name, is: "identified by \(key.joined(separator: ", "))",
            butIn: "identified by \(table.primaryKey.joined(separator: ", "))")
        let unique = Set(existing.uniqueLists { $0.origin == "u" })
        for columns in unique.symmetricDifference(table.unique).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            let words = unique.contains(columns) ? ["unique", "not"] : ["not unique", "unique"]
            differ("\(table.name) (\(columns.joined(separator: ", ")))", is: words[0], butIn: words[1])
        }
        for key in table.foreignKeys {
            guard let found = existing.foreignKeys.first(where: { $0.columns == key.columns }) else { continue }
            differ(
                "\(table.name).\(key.columns.joined(separator: ", "))", is: "a link to \(found.target)",
                butIn: "a link to \(key.target)")
        }
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
}

extension Schema.ForeignKey {
    var target: String { "\(table).\(keys.joined(separator: ", ")) ON DELETE \(onDelete)" }
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

    package var line: String { remedy.map { "\(text) (\($0))" } ?? text }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("change", verdict.rawValue)
            writer.member("subject", subject)
            writer.member("message", text)
            writer.member("remedy", remedy)
            guard let loss else { return }
            writer.object("loss") { writer in
                writer.member("kind", loss.kind.rawValue)
                writer.member("count", loss.count)
                writer.strings("examples", loss.examples)
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
