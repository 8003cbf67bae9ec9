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
    /// How rows are merged that have the same columns, but cannot be inserted.
    enum Update {
        /// Row by row: they can only update existing objects.
        case rows(Statement)
        /// They have only their key: existing objects do not change.
        case nothing
    }

    /// Maximum number of cached statements, so that records with ever new sets of keys do not hold memory for good.
    private static let maximumGroups = 256

    /// By column of the virtual table, the inserted value where a row has none: the default, or for a required column
    /// some value that the table accepts. Such rows must turn out to exist.
    private let absentValues: UnsafePointer<Cell>
    private let columns: EntityColumns
    private let kinds: ConcreteEntitySQL?
    /// Staged columns that an insert requires besides the identity: attributes, and links that another program's table
    /// requires.
    let required: [Int]
    private let isForeign: Bool
    private let connection: Connection
    private let stagedTable: String
    private var uniform: [[Int]: Upsert] = [:]
    private var updates: [[Int]: Update] = [:]
    private var ragged: Upsert?
    /// An alias for the stored row that cannot collide: the table may be called "excluded", too.
    private let old = quoted("_broker_old")

    /// - Parameters:
    ///   - required: see ``required``.
    ///   - isForeign: another program made the table, which may have defaults and constraints of its own.
    init(
        _ columns: EntityColumns, _ kinds: ConcreteEntitySQL?, required: [Int], isForeign: Bool, _ scans: ScanSet,
        on connection: Connection
    ) {
        self.columns = columns
        self.kinds = kinds
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

    /// Whether rows with values for these columns can be inserted.
    func canInsert(_ present: [Int]) -> Bool { !columns.entity.isAbstract && required.allSatisfy(present.contains) }

    /// Whether the row has all values that an insert requires.
    func canInsert(_ row: UnsafePointer<Cell>) -> Bool {
        !columns.entity.isAbstract && required.allSatisfy { row[$0].kind != .absent }
    }

    /// A required column for which the row has no value; nil when there is none.
    func lacking(_ row: UnsafePointer<Cell>) -> Int? { required.first { row[$0].kind == .absent } }

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
        guard kinds != nil else { return false }
        let others = Set(0..<table.columnCount).subtracting(columns.all)
        return !others.isEmpty
            && group.range.contains { position in
                let row = table.row(group.order[position])
                return others.contains { row[$0].kind != .absent }
            }
    }

    /// Whether rows may be inserted with placeholders in these columns, because they conflict with their object's key
    /// before any other constraint.
    private func acceptsPlaceholders(_ lacking: [Int]) -> Bool {
        !isForeign && kinds == nil
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
            UpsertSQL(columns, kinds, present, isRagged: isRagged, stagedTable, old),
            without: columns.indexed.intersection(columns.others(present)),
            absentValues: isRagged ? absentValues : nil, on: connection)
    }

    /// The update for a group that does not merge at once, whose rows have the same columns.
    func update(_ present: [Int]) throws(StoreError) -> Update {
        if let known = updates[present] { return known }
        if updates.count >= Self.maximumGroups { updates.removeAll() }
        let others = columns.others(present).flatMap { columns.columns($0).map(\.name) }
        let update: Update =
            others.isEmpty && !(kinds?.mayBecome ?? false) ? .nothing : .rows(try prepareUpdate(others, present))
        updates[present] = update
        return update
    }

    /// Parameters: the new values, then the key.
    private func prepareUpdate(_ names: [String], _ present: [Int]) throws(StoreError) -> Statement {
        let (table, keyNames) = (columns.table, columns.keyNames)
        let places = columns.clearingPositions(present, of: table) { column in
            columns.linkNames(column).map { name in
                "\(quoted(name)) IS NOT ?\(names.firstIndex { $0.hasSameBytes(as: name) }! + 1)"
            }.joined(separator: " OR ")
        }
        // After the values and the key.
        var parameter = names.count + keyNames.count
        var defaults: [Cell] = []
        var becoming = kinds?.becoming(of: table) ?? []
        for attribute in columns.entity.attributeIndices where kinds != nil && !present.contains(attribute) {
            guard let cell = columns.defaultCell(attribute) else { continue }
            let name = "\(table).\(quoted(columns.entity.attributes[attribute].column))"
            let assignment = kinds!.takingDefault(attribute, "?\(parameter + 1)", of: table, otherwise: name)
            guard let assignment else { continue }
            becoming.append(assignment)
            defaults.append(cell)
            parameter += 1
        }
        let assignments = names.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" } + places + becoming
        let differences =
            names.enumerated().map { "\(quoted($1)) IS NOT ?\($0 + 1)" } + (kinds?.isAnother(table) ?? [])
        let statement = try connection.prepare(
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) "
                + "WHERE \(equations(keyNames, from: names.count + 1)) AND (\(anyOf(differences)))")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() {
            statement.bind(cell, at: names.count + keyNames.count + position + 1)
        }
        return statement
    }
}

extension Attribute {
    /// A value that a required column accepts.
    fileprivate var placeholder: Cell {
        switch columnStorage {
        case .integer: .integer(0)
        case .real: .real(0)
        case .blob: .blob(UnsafeBufferPointer(start: nil, count: 0))
        case .text: .text(UnsafeBufferPointer(start: nil, count: 0))
        }
    }
}

/// The conditions joined by OR, as a tree of small height: SQLite allows expressions of 1,000 levels, and 2,000
/// columns.
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
    /// By column of the virtual table, the inserted value where a row has none; nil when all rows have the same columns.
    private let absentValues: UnsafePointer<Cell>?
    /// Nil until it is needed.
    private var comparison: Statement?
    private var wereMostlyEqual = false

    /// - Parameters:
    ///   - indexed: staged columns that the first statement does not set.
    ///   - absentValues: see ``absentValues``; used as long as this object.
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
    func run(
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

    /// - Returns: the number of rows that were inserted or updated.
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

    /// Runs a statement over a part of the scan's order.
    ///
    /// - Returns: the positions of the rows that it recorded.
    private func postponed(
        by statement: Statement, _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>,
        _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) -> [UInt32] {
        var postponed = PostponedRows()
        try withUnsafeMutablePointer(to: &postponed) { postponed throws(StoreError) in
            scan.pointee.postponed = postponed
            scan.pointee.read(range)
            defer { scan.pointee.postponed = nil }
            try MergeTally.counting(tally, to: scan, of: .entityRows) { () throws(StoreError) in try statement.run() }
        }
        return postponed.places
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
