internal import BrokerModel

/// The migration of one existing table.
///
/// Names are changed and columns are added in place where SQLite can (`ALTER TABLE`). Where a constraint changes, or a
/// column is removed, a new table is created and the rows are copied (https://sqlite.org/lang_altertable.html, section
/// 7).
package struct TableMigration {
    /// The table in the store.
    package let old: Schema.Table
    /// The table after the migration.
    package let new: Schema.Table
    package let origin: TableOrigin
    /// The old table with the names of the new one; removed columns keep theirs.
    private let renamed: Schema.Table
    /// The bytes of the old table's names.
    private let oldNames: Set<[UInt8]>
    package let renamings: RenameSequence

    /// - Parameter tables: by old name, the origins of all tables that stay and their new names.
    package init(
        from old: Schema.Table, to new: Schema.Table, _ origin: TableOrigin,
        _ tables: [[UInt8]: (name: String, origin: TableOrigin)]
    ) {
        self.old = old
        self.new = new
        self.origin = origin
        let oldNames = Set((old.columns.map(\.name) + origin.ownerColumns.map(\.name)).map { Array($0.utf8) })
        self.oldNames = oldNames
        let pairs = new.columns.compactMap { column in
            origin.old(column.name).map { (old: $0, new: column.name) }
        }
        renamings = RenameSequence(old.columns.map(\.name), pairs.filter { oldNames.contains(Array($0.old.utf8)) })
        func mapped(_ origin: TableOrigin) -> (String) -> String {
            let names = Dictionary(
                origin.columns.map { (Array($1.utf8), String(decoding: $0, as: UTF8.self)) },
                uniquingKeysWith: { first, _ in first })
            return { names[Array($0.utf8)] ?? $0 }
        }
        let name = mapped(origin)
        renamed = Schema.Table(
            name: new.name,
            columns: old.columns.map { Schema.Column(name: name($0.name), type: $0.type, isRequired: $0.isRequired) },
            primaryKey: old.primaryKey.map(name), unique: old.unique.map { $0.map(name) },
            foreignKeys: old.foreignKeys.map { key in
                let target = tables[Array(key.table.utf8)]
                return Schema.ForeignKey(
                    columns: key.columns.map(name), table: target?.name ?? key.table,
                    keys: key.keys.map(target.map { mapped($0.origin) } ?? { $0 }), onDelete: key.onDelete)
            },
            indexes: old.indexes.map { $0.map(name) },
            checks: old.checks.map { Schema.Check(column: name($0.column), entities: $0.entities) },
            partialUnique: old.partialUnique.map {
                Schema.PartialList(entity: $0.entity, columns: $0.columns.map(name), condition: $0.condition)
            })
    }

    // MARK: - Columns

    /// Columns of the new table, before anything has been copied into it.
    package var addedColumns: [Schema.Column] { new.columns.filter { !isThere($0.name) } }

    private func isThere(_ column: String) -> Bool {
        origin.old(column).map { oldNames.contains(Array($0.utf8)) } ?? false
    }

    private var goneColumns: [Schema.Column] {
        let taken = origin.sources
        return old.columns.filter { !taken.contains(Array($0.name.utf8)) }
    }

    /// The SQL of a column's value, over rows with the store's names of concrete entities.
    ///
    /// - Parameter isRenamed: whether the store's columns have their new names.
    package func expression(for column: String, isRenamed: Bool) -> String {
        let isConcreteEntity = column.hasSameBytes(as: entityColumnName) && new.columns.last?.name == entityColumnName
        guard isThere(column) || isConcreteEntity || changesRows(column) else { return "NULL" }
        let renamings = isRenamed ? renamings : nil
        return origin.expression(for: column, isConcreteEntity: isConcreteEntity) { renamings?.current($0) ?? $0 }
    }

    /// Whether some rows need another value than that of the column that stays.
    private func changesRows(_ column: String) -> Bool { origin.values[Array(column.utf8)] != nil }

    /// Columns with rows that need new values, where the table is not rebuilt, and the SQL of these values.
    package var updates: [(column: String, value: String)] {
        new.columns.compactMap { column in
            let value = expression(for: column.name, isRenamed: true)
            let isPlain = value == (isThere(column.name) ? quoted(column.name) : "NULL")
            return isPlain ? nil : (column.name, value)
        }
    }

    // MARK: - Required changes

    /// The identity that takes the place of the row key; nil when the key stays.
    package var newIdentity: [String]? { replacesRowKey ? new.primaryKey : nil }

    /// Statements that add the columns of rows that take them from their owner, after all renamings.
    package var ownerStatements: [String] {
        origin.ownerColumns.flatMap { $0.statements(new.name) { renamings.current($0) } }
    }

    private var replacesRowKey: Bool { old.primaryKey == [rowKeyName] && new.primaryKey != [rowKeyName] }

    /// Whether a constraint changes that SQLite cannot change in place.
    package var needsRebuild: Bool {
        let added = Set(addedColumns.map(\.name))
        let isPlain = { (column: Schema.Column) in
            !column.isRequired && !new.primaryKey.contains(column.name)
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
        guard Set(renamed.unique) == Set(new.unique), Set(renamed.checks) == Set(new.checks), !origin.mixesColumns
        else {
            return true
        }
        let keys = new.foreignKeys.filter { added.isDisjoint(with: $0.columns) }
        return keys.count != renamed.foreignKeys.count || !keys.allSatisfy(renamed.foreignKeys.contains)
    }

    /// Unique lists that the rows may violate.
    package var newUniqueLists: [[String]] {
        new.unique.filter { list in
            !renamed.unique.contains(list)
                || new.columns.contains { column in list.contains(column.name) && changesRows(column.name) }
        }
    }

    /// Unique lists that stay, with values that are converted: different texts may become equal numbers.
    package var convertedUniqueLists: [[String]] {
        let reported = Set(newUniqueLists)
        return new.unique.filter { list in
            !reported.contains(list)
                && list.contains { if case .converted = origin.change(of: $0) { true } else { false } }
        }
    }

    /// Unique lists of columns that stay, which are no longer unique.
    package var goneUniqueLists: [[String]] {
        let gone = Set(goneColumns.map(\.name))
        return renamed.unique.filter {
            !new.unique.contains($0) && gone.isDisjoint(with: $0) && Set($0) != Set(new.primaryKey)
        }
    }

    /// Foreign keys with another target or another action on deletion: before and after.
    package var changedReferences: [(columns: [String], old: Schema.ForeignKey, new: Schema.ForeignKey)] {
        new.foreignKeys.compactMap { key in
            renamed.foreignKeys.first { $0.columns == key.columns && $0 != key }.map { (key.columns, $0, key) }
        }
    }

    // MARK: - Indexes

    /// Names of indexes that are no longer needed, or have another name.
    package var goneIndexes: [String] {
        let wanted = Set(new.indexes.map { Array(new.indexName($0).utf8) })
        return zip(old.indexes, renamed.indexes).map { (old.indexName($0), new.indexName($1)) }
            .filter { !$0.hasSameBytes(as: $1) || !wanted.contains(Array($1.utf8)) }.map(\.0) + gonePartialIndexes
    }

    private var gonePartialIndexes: [String] {
        zip(old.partialUnique, renamed.partialUnique).compactMap { before, now in
            let name = old.partialIndexName(before)
            return new.partialUnique.contains(now) && name.hasSameBytes(as: new.partialIndexName(now)) ? nil : name
        }
    }

    package var newIndexes: [[String]] { new.indexes.filter { !renamed.indexes.contains($0) } }
    package var droppedIndexes: [[String]] {
        let gone = Set(goneColumns.map(\.name))
        return renamed.indexes.filter { !new.indexes.contains($0) && gone.isDisjoint(with: $0) }
    }

    /// Nothing in the table changes.
    package var isIdle: Bool {
        old.name.hasSameBytes(as: new.name) && renamings.steps.isEmpty && addedColumns.isEmpty && !needsRebuild
            && goneIndexes.isEmpty && newIndexes.isEmpty && updates.isEmpty
            && new.partialUnique.allSatisfy(renamed.partialUnique.contains)
    }
}
