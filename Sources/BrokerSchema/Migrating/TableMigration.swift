import BrokerModel
import BrokerSQLite

/// The migration of one existing table.
///
/// Names are changed and columns are added in place where SQLite can (`ALTER TABLE`). Where a constraint changes, or a
/// column is removed, a new table is created and the rows are copied (https://sqlite.org/lang_altertable.html, section
/// 7).
struct TableMigration {
    let old: Schema.Table
    let new: Schema.Table
    let origin: TableOrigin
    /// The old table with the names of the new one; removed columns keep theirs.
    private let renamed: Schema.Table
    private let oldNames: Set<ExactText>
    let renamings: RenameSequence

    /// - Parameter tables: by old name, the origins of all tables that stay and their new names.
    init(
        from old: Schema.Table, to new: Schema.Table, _ origin: TableOrigin,
        _ tables: [ExactText: (name: String, origin: TableOrigin)]
    ) {
        self.old = old
        self.new = new
        self.origin = origin
        let oldNames = Set((old.columns.map(\.name) + origin.ownerColumns.map(\.name)).map(ExactText.init))
        self.oldNames = oldNames
        let pairs = new.columns.compactMap { column in
            origin.old(column.name).map { (old: $0, new: column.name) }
        }
        renamings = RenameSequence(old.columns.map(\.name), pairs.filter { oldNames.contains(ExactText($0.old)) })
        func mapped(_ origin: TableOrigin) -> (String) -> String {
            let names = [ExactText: String](firstOf: origin.staying.map { ($1.column, $0.text) })
            return { names[$0] ?? $0 }
        }
        let name = mapped(origin)
        renamed = Schema.Table(
            name: new.name,
            columns: old.columns.map { Schema.Column(name: name($0.name), type: $0.type, isRequired: $0.isRequired) },
            primaryKey: old.primaryKey.map(name), unique: old.unique.map { $0.map(name) },
            foreignKeys: old.foreignKeys.map { key in
                let target = tables[key.table]
                return Schema.ForeignKey(
                    columns: key.columns.map(name), table: target?.name ?? key.table,
                    keys: key.keys.map(target.map { mapped($0.origin) } ?? { $0 }), onDelete: key.onDelete)
            },
            indexes: old.indexes.map { Schema.Index(columns: $0.columns.map(name), unique: $0.unique) },
            checks: old.checks.map { Schema.Check(column: name($0.column), entities: $0.entities) })
    }

    // MARK: - Columns

    /// Columns of the new table, before anything has been copied into it.
    var addedColumns: [Schema.Column] { new.columns.filter { !isThere($0.name) } }

    private func isThere(_ column: String) -> Bool {
        origin.old(column).map { oldNames.contains(ExactText($0)) } ?? false
    }

    private var goneColumns: [Schema.Column] {
        let taken = origin.sources
        return old.columns.filter { !taken.contains(ExactText($0.name)) }
    }

    /// The SQL of a column's value, over rows with the store's names of concrete entities, and with its names of columns or new ones.
    func expression(for column: String, isRenamed: Bool) -> String {
        let isConcreteEntity = column.hasSameBytes(as: entityColumnName) && new.columns.last?.name == entityColumnName
        let renamings = isRenamed ? renamings : nil
        let current = { (name: String) in renamings?.current(name) ?? name }
        let value =
            isThere(column) || isConcreteEntity || changesRows(column)
            ? origin.expression(for: column, isConcreteEntity: isConcreteEntity, current: current) : "NULL"
        return column == origin.extra ? origin.taking(value, current: current) : value
    }

    /// Whether some rows need another value than that of the column that stays.
    private func changesRows(_ column: String) -> Bool { origin.values[column] != nil }

    /// The SQL of the value that all rows have in an added column, and that SQLite need not write into them; nil without one.
    private func added(_ column: String) -> String? { isThere(column) ? nil : origin.constant(column) }

