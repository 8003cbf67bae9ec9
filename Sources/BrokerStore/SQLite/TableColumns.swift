internal import BrokerModel
internal import BrokerSchema

/// The columns of a table as SQLite reports them.
struct TableColumns {
    private(set) var positions: [String: Int32] = [:]
    private(set) var realColumns: Set<Int32> = []
    private(set) var long = LongColumns()

    init(of table: String, on connection: Connection) throws(StoreError) {
        let columns = try connection.prepare(
            "SELECT name, cid, type, hidden FROM pragma_table_xinfo(?1) ORDER BY cid", table)
        while try columns.step() {
            let position = Int32(columns.integer(1))
            positions[columns.text(0)] = position
            let affinity = Affinity(declaredType: columns.text(2))
            if affinity == .real { realColumns.insert(position) }
            // SQLite calculates those whose `hidden` is 2 when it reads them.
            long.note(columns.text(0), position, affinity, isStored: columns.integer(3) != 2)
        }
    }

    /// The long columns of each entity's table.
    static func long(of model: Model, on connection: Connection) throws(StoreError) -> [LongColumns] {
        var long = Array(repeating: LongColumns(), count: model.entities.count)
        for index in model.tableEntities {
            let columns = try TableColumns(of: model.table(of: index), on: connection).long
            for member in model.subentities(of: index) { long[member] = columns }
        }
        return long
    }
}
