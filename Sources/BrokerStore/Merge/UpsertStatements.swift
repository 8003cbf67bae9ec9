internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The statements that merge staged rows into one entity's table, by the columns of the rows.
///
/// ```
/// all rows have the same columns ─▶ the plain statements
/// the rows' columns differ ───────▶ the ragged statements
/// ```
final class UpsertStatements {
    /// Maximum number of cached statements, so that records with ever new sets of keys do not hold memory for good.
    private static let maximumGroups = 256

    /// By column of the virtual table, the inserted value where a row has none: the default, or for a required column
    /// some value that the table accepts. Such rows must turn out to exist.
    private let absentValues: UnsafePointer<Cell>
    private let columns: EntityColumns
    private let isInHierarchy: Bool
    /// Staged columns that an insert requires besides the identity: attributes, and links that another program's table requires.
    let required: [Int]
    private let isForeign: Bool
    private let defaulted: [String]
    private let connection: Connection
    private let stagedTable: String
    private var uniform: [[Int]: Upsert] = [:]
    private var updates: [[Int]: Statement] = [:]
    private var ragged: Upsert?
    /// An alias for the stored row that cannot collide: the table may be called "excluded", too.
    private let old = quoted("_broker_old")

    /// - Parameter isForeign: another program made the table, which may have defaults and constraints of its own.
    init(
        _ columns: EntityColumns, required: [Int], isForeign: Bool, _ scans: ScanSet, defaulted: [String],
        on connection: Connection
    ) {
        self.defaulted = defaulted
        self.columns = columns
        isInHierarchy = columns.plan.model.isInHierarchy(columns.index)
        self.required = required
        self.isForeign = isForeign
        self.connection = connection
        stagedTable = scans.tableName(entity: columns.plan.model.topmost(of: columns.index))
        let count = columns.virtualColumnCount
        let values = UnsafeMutablePointer<Cell>.allocate(capacity: count)
        values.initialize(repeating: .null, count: count)
        for attribute in columns.entity.attributeIndices {
            let model = columns.entity.attributes[attribute]
            let value = columns.defaultCell(attribute) ?? (model.isOptional ? .null : model.placeholder)
            values[columns.columns(attribute)[0].number] = value
        }
        absentValues = UnsafePointer(values)
    }

    deinit { absentValues.deallocate() }

    // MARK: - Choice of the statement

    func canInsert(_ present: [Int]) -> Bool { !columns.entity.isAbstract && required.allSatisfy(present.contains) }

    func canInsert(_ row: UnsafePointer<Cell>) -> Bool {
        !columns.entity.isAbstract && required.allSatisfy { row[$0].kind != .absent }
    }

    /// Whether one statement merges the group, whatever columns its rows have.
    func mergesAtOnce(_ group: RowGroup, of table: FrozenTable) -> Bool {
        if let present = group.columns {
            return canInsert(present) || acceptsPlaceholders(required.filter { !present.contains($0) })
        }
        guard !isForeign, !hasSubentityColumns(group, of: table) else { return false }
        let lacking = required.filter { column in
            group.range.contains { table.row(group.order[$0])[column].kind == .absent }
        }
        return lacking.isEmpty && !columns.entity.isAbstract || acceptsPlaceholders(lacking)
    }

    /// Whether a row has a column of a subentity. The entity by which the job names the object may be an ancestor: the
    /// ragged statement has the columns of the group's entity alone, and would drop such a value.
    private func hasSubentityColumns(_ group: RowGroup, of table: FrozenTable) -> Bool {
        guard isInHierarchy else { return false }
        let others = Set(0..<table.columnCount).subtracting(columns.all)
        return !others.isEmpty
            && group.range.contains { position in
                let row = table.row(group.order[position])
                return others.contains { row[$0].kind != .absent }
            }
    }

    /// Whether rows may be inserted with placeholders there, because they meet their object's key before any other constraint.
    private func acceptsPlaceholders(_ lacking: [Int]) -> Bool {
        !isForeign && !isInHierarchy
            && !lacking.contains { column in
                columns.entity.unique.contains { $0.contains(column) }
            }
    }

    // MARK: - Statements