    /// Columns with rows that need new values, where the table is not rebuilt, and the SQL of these values.
    var updates: [(column: String, value: String)] {
        new.columns.compactMap { column in
            guard added(column.name) == nil else { return nil }
            let value = expression(for: column.name, isRenamed: true)
            let isPlain = value == (isThere(column.name) ? quoted(column.name) : "NULL")
            return isPlain ? nil : (column.name, value)
        }
    }

    // MARK: - Required changes

    /// The identity that takes the place of the earlier key; nil when the key stays.
    var newIdentity: [String]? { origin.hasNewKey ? new.primaryKey : nil }

    /// Statements that add columns, where the table is not rebuilt.
    ///
    /// The DEFAULT is the value of the rows that are there: SQLite reads it where a row ends before the column. No other
    /// row takes it (``/BrokerStore``), whatever the default in a later model.
    func additions(_ comments: TableComments) -> [String] {
        addedColumns.map { column in
            "ALTER TABLE \(quoted(new.name)) ADD COLUMN \(new.definition(of: column))"
                + (added(column.name).map { " DEFAULT (\($0))" } ?? "") + comments.suffix(of: column)
        }
    }

    /// Statements that add the columns of rows that take them from their owner, after all renamings.
    var ownerStatements: [String] {
        origin.ownerColumns.flatMap { $0.statements(new.name) { renamings.current($0) } }
    }

    /// Whether a constraint changes that SQLite cannot change in place.
    var needsRebuild: Bool {
        let added = Set(addedColumns.map(\.name))
        let isPlain = { (column: Schema.Column) in
            (!column.isRequired || self.added(column.name) != nil) && !new.primaryKey.contains(column.name)
                && !new.unique.contains { $0.contains(column.name) }
                && !new.foreignKeys.contains { $0.columns.count > 1 && $0.columns.contains(column.name) }
        }
        guard goneColumns.isEmpty, addedColumns.allSatisfy(isPlain), renamed.primaryKey == new.primaryKey else {
            return true
        }
        for column in new.columns where !added.contains(column.name) {
            let before = renamed.columns.first { $0.name.hasSameBytes(as: column.name) }
            if before?.type != column.type { return true }
            if before?.isRequired != column.isRequired, !new.primaryKey.contains(column.name) { return true }
        }
        guard Set(renamed.unique) == Set(new.unique), Set(renamed.checks) == Set(new.checks), !origin.mixesColumns,
            !origin.retypes
        else {
            return true
        }
        let keys = new.foreignKeys.filter { added.isDisjoint(with: $0.columns) }
        return keys.count != renamed.foreignKeys.count || !keys.allSatisfy(renamed.foreignKeys.contains)
    }

    /// Unique lists that the rows may violate.
    var newUniqueLists: [[String]] {
        new.unique.filter { list in
            !renamed.unique.contains(list)
                || new.columns.contains { column in list.contains(column.name) && changesRows(column.name) }
        }
    }

    /// Unique lists that stay, with values that are converted: different texts may become equal numbers.
    var convertedUniqueLists: [[String]] {
        let reported = Set(newUniqueLists)
        return new.unique.filter { list in
            !reported.contains(list)
                && list.contains { if case .converted = origin.staying[$0]?.change { true } else { false } }
        }
    }

    /// Unique lists of columns that stay, which are no longer unique.
    var goneUniqueLists: [[String]] {
        let gone = Set(goneColumns.map(\.name))
        return renamed.unique.filter {
            !new.unique.contains($0) && gone.isDisjoint(with: $0) && Set($0) != Set(new.primaryKey)
        }
    }

    /// Foreign keys with another target or another action on deletion: before and after.
    var changedReferences: [(columns: [String], old: Schema.ForeignKey, new: Schema.ForeignKey)] {
        new.foreignKeys.compactMap { key in
            renamed.foreignKeys.first { $0.columns == key.columns && $0 != key }.map { (key.columns, $0, key) }
        }
    }

    // MARK: - Indexes

    /// Names of indexes that are no longer needed, or have another name.
    var goneIndexes: [String] {
        zip(old.indexes, renamed.indexes).compactMap { before, now in
            let name = old.indexName(before)
            return new.indexes.contains(now) && name.hasSameBytes(as: new.indexName(now)) ? nil : name
        }
    }

