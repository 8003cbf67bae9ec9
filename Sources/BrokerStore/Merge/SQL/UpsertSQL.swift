internal import BrokerModel
internal import BrokerStaging

/// The text of one `INSERT … SELECT … ON CONFLICT` over an entity's scan.
struct UpsertSQL {
    private let columns: EntityColumns
    private let kinds: ConcreteEntitySQL?
    /// Staged columns that are inserted.
    private let brought: [Int]
    /// The rows may not bring all of these: ``StagedFunctions`` tell what the current one does.
    private let isRagged: Bool
    private let stagedTable: String
    /// What the row that is there is called.
    private let old: String

    init(
        _ columns: EntityColumns, _ kinds: ConcreteEntitySQL?, _ brought: [Int], isRagged: Bool, _ stagedTable: String,
        _ old: String
    ) {
        self.columns = columns
        self.kinds = kinds
        self.brought = brought
        self.isRagged = isRagged
        self.stagedTable = stagedTable
        self.old = old
    }

    /// - Parameter postponed: staged columns that are not set; rows in which they change are left alone, and noted.
    func prepare(without postponed: Set<Int>, on connection: Connection) throws(StoreError) -> Statement {
        let key = columns.key
        let others = columns.others(brought).flatMap { columns.columns($0) }
        var names = (key + others).map(\.name)
        var values = (key + others).map { "c\($0.number)" }
        var defaults: [Cell] = []
        var taking: [Int: String] = [:]
        for attribute in columns.entity.attributeIndices {
            // A ragged row brings its defaults with it, where it brings nothing else.
            guard isRagged || !brought.contains(attribute), let cell = columns.defaultCell(attribute) else { continue }
            let column = columns.columns(attribute)[0]
            if !isRagged {
                names.append(column.name)
                defaults.append(cell)
                values.append("?\(defaults.count)")
            }
            taking[attribute] = kinds?.takingDefault(
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
                + "DO \(update(without: postponed, taking))")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() { statement.bind(cell, at: position + 1) }
        return statement
    }

    /// What becomes of a row that is there.
    ///
    /// - Parameter taking: by attribute, the assignment of a default to rows that become more special.
    private func update(without postponed: Set<Int>, _ taking: [Int: String]) -> String {
        let set = columns.others(brought).filter { !postponed.contains($0) }
        let differences = differences(set) + (kinds?.isAnother(old) ?? [])
        var assignments = set.filter { taking[$0] == nil }.flatMap { columns.columns($0) }
            .map { "\(quoted($0.name)) = \(value($0))" }
        assignments += taking.sorted { $0.key < $1.key }.map(\.value)
        assignments += columns.leavingPlaces(set, of: old) { anyOf(self.differences([$0])) }
        assignments += kinds?.becoming(of: old) ?? []
        var condition = anyOf(differences)
        let unset = postponed.sorted().flatMap { columns.columns($0) }
        if let first = unset.first {
            let postpones = calls(StagedFunctions.postpones, unset)
            // There may be nothing else to look at: then the answer, which is 0 or 1, does not count. Of a condition that is
            // false whatever a function says, SQLite would not call it.
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

    /// Calls of a function over columns, each over as many that follow one another as it takes.
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