    /// The statements for a group for which ``mergesAtOnce(_:of:)`` is true.
    func upsert(_ present: [Int]?) throws(StoreError) -> Upsert {
        guard let present, canInsert(present) else {
            if let ragged { return ragged }
            let upsert = try prepare(columns.all, isRagged: true)
            ragged = upsert
            return upsert
        }
        if let known = uniform[present] { return known }
        if uniform.count >= Self.maximumGroups { uniform.removeAll() }
        let upsert = try prepare(present, isRagged: false)
        uniform[present] = upsert
        return upsert
    }

    private func prepare(_ present: [Int], isRagged: Bool) throws(StoreError) -> Upsert {
        try Upsert(
            UpsertSQL(
                columns: columns, present: present, isRagged: isRagged, defaulted: defaulted, stagedTable: stagedTable,
                old: old),
            without: columns.indexed.intersection(columns.others(present)),
            absentValues: isRagged ? absentValues : nil, on: connection)
    }

    /// The columns of the rows besides the key of their objects.
    func others(_ present: [Int]) -> [Int] { columns.others(present) }

    /// The update of one object that exists, for rows that bring these columns; nil when they bring the key alone.
    ///
    /// Parameters: the new values, then the key.
    func update(_ present: [Int]) throws(StoreError) -> Statement? {
        let names = others(present).flatMap { columns.columns($0).map(\.name) }
        guard !names.isEmpty else { return nil }
        if let known = updates[present] { return known }
        if updates.count >= Self.maximumGroups { updates.removeAll() }
        let table = columns.table
        let places = columns.clearingPositions(present, of: table) { column in
            columns.linkNames(column).map { name in
                "\(quoted(name)) IS NOT ?\(names.firstIndex { $0.hasSameBytes(as: name) }! + 1)"
            }.joined(separator: " OR ")
        }
        let values = ExtraFunction.values(names.map(quoted), of: columns.entity)
        let assignments = zip(names, values).map { "\(quoted($0)) = \($1)" } + places
        let update = try connection.prepare(
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) "
                + "WHERE \(equations(columns.keyNames, from: names.count + 1)) "
                + "AND (\(anyOf(zip(names, values).map { "\(quoted($0)) IS NOT \($1)" })))")
        updates[present] = update
        return update
    }
}

extension Attribute {
    fileprivate var placeholder: Cell {
        switch columnStorage {
        case .integer: .integer(0)
        case .real: .real(0)
        case .blob: .blob(UnsafeBufferPointer(start: nil, count: 0))
        case .text: .text(UnsafeBufferPointer(start: nil, count: 0))
        }
    }
}

/// The conditions joined by OR, as a tree of small height: SQLite allows expressions of 1,000 levels.
func anyOf(_ conditions: [String]) -> String { anyOf(conditions[...]) }

private func anyOf(_ conditions: ArraySlice<String>) -> String {
    guard conditions.count > 8 else { return conditions.joined(separator: " OR ") }
    let middle = conditions.startIndex + conditions.count / 2
    return "(\(anyOf(conditions[..<middle]))) OR (\(anyOf(conditions[middle...])))"
}

/// The statements that merge rows with values for some columns, each over the scan: new rows take the defaults, changed
/// rows are updated, equal rows are not written.
///
/// ```
/// last time, most rows were equal ─▶ comparison ─▶ rows that are new or differ ─┐
/// otherwise ─▶ all rows ────────────────────────────────────────────────────────┴─▶ first ─▶ second
/// ```
///
/// The first and the second are an `INSERT … SELECT`, which gets all values of a row before it looks for the stored one.
/// The comparison gets the key alone, and one call of a function compares the rest in place.
///
/// An UPDATE that names an indexed column costs several times one that does not, even if the value does not change. So
/// the first statement names none, and records which rows need the second.
final class Upsert {
    private let sql: UpsertSQL
    private let connection: Connection
    private let first: Statement
    /// Nil when no column that is set has an index.
    private let second: Statement?
    private let absentValues: UnsafePointer<Cell>?
    private var comparison: Statement?
    private var wereMostlyEqual = false

    init(
        _ sql: UpsertSQL, without indexed: Set<Int>, absentValues: UnsafePointer<Cell>?, on connection: Connection
    ) throws(StoreError) {
        self.sql = sql
        self.connection = connection
        self.absentValues = absentValues
        first = try sql.prepare(without: indexed, on: connection)
        second = indexed.isEmpty ? nil : try sql.prepare(without: [], on: connection)
    }

    /// Rows may have fewer columns than the statements.
    var isRagged: Bool { absentValues != nil }