    /// Lists of columns, without those that are unique.
    var newIndexes: [[String]] {
        new.indexes.filter { $0.unique == nil && !renamed.indexes.contains($0) }.map(\.columns)
    }
    var droppedIndexes: [[String]] {
        let gone = Set(goneColumns.map(\.name))
        return renamed.indexes.filter {
            $0.unique == nil && !new.indexes.contains($0) && gone.isDisjoint(with: $0.columns)
        }.map(\.columns)
    }

    var isIdle: Bool {
        old.name.hasSameBytes(as: new.name) && renamings.steps.isEmpty && addedColumns.isEmpty && !needsRebuild
            && goneIndexes.isEmpty && updates.isEmpty && new.indexes.allSatisfy(renamed.indexes.contains)
    }
}

/// Renamings in an order in which each new name is free: first what has the new name of another part steps aside. SQLite
/// treats names that differ in the case of ASCII letters as equal.
struct RenameSequence {
    private(set) var steps: [(from: String, to: String)] = []

    init(_ present: [String], _ wanted: [(old: String, new: String)]) {
        let changed = wanted.filter { !$0.old.hasSameBytes(as: $0.new) }
        let targets = Set(changed.map { FoldedName($0.new) })
        let taken = Set(present.map(FoldedName.init))
        var number = 0
        for name in present where targets.contains(FoldedName(name)) {
            repeat { number += 1 } while taken.contains(FoldedName("_broker_aside_\(number)"))
            steps.append((name, "_broker_aside_\(number)"))
        }
        steps += changed.map { (current($0.old), $0.new) }
    }

    /// The final name of the part that had that name at the beginning.
    func current(_ name: String) -> String {
        steps.reduce(name) { name, step in name.hasSameBytes(as: step.from) ? step.to : name }
    }
}

/// Changes a store's tables to those of a changed model, inside the caller's transaction.
///
/// Invariants:
/// 1. `foreign_keys` is off, so that a table may be dropped and created again without its rows' links; they are checked
///    at the end.
/// 2. Rows move from table to table inside SQLite: the memory is that of the page cache, however many rows there are.
///    `temp_store` is a file.
/// 3. First all names become those of the changed model, and SQLite changes the names in other programs' additions to
///    the file: foreign keys, triggers, views, indexes. All later steps use the new names alone.
struct MigrationRun {
    let plan: StorePlan
    let connection: Connection

    func run() throws(StoreError) {
        // SQLite renames nothing while a view refers to what is gone; new ones are made in the end.
        try ReadableViews.drop(on: connection)
        for view in plan.goneViews { try connection.execute("DROP VIEW IF EXISTS \(quoted(view.name))") }
        for table in plan.tables {
            for index in table.goneIndexes { try connection.execute("DROP INDEX IF EXISTS \(quoted(index))") }
        }
        let carried = plan.goneTables.filter { plan.carriedTables.contains(ExactText($0)) }
        for table in plan.goneTables where !carried.contains(table) {
            try connection.execute("DROP TABLE \(quoted(table))")
        }
        let staying = plan.presentTables.filter { !plan.goneTables.contains($0) }
        for step in RenameSequence(staying, plan.tables.map { ($0.old.name, $0.new.name) }).steps {
            try connection.execute("ALTER TABLE \(quoted(step.from)) RENAME TO \(quoted(step.to))")
        }
        for table in plan.tables {
            for step in table.renamings.steps {
                try connection.execute(
                    "ALTER TABLE \(quoted(table.new.name)) RENAME COLUMN \(quoted(step.from)) TO \(quoted(step.to))")
            }
        }
        for statement in plan.ownerStatements { try connection.execute(statement) }
        for table in plan.newTables { try connection.execute(table.sql(plan.comments.comments(on: table))) }
        for filling in plan.fillings { try connection.execute(filling) }
        for table in plan.tables where table.newIdentity == nil {
            if table.needsRebuild { try rebuild([table]) } else { try addColumns(to: table) }
        }
        // Links to these are made of their row keys, which are needed until all tables are copied.
        let identified = plan.tables.filter { $0.newIdentity != nil }
        try rebuild(identified)
        for table in carried { try connection.execute("DROP TABLE \(quoted(table))") }
        // The stored keys of the feed are row keys.
        if !identified.isEmpty { try connection.execute("DELETE FROM _broker_feed") }
        try makeIndexes(of: plan.newTables + plan.tables.map(\.new))
        for table in plan.tables where table.needsRebuild {
            guard let (row, parent) = try connection.danglingReference(of: table.new.name) else { continue }
            throw StoreError(
                .incompatible,
                "Row \(row) of the table \(table.new.name) refers to a row of \(parent) that does not exist; something "
                    + "else than Broker changed the file. Correct it, then start again; nothing was touched.")
        }
        for view in plan.newViews { try connection.execute(view.sql) }
    }

