internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// Writes the key of a fetched object as JSON, in the form of `object` and `after`. Belongs to the connection's thread.
///
/// The key is read by the row's number in the same transaction: an answer needs that of its last object only.
struct FetchedKey {
    private let statement: Statement
    /// The key's attributes, with their names for a key of several; none for the row key.
    private let values: [(name: String, writer: ValueWriter)]

    init(of entity: Int, _ sql: FetchSQL, on connection: Connection) throws(StoreError) {
        statement = try connection.prepare(sql.key(of: entity))
        let own = sql.plan.model.entities[entity]
        // The model's form of a value is the one that reads as the same value, whatever the attribute's formats are.
        values = (own.isNamedByRowKey ? [] : own.identity).map {
            (own.attributes[$0].name, sql.plan.valueWriter(entity: entity, attribute: $0, .model))
        }
    }

    func json(ofRow number: Int64) throws(StoreError) -> [UInt8] {
        defer { statement.reset() }
        statement.bind(number, at: 1)
        guard try statement.step() else { preconditionFailure("a row of the same transaction is there") }
        var writer = JSONWriter(capacity: 32)
        switch values.count {
        case 0: writer.integer(statement.integer(0))
        case 1: values[0].writer.write(statement.cell(0), to: &writer)
        default:
            writer.object { writer in
                for (column, value) in values.enumerated() {
                    writer.key(value.name)
                    value.writer.write(statement.cell(column), to: &writer)
                }
            }
        }
        return writer.bytes
    }
}
