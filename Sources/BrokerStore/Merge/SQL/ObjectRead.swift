internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// Reads one object in the form of `fetch`, with remote names and without nested objects.
struct ObjectRead {
    /// Parameters: the key. Returns its row.
    let statement: Statement
    private let reader: ObjectReader

    init(_ entity: Int, _ dates: FetchDates, _ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        let shape = ObjectShape(entity: entity, including: [], ObjectShape.Style(.remote, dates), plan)
        let sql = FetchSQL(plan)
        reader = try ObjectReader(shape, of: entity, sql, on: connection)
        statement = try connection.prepare(sql.object(entity, shape))
    }

    /// Writes the object whose key is bound; null when there is none.
    func write(to writer: inout JSONWriter) throws(StoreError) {
        guard try statement.step() else { return writer.null() }
        try reader.withRow(of: statement) { reader.shape.write($0, to: &writer) { _, _ in } }
        statement.reset()
    }
}