    private func addColumns(to table: TableMigration) throws(StoreError) {
        for addition in table.additions(plan.comments.comments(on: table.new)) { try connection.execute(addition) }
        // One UPDATE sets all columns: each value depends on the concrete entities before the change.
        let values = table.updates.map { "\(quoted($0.column)) = \($0.value)" }
        guard !values.isEmpty else { return }
        try connection.execute("UPDATE \(quoted(table.new.name)) SET \(values.joined(separator: ", "))")
    }

    private func rebuild(_ migrations: [TableMigration]) throws(StoreError) {
        for (number, migration) in migrations.enumerated() {
            let table = migration.new
            try connection.execute(table.sql(named: Self.rebuiltName(number), plan.comments.comments(on: table)))
            let values = table.columns.map { migration.expression(for: $0.name, isRenamed: true) }
            try connection.execute(
                "INSERT INTO \(quoted(Self.rebuiltName(number))) (\(quotedList(table.columns.map(\.name)))) "
                    + "SELECT \(values.joined(separator: ", ")) "
                    + "FROM \(quoted(table.name)) AS \(TableOrigin.rowAlias)")
        }
        for (number, migration) in migrations.enumerated() {
            try replace(migration.new, by: Self.rebuiltName(number))
        }
    }

    /// A name that no table of a model can have.
    private static func rebuiltName(_ number: Int) -> String { "_broker_rebuilt_\(number)" }

    private func replace(_ table: Schema.Table, by copy: String) throws(StoreError) {
        let others = try foreignObjects(on: table)
        try connection.execute("DROP TABLE \(quoted(table.name))")
        // With this setting SQLite ignores other programs' views, which lack the table at this moment.
        try connection.execute("PRAGMA legacy_alter_table = ON")
        try connection.execute("ALTER TABLE \(quoted(copy)) RENAME TO \(quoted(table.name))")
        try connection.execute("PRAGMA legacy_alter_table = OFF")
        for (name, sql) in others {
            do throws(StoreError) {
                try connection.execute(sql)
            } catch {
                guard error.code == .defect else { throw error }
                throw StoreError(
                    .incompatible,
                    "\(name), which something else than Broker put on the table \(table.name), does not fit the "
                        + "changed table (\(String(describing: connection.lastMessage))). Drop it, then start again; "
                        + "nothing was touched.", sqliteCode: error.sqliteCode)
            }
        }
    }

    private func foreignObjects(on table: Schema.Table) throws(StoreError) -> [(name: String, sql: String)] {
        let ours = Set(table.indexDefinitions.map { ExactText($0.name) })
        return try connection.texts(
            "SELECT name, sql FROM sqlite_schema WHERE lower(tbl_name) = lower(?1) AND type IN ('index', 'trigger') "
                + "AND sql IS NOT NULL ORDER BY rowid", table.name
        ).filter { !ours.contains(ExactText($0[0])) }.map { ($0[0], $0[1]) }
    }

    private func makeIndexes(of tables: [Schema.Table]) throws(StoreError) {
        let names = try connection.texts("SELECT name FROM sqlite_schema WHERE type = 'index'")
        var present = Set(names.map { FoldedName($0[0]) })
        for table in tables {
            for (name, sql) in table.indexDefinitions where present.insert(FoldedName(name)).inserted {
                try connection.execute(sql)
            }
        }
    }
}
