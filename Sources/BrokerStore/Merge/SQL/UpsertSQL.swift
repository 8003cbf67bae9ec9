internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The text of one `INSERT … SELECT … ON CONFLICT` over an entity's scan.
struct UpsertSQL {
    private let columns: EntityColumns
    private let kinds: ConcreteEntitySQL?
    /// Staged columns that are inserted.
    private let present: [Int]
    /// The rows may lack values for some of these columns: ``StagedFunctions`` know which values the current row has.
    private let isRagged: Bool
    private let stagedTable: String
    /// The SQL name of the stored row.
    private let old: String

    init(
        _ columns: EntityColumns, _ kinds: ConcreteEntitySQL?, _ present: [Int], isRagged: Bool, _ stagedTable: String,
        _ old: String
    ) {
        self.columns = columns
        self.kinds = kinds
        self.present = present
        self.isRagged = isRagged
        self.stagedTable = stagedTable
        self.old = old
    }

    /// - Parameter postponed: staged columns that are not set. Rows in which they change are not updated, and are
    ///   recorded.
    func prepare(without postponed: Set<Int>, on connection: Connection) throws(StoreError) -> Statement {
        let key = columns.key
        let others = columns.others(present).flatMap { columns.columns($0) }
        var names = (key + others).map(\.name)
        var values = (key + others).map { "c\($0.number)" }
        var defaults: [Cell] = []
        var defaultAssignments: [Int: String] = [:]
        for attribute in columns.entity.attributeIndices {
            // The scan of a ragged row supplies its defaults for the columns that it lacks.
            guard isRagged || !present.contains(attribute), let cell = columns.defaultCell(attribute) else { continue }
            let column = columns.columns(attribute)[0]
            if !isRagged {
                names.append(column.name)
                defaults.append(cell)
                values.append("?\(defaults.count)")
            }
            defaultAssignments[attribute] = kinds?.takingDefault(
                attribute, isRagged ? "excluded.\(quoted(column.name))" : "?\(defaults.count)", of: old,
                otherwise: isRagged && !postponed.contains(attribute) ? value(column) : "\(old).\(quoted(column.name))")
        }
        if let kinds {
            names.append(entityColumnName)
            values.append(kinds.name)
        }
        let statement = try connection.prepare(
            "INSERT INTO \(columns.table) AS \(old) (\(quotedList(names))) SELECT \(values.joined(separator: ", ")) "
                + "FROM \(stagedTable) WHERE true ON CONFLICT (\(quotedList(key.map(\.name)))) "
                + "DO \(update(without: postponed, defaultAssignments))")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() { statement.bind(cell, at: position + 1) }
        return statement
    }

    /// A statement that changes nothing, and records the rows that are new or differ from the stored ones. For
    /// batches (``BatchMerge``): they have no rows of hierarchies, which also differ in their entity.
    func prepareComparison(on connection: Connection) throws(StoreError) -> Statement {
        let key = columns.key
        let compared = key + columns.others(present).flatMap { columns.columns($0) }
        let match = key.map { "\(old).\(quoted($0.name)) = staged.c\($0.number)" }.joined(separator: " AND ")
        // The key of no stored row is NULL, and differs. The results of the function, 0 or 1, do not count.
        let none = calls(StagedFunctions.postpones, compared).map { "\($0) < 0" }
        return try connection.prepare(
            "SELECT 1 FROM \(stagedTable) AS staged LEFT JOIN \(columns.table) AS \(old) ON \(match) "
                + "WHERE \(anyOf(none))")
    }

    /// The update of a stored row.
    ///
    /// - Parameter taking: by attribute, the assignment of a default to rows that become rows of a subentity.
    private func update(without postponed: Set<Int>, _ defaultAssignments: [Int: String]) -> String {
        let set = columns.others(present).filter { !postponed.contains($0) }
        let differences = differences(set) + (kinds?.isAnother(old) ?? [])
        var assignments = set.filter { defaultAssignments[$0] == nil }.flatMap { columns.columns($0) }
            .map { "\(quoted($0.name)) = \(value($0))" }
        assignments += defaultAssignments.sorted { $0.key < $1.key }.map(\.value)
        assignments += columns.clearingPositions(set, of: old) { anyOf(self.differences([$0])) }
        assignments += kinds?.becoming(of: old) ?? []
        var condition = anyOf(differences)
        let unset = postponed.sorted().flatMap { columns.columns($0) }
        if let first = unset.first {
            let postpones = calls(StagedFunctions.postpones, unset)
            // There may be no other column to compare: then the result of the function, 0 or 1, must not count. SQLite
            // would not call the function in a condition that is false whatever it returns.
            condition =
                differences.isEmpty
                ? anyOf(postpones.map { "\($0) < 0" }) : "NOT (\(anyOf(postpones))) AND (\(condition))"
            if assignments.isEmpty { assignments = ["\(quoted(first.name)) = \(old).\(quoted(first.name))"] }
        }
        guard !assignments.isEmpty else { return "NOTHING" }
        return "UPDATE SET \(assignments.joined(separator: ", ")) WHERE \(condition)"
    }

    private func value(_ column: EntityColumns.Column) -> String {
        let name = quoted(column.name)
        return isRagged ? "\(StagedFunctions.value)(\(column.number), \(old).\(name))" : "excluded.\(name)"
    }

