internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The SQL of one link table, prepared on first use.
final class LinkStatements {
    let link: LinkTable
    private let number: Int
    private let scans: ScanSet
    private let connection: Connection
    private let table: String
    /// Column names of the two sides.
    private let sides: [[String]]

    init(_ number: Int, _ plan: StagingPlan, _ scans: ScanSet, on connection: Connection) {
        self.number = number
        self.scans = scans
        self.connection = connection
        let link = plan.layout.linkTables[number]
        self.link = link
        let naming = ColumnNaming(model: plan.model, layout: plan.layout)
        table = quoted(naming.linkTable(link))
        sides = naming.linkSides(link)
    }

    /// Inserts all links of the scan; existing links do not change.
    func insert() throws(StoreError) -> Statement {
        if let insertStatement { return insertStatement }
        let names = sides.flatMap { $0 }
        let values = names.indices.map { "c\($0)" }.joined(separator: ", ")
        let statement = try connection.prepare(
            "INSERT INTO \(table) (\(quotedList(names))) SELECT \(values) FROM \(scans.tableName(linkTable: number)) "
                + "WHERE true ON CONFLICT DO NOTHING")
        insertStatement = statement
        return statement
    }
    private var insertStatement: Statement?

    /// Parameters: the key of the object at one side. Returns row number and the other side's key of its links.
    func linked(isReversed: Bool) throws(StoreError) -> Statement {
        let side = isReversed ? 1 : 0
        if let known = linkedStatements[side] { return known }
        let conditions = sides[side].enumerated().map { "\(quoted($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
        let statement = try connection.prepare(
            "SELECT rowid, \(quotedList(sides[1 - side])) FROM \(table) WHERE \(conditions)")
        linkedStatements[side] = statement
        return statement
    }
    private var linkedStatements: [Statement?] = [nil, nil]

    /// Parameters: a row number.
    func delete() throws(StoreError) -> Statement {
        if let deleteStatement { return deleteStatement }
        let statement = try connection.prepare("DELETE FROM \(table) WHERE rowid = ?1")
        deleteStatement = statement
        return statement
    }
    private var deleteStatement: Statement?

    /// The positions in the ordered relationship of each side.
    private(set) lazy var positions = [false, true].map { isReversed in
        let position = isReversed ? LinkPosition.inversePosition : .position
        return ListPositionStatements(
            table: table, object: sides[isReversed ? 1 : 0], element: sides[isReversed ? 0 : 1],
            position: position.rawValue, on: connection)
    }
}
