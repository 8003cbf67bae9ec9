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
        cache = StatementCache(on: connection)
        let link = plan.layout.linkTables[number]
        self.link = link
        let naming = ColumnNaming(model: plan.model, layout: plan.layout)
        table = quoted(naming.linkTable(link))
        sides = naming.linkSides(link)
    }

    private enum Key: Hashable {
        case insert, delete
        case linked(side: Int)
    }

    private let cache: StatementCache<Key>

    /// Inserts all links of the scan; existing links do not change.
    func insert() throws(StoreError) -> Statement {
        try cache.statement(.insert, insertSQL)
    }

    private var insertSQL: String {
        let names = sides.flatMap { $0 }
        let values = names.indices.map { "c\($0)" }.joined(separator: ", ")
        return "INSERT INTO \(table) (\(quotedList(names))) SELECT \(values) "
            + "FROM \(scans.tableName(linkTable: number)) WHERE true ON CONFLICT DO NOTHING"
    }

    /// Parameters: the key of the object at one side. Returns row number and the other side's key of its links.
    func linked(isReversed: Bool) throws(StoreError) -> Statement {
        let side = isReversed ? 1 : 0
        return try cache.statement(
            .linked(side: side),
            "SELECT rowid, \(quotedList(sides[1 - side])) FROM \(table) WHERE \(equations(sides[side]))")
    }

    /// Parameters: a row number.
    func delete() throws(StoreError) -> Statement {
        try cache.statement(.delete, "DELETE FROM \(table) WHERE rowid = ?1")
    }

    /// The positions in the ordered relationship of each side.
    private(set) lazy var positions = [false, true].map { isReversed in
        let position = isReversed ? LinkPosition.inversePosition : .position
        return ListPositionStatements(
            table: table, object: sides[isReversed ? 1 : 0], element: sides[isReversed ? 0 : 1],
            position: position.rawValue, on: connection)
    }
}