    private func differences(_ staged: [Int]) -> [String] {
        let columns = staged.flatMap { self.columns.columns($0) }
        if isRagged { return calls(StagedFunctions.differs, columns) }
        return columns.map { "\(old).\(quoted($0.name)) IS NOT excluded.\(quoted($0.name))" }
    }

    /// Calls of a function over columns, each over as many consecutive columns as the function takes.
    private func calls(_ function: String, _ columns: [EntityColumns.Column]) -> [String] {
        var calls: [[EntityColumns.Column]] = []
        for column in columns {
            let newest = calls.last
            if let newest, newest.last!.number == column.number - 1, newest.count < StagedFunctions.columnsPerCall {
                calls[calls.count - 1].append(column)
            } else {
                calls.append([column])
            }
        }
        return calls.map { columns in
            let olds = columns.map { "\(old).\(quoted($0.name))" }.joined(separator: ", ")
            return "\(function)(\(columns[0].number), \(olds))"
        }
    }
}

/// The names of an entity's staged columns in its table, and in the virtual table over its staged rows.
struct EntityColumns {
    /// A column of the table, and its number in the virtual table.
    struct Column {
        let name: String
        let number: Int
    }

    let index: Int
    let plan: StagingPlan
    let naming: ColumnNaming
    let entity: Entity
    /// The quoted name of the table; for a hierarchy, that of its topmost entity.
    let table: String
    /// The columns of the virtual table before those of each link, without the key and the attributes; then all of them.
    private let linkOffsets: [Int]

    init(_ index: Int, _ plan: StagingPlan) {
        self.index = index
        self.plan = plan
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        entity = plan.model.entities[index]
        table = quoted(plan.model.entities[plan.model.topmost(of: index)].table)
        let layout = plan.layout.entities[index]
        var offsets = [0]
        for column in layout.attributeCount..<layout.columnCount {
            let relationship = entity.relationships[layout.link(atColumn: column).relationship]
            offsets.append(offsets[offsets.count - 1] + naming.keyColumns(relationship.destination).count)
        }
        linkOffsets = offsets
    }

    private var layout: EntityLayout { plan.layout.entities[index] }

    /// Names of the columns that identify an object.
    var keyNames: [String] { naming.keyColumns(index).map(\.name) }

    var key: [Column] {
        entity.hasRowKey ? [Column(name: rowKeyName, number: 0)] : entity.identity.flatMap { columns($0) }
    }

    /// The SQL name of the row number, in a table whose columns may have any name.
    var rowNumber: String { naming.rowNumber(index) }

    /// The staged columns that its objects have: attributes, then links.
    var all: [Int] {
        let links = (layout.attributeCount..<layout.columnCount).filter {
            entity.relationshipIndices.contains(layout.link(atColumn: $0).relationship)
        }
        return entity.attributeIndices + links
    }

    /// The staged columns without the key.
    func others(_ staged: [Int]) -> [Int] { staged.filter { entity.hasRowKey || !entity.identity.contains($0) } }

    /// Staged columns that are part of an index: an UPDATE that sets one is slow, even if the value does not change.
    var indexed: Set<Int> {
        let attributes = (entity.unique + entity.indexes).joined()
        return Set(attributes).union(entity.identity).union(layout.attributeCount..<layout.columnCount)
    }

    /// The number of columns of the virtual table.
    var virtualColumnCount: Int {
        (entity.hasRowKey ? 1 : 0) + layout.attributeCount + linkOffsets[linkOffsets.count - 1]
    }

    /// The table columns of a staged column; several for a link whose key has several.
    func columns(_ staged: Int) -> [Column] {
        let first = entity.hasRowKey ? 1 : 0
        let attributes = entity.attributes.count
        if staged < attributes { return [Column(name: entity.attributes[staged].column, number: first + staged)] }
        let before = first + attributes + linkOffsets[staged - attributes]
        return linkNames(staged).enumerated().map { Column(name: $1, number: before + $0) }
    }

    func linkNames(_ column: Int) -> [String] {
        naming.linkColumns(entity.relationships[layout.link(atColumn: column).relationship])
    }

    /// The position columns of the links at these staged columns.
    func positionNames(_ columns: [Int]) -> [String] {
        columns.filter { $0 >= layout.attributeCount }.compactMap { column in
            plan.model.positionColumn(of: entity.relationships[layout.link(atColumn: column).relationship])
        }
    }

    /// The model's name of a staged column.
    func nameInModel(_ column: Int) -> String {
        guard column >= layout.attributeCount else { return entity.attributes[column].name }
        return entity.relationships[layout.link(atColumn: column).relationship].name
    }

    /// The default of an attribute; nil when it has none.
    func defaultCell(_ attribute: Int) -> Cell? { plan.defaultCell(entity: index, attribute: attribute) }

    /// Resets the position of an object whose link changes to another ordered relationship: it has no position there
    /// yet (``JobMerge/mergeListPositions()``).
    ///
    /// - Parameters:
    ///   - row: the SQL name of the stored row.
    ///   - differs: returns the condition that the link at a column changes.
    func clearingPositions(_ present: [Int], of row: String, _ differs: (Int) -> String) -> [String] {
        present.flatMap { column in
            positionNames([column]).map { position in
                "\(quoted(position)) = CASE WHEN \(differs(column)) THEN NULL ELSE \(row).\(quoted(position)) END"
            }
        }
    }
}
