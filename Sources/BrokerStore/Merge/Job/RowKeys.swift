internal import BrokerSchema
internal import BrokerModel

/// The row keys (`_pk`), which the store assigns: one counter for each table, which rises by one with each new object.
///
/// The newest key of each table is written in the transaction that took it. So the next key depends only on the jobs
/// that were applied, and not on shared transactions, failed jobs or restarts. A committed key is never assigned again,
/// whatever is deleted.
///
/// A value type: restoring an earlier value releases the keys that were taken since.
struct RowKeys {
    /// By entity index: the newest key of the table; nil before it is read.
    private var newest: [Int64?]
    /// By entity index: the newest key according to the store; nil before it is read.
    private var stored: [Int64?]
    private var hasChanges = false

    init(entityCount: Int) {
        newest = Array(repeating: nil, count: entityCount)
        stored = newest
    }

    /// Takes the next key for an object of that entity.
    mutating func take(_ entity: EntityStatements, _ index: Int, on connection: Connection) throws(StoreError) -> Int64
    {
        try read(entity, index, on: connection)
        newest[index]! += 1
        hasChanges = true
        return newest[index]!
    }

    /// Reads the newest key of the entity's table, unless it is known.
    mutating func read(_ entity: EntityStatements, _ index: Int, on connection: Connection) throws(StoreError) {
        guard newest[index] == nil else { return }
        let table = entity.entity.table
        let inTable = try connection.integer("SELECT max(\(rowKeyName)) FROM \(quoted(table))") ?? 0
        let meta = StoreMeta(connection: connection)
        let own = try meta.newestRowKey(of: table)
        let common = own == nil ? try meta.value(of: .rowKeys).flatMap { Int64($0) } : nil
        newest[index] = max(inTable, own ?? common ?? 0)
        stored[index] = own ?? 0
        hasChanges = hasChanges || newest[index] != stored[index]
    }

    /// Writes the changed counters, in the open transaction.
    mutating func write(_ entities: [EntityStatements], on connection: Connection) throws(StoreError) {
        guard hasChanges else { return }
        let meta = StoreMeta(connection: connection)
        for (index, key) in newest.enumerated() where key != nil && key != stored[index] {
            try meta.set(newestRowKey: key!, of: entities[index].entity.table)
            stored[index] = key
        }
        hasChanges = false
    }
}