    /// Merges a part of the scan's order, which the caller then clears.
    ///
    /// - Parameter comparedRows: so many rows are worth a comparison; nil for none, because the instructions of SQLite
    ///   must not depend on the rows that were merged before.
    // Inlined into its caller, its closures make the optimizer of Swift 6.3 fail ("Found outside of lifetime use").
    @inline(never) func run(
        _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>, _ tally: UnsafeMutablePointer<MergeTally>,
        comparedRows: Int?
    ) throws(StoreError) {
        scan.pointee.absentValues = absentValues
        guard let comparedRows, range.count >= comparedRows else { return _ = try write(range, scan, tally) }
        var different = 0
        if wereMostlyEqual {
            let places = try postponed(by: try preparedComparison(), range, scan, tally)
            different = places.count
            try reorder(places, scan) { range throws(StoreError) in _ = try write(range, scan, tally) }
        } else {
            different = try write(range, scan, tally)
        }
        wereMostlyEqual = 2 * different < range.count
    }

    private func preparedComparison() throws(StoreError) -> Statement {
        if let comparison { return comparison }
        let prepared = try sql.prepareComparison(on: connection)
        comparison = prepared
        return prepared
    }

    /// Returns the number of rows that were inserted or updated.
    private func write(
        _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>, _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) -> Int {
        let places = try postponed(by: first, range, scan, tally)
        var written = connection.changes
        guard let second else { return written }
        try reorder(places, scan) { range throws(StoreError) in
            scan.pointee.read(range)
            try MergeTally.counting(tally, to: scan, of: .entityRows) { () throws(StoreError) in try second.run() }
            written += connection.changes
        }
        return written
    }

    /// Runs a statement over a part of the scan's order. Returns the positions of the rows that it recorded.
    private func postponed(
        by statement: Statement, _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>,
        _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) -> [UInt32] {
        var postponed: [UInt32] = []
        try withUnsafeMutablePointer(to: &postponed) { postponed throws(StoreError) in
            scan.pointee.postponed = postponed
            scan.pointee.read(range)
            defer { scan.pointee.postponed = nil }
            try MergeTally.counting(tally, to: scan, of: .entityRows) { () throws(StoreError) in try statement.run() }
        }
        return postponed
    }

    /// Makes the rows at some positions, if any, the scan's order while `body` runs.
    private func reorder(
        _ places: [UInt32], _ scan: UnsafeMutablePointer<StagedScan>, _ body: (Range<Int>) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard !places.isEmpty else { return }
        let order = places.map { scan.pointee.order![Int($0)] }
        let jobs = scan.pointee.jobs.map { jobs in places.map { jobs[Int($0)] } }
        try order.withUnsafeBufferPointer { order throws(StoreError) in
            scan.pointee.order = order.baseAddress
            guard let jobs else { return try body(0..<order.count) }
            try jobs.withUnsafeBufferPointer { jobs throws(StoreError) in
                scan.pointee.jobs = jobs.baseAddress
                try body(0..<order.count)
            }
        }
    }
}

/// The text of one `INSERT … SELECT … ON CONFLICT` over an entity's scan.
struct UpsertSQL {
    fileprivate let columns: EntityColumns
    fileprivate let present: [Int]
    /// The rows may lack values for some of these columns: ``StagedFunctions`` know which values the current row has.
    fileprivate let isRagged: Bool
    /// Columns with a DEFAULT, which is not for new rows.
    fileprivate let defaulted: [String]
    fileprivate let stagedTable: String
    fileprivate let old: String

    /// - Parameter postponed: staged columns that are not set. Rows in which they change are not updated, and are
    ///   recorded.
    func prepare(without postponed: Set<Int>, on connection: Connection) throws(StoreError) -> Statement {
        let key = columns.key
        let others = columns.others(present).flatMap { columns.columns($0) }
        var names = (key + others).map(\.name)
        var values = (key + others).map { $0.isExtra ? "\(StagedFunctions.extra)(NULL)" : "c\($0.number)" }
        var defaults: [Cell] = []
        // The scan of a ragged row supplies its defaults for the columns that it lacks.
        for attribute in isRagged ? [] : columns.entity.attributeIndices where !present.contains(attribute) {
            guard let cell = columns.defaultCell(attribute) else { continue }
            names.append(columns.columns(attribute)[0].name)
            defaults.append(cell)
            values.append("?\(defaults.count)")
        }
        if model.isInHierarchy(columns.index) {
            names.append(entityColumnName)
            values.append(columns.naming.names([columns.index]))
        }
        for name in defaulted where !names.contains(where: name.hasSameBytes) {
            names.append(name)
            values.append("NULL")
        }
        let statement = try connection.prepare(
            "INSERT INTO \(columns.table) AS \(old) (\(quotedList(names))) SELECT \(values.joined(separator: ", ")) "
                + "FROM \(stagedTable) WHERE true ON CONFLICT (\(quotedList(key.map(\.name)))) "
                + "DO \(update(without: postponed))")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() { statement.bind(cell, at: position + 1) }
        return statement
    }

