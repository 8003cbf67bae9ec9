package import BrokerSQLite
internal import BrokerModel

/// Changes a store's tables to those of a changed model, inside the caller's transaction.
///
/// Invariants:
/// 1. `foreign_keys` is off, so that a table may be dropped and created again without its rows' links; they are checked
///    at the end.
/// 2. Rows move from table to table inside SQLite: the memory is that of the page cache, however many rows there are.
///    `temp_store` is a file.
/// 3. First all names become those of the changed model, and SQLite changes the names in other programs' additions to
///    the file: foreign keys, triggers, views, indexes. All later steps use the new names alone.
package struct MigrationRun {
    private let connection: Connection
    private let plan: StorePlan

    package init(_ plan: StorePlan, on connection: Connection) {
        self.plan = plan
        self.connection = connection
    }

    package func run() throws(StoreError) {
        // SQLite renames nothing while a view refers to what is gone; new ones are made in the end.
        try ReadableViews.drop(on: connection)
        for view in plan.goneViews { try connection.execute("DROP VIEW IF EXISTS \(quoted(view.name))") }
        for table in plan.tables {
            for index in table.goneIndexes { try connection.execute("DROP INDEX IF EXISTS \(quoted(index))") }
        }
        for table in plan.goneTables { try connection.execute("DROP TABLE \(quoted(table))") }
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
        // The stored keys of the feed are row keys.
        if !identified.isEmpty { try connection.execute("DELETE FROM _broker_feed") }
        try makeIndexes(of: plan.newTables + plan.tables.map(\.new))
        for table in plan.tables where table.needsRebuild { try checkReferences(of: table.new) }
        for view in plan.newViews { try connection.execute(view.sql) }
    }

    private func addColumns(to table: TableMigration) throws(StoreError) {
        let comments = plan.comments.comments(on: table.new)
        for column in table.addedColumns {
            try connection.execute(
                "ALTER TABLE \(quoted(table.new.name)) ADD COLUMN \(table.new.definition(of: column))"
                    + comments.suffix(of: column))
        }
        // A DEFAULT clause would stay in the table, and apply to rows for which a later model has another default or
        // none. One UPDATE sets all columns: each value depends on the concrete entities before the change.
        let values = table.updates.map { "\(quoted($0.column)) = \($0.value)" }
        guard !values.isEmpty else { return }
        try connection.execute("UPDATE \(quoted(table.new.name)) SET \(values.joined(separator: ", "))")
    }

    /// Copies all of the tables, then puts the copies in their places.
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

    /// Indexes and triggers on a table that are not the model's.
    private func foreignObjects(on table: Schema.Table) throws(StoreError) -> [(name: String, sql: String)] {
        let ours = Set(table.indexDefinitions.map { Array($0.name.utf8) })
        let statement = try connection.prepare(
            "SELECT name, sql FROM sqlite_schema WHERE lower(tbl_name) = lower(?1) AND type IN ('index', 'trigger') "
                + "AND sql IS NOT NULL ORDER BY rowid", table.name)
        var others: [(name: String, sql: String)] = []
        while try statement.step() {
            if !ours.contains(Array(statement.bytes(0))) { others.append((statement.text(0), statement.text(1))) }
        }
        return others
    }

    private func makeIndexes(of tables: [Schema.Table]) throws(StoreError) {
        let read = try connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'index'")
        var present: Set<Name> = []
        while try read.step() { present.insert(Name(read.text(0))) }
        for table in tables {
            for (name, sql) in table.indexDefinitions where present.insert(Name(name)).inserted {
                try connection.execute(sql)
            }
        }
    }

    private func checkReferences(of table: Schema.Table) throws(StoreError) {
        let check = try connection.prepare("SELECT rowid, parent FROM pragma_foreign_key_check(?1) LIMIT 1", table.name)
        guard try check.step() else { return }
        let (row, parent) = (check.integer(0), check.text(1))
        check.reset()
        throw StoreError(
            .incompatible,
            "Row \(row) of the table \(table.name) refers to a row of \(parent) that does not exist; something else "
                + "than Broker changed the file. Correct it, then start again; nothing was touched.")
    }
}
