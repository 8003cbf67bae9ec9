/// Statements of a connection, each prepared on first use.
final class StatementCache<Key: Hashable> {
    private let connection: Connection
    private var statements: [Key: Statement] = [:]

    init(on connection: Connection) { self.connection = connection }

    /// - Parameter sql: evaluated on first use; the same for the same key.
    func statement(_ key: Key, _ sql: @autoclosure () -> String) throws(StoreError) -> Statement {
        if let known = statements[key] { return known }
        let statement = try connection.prepare(sql())
        statements[key] = statement
        return statement
    }
}