    /// A statement that changes nothing, and records the rows that are new or differ from the stored ones. For
    /// batches (``SetMerge/isBatch``): they have no rows of hierarchies, which also differ in their entity.
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

    private var model: Model { columns.plan.model }

    /// The update of a stored row. That of an object which is not of the entity, or of one below it, sets its entity to NULL,
    /// which the table rejects: the interpreter then decides what the object becomes.
    private func update(without postponed: Set<Int>) -> String {
        let set = columns.others(present).filter { !postponed.contains($0) }
        var differences = differences(set)
        var assignments = set.flatMap { columns.columns($0) }.map { "\(quoted($0.name)) = \(value($0))" }
        assignments += columns.clearingPositions(set, of: old) { anyOf(self.differences([$0])) }
        if model.entities[columns.index].parent != nil {
            let entity = "\(old).\(quoted(entityColumnName))"
            let own = columns.naming.names(model.subentities(of: columns.index))
            differences.append("\(entity) NOT IN (\(own))")
            assignments.append("\(quoted(entityColumnName)) = CASE WHEN \(entity) IN (\(own)) THEN \(entity) END")
        }
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
        if column.isExtra { return "\(StagedFunctions.extra)(\(old).\(name))" }
        return isRagged ? "\(StagedFunctions.value)(\(column.number), \(old).\(name))" : "excluded.\(name)"
    }

    private func differences(_ staged: [Int]) -> [String] {
        let columns = staged.flatMap { self.columns.columns($0) }
        if isRagged { return calls(StagedFunctions.differs, columns) }
        return columns.map { "\(old).\(quoted($0.name)) IS NOT \(value($0))" }
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
    struct Column {
        let name: String
        let number: Int
        /// It is `_extra`.
        var isExtra = false
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

    /// The columns besides the key, and `_extra`: a value takes the place of one that is there.
    func others(_ staged: [Int]) -> [Int] {
        let others = staged.filter { entity.hasRowKey || !entity.identity.contains($0) }
        guard let extra = entity.extra, !others.isEmpty, !others.contains(extra) else { return others }
        return (others + [extra]).sorted()
    }

    /// Staged columns that are part of an index: an UPDATE that sets one is slow, even if the value does not change.
    var indexed: Set<Int> {
        let attributes = (entity.unique + entity.indexes).joined()
        return Set(attributes).union(entity.identity).union(layout.attributeCount..<layout.columnCount)
    }

    var virtualColumnCount: Int {
        (entity.hasRowKey ? 1 : 0) + layout.attributeCount + linkOffsets[linkOffsets.count - 1]
    }

    /// The table columns of a staged column; several for a link whose key has several.
    func columns(_ staged: Int) -> [Column] {
        let first = entity.hasRowKey ? 1 : 0
        let attributes = entity.attributes.count
        if staged < attributes {
            let attribute = entity.attributes[staged]
            return [Column(name: attribute.column, number: first + staged, isExtra: attribute.isExtra)]
        }
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

    func nameInModel(_ column: Int) -> String {
        guard column >= layout.attributeCount else { return entity.attributes[column].name }
        return entity.relationships[layout.link(atColumn: column).relationship].name
    }

    func defaultCell(_ attribute: Int) -> Cell? { plan.defaultCell(entity: index, attribute: attribute) }

    /// Resets the position of an object whose link changes to another ordered relationship: it has no position there
    /// yet (``SetMerge/mergeListPositions()``). `differs` returns the condition that the link at a column changes.
    func clearingPositions(_ present: [Int], of row: String, _ differs: (Int) -> String) -> [String] {
        present.flatMap { column in
            positionNames([column]).map { position in
                "\(quoted(position)) = CASE WHEN \(differs(column)) THEN NULL ELSE \(row).\(quoted(position)) END"
            }
        }
    }
}
