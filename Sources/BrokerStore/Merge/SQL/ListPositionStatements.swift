internal import BrokerSchema

/// The SQL of the positions in an object's ordered relationship: in a link table, or beside the elements' links to it.
final class ListPositionStatements {
    private enum Key { case last, all, find, set }

    private let cache: StatementCache<Key>
    private let table: String
    private let position: String
    private let isObject: String
    private let isElement: String
    private let keyCount: Int

    /// - Parameters:
    ///   - table: quoted, as in SQL.
    ///   - object: column names of the object's key.
    ///   - element: those of the element's key.
    init(table: String, object: [String], element: [String], position: String, on connection: Connection) {
        self.table = table
        self.position = quoted(position)
        isObject = equations(object)
        isElement = equations(element, from: object.count + 1)
        keyCount = object.count + element.count
        cache = StatementCache(on: connection)
    }

    /// Parameters: the object's key. Returns the greatest position; NULL when no element has one.
    func last() throws(StoreError) -> Statement {
        try cache.statement(.last, "SELECT max(\(position)) FROM \(table) WHERE \(isObject)")
    }

    /// Parameters: the object's key. Returns the positions of all its elements.
    func all() throws(StoreError) -> Statement {
        try cache.statement(.all, "SELECT \(position) FROM \(table) WHERE \(isObject)")
    }

    /// Parameters: the object's key, then the element's. Returns the position; no row when they are not linked.
    func find() throws(StoreError) -> Statement {
        try cache.statement(.find, "SELECT \(position) FROM \(table) WHERE \(isObject) AND \(isElement)")
    }

    /// Parameters: the object's key, the element's, then the position.
    func set() throws(StoreError) -> Statement {
        try cache.statement(
            .set, "UPDATE \(table) SET \(position) = ?\(keyCount + 1) WHERE \(isObject) AND \(isElement)")
    }
}
