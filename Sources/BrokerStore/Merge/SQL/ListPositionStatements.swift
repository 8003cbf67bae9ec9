internal import BrokerSchema
/// The SQL of the positions in an object's ordered relationship: in a link table, or beside the elements' links to it.
final class ListPositionStatements {
    private let connection: Connection
    private let table: String
    private let position: String
    /// Column names of the object's key and of the element's.
    private let object: [String]
    private let element: [String]

    /// - Parameter table: quoted, as in SQL.
    init(table: String, object: [String], element: [String], position: String, on connection: Connection) {
        self.table = table
        self.object = object
        self.element = element
        self.position = quoted(position)
        self.connection = connection
    }

    /// Parameters: the object's key. Returns the greatest position; NULL when no element has one.
    func last() throws(StoreError) -> Statement {
        try cached(&lastStatement, "SELECT max(\(position)) FROM \(table) WHERE \(isObject)")
    }
    private var lastStatement: Statement?

    /// Parameters: the object's key. Returns the positions of all its elements.
    func all() throws(StoreError) -> Statement {
        try cached(&allStatement, "SELECT \(position) FROM \(table) WHERE \(isObject)")
    }
    private var allStatement: Statement?

    /// Parameters: the object's key, then the element's. Returns the position; no row when they are not linked.
    func find() throws(StoreError) -> Statement {
        try cached(&findStatement, "SELECT \(position) FROM \(table) WHERE \(isObject) AND \(isElement)")
    }
    private var findStatement: Statement?

    /// Parameters: the object's key, the element's, then the position.
    func set() throws(StoreError) -> Statement {
        let parameter = "?\(object.count + element.count + 1)"
        return try cached(
            &setStatement, "UPDATE \(table) SET \(position) = \(parameter) WHERE \(isObject) AND \(isElement)")
    }
    private var setStatement: Statement?

    private func cached(_ cache: inout Statement?, _ sql: @autoclosure () -> String) throws(StoreError) -> Statement {
        if let cache { return cache }
        let statement = try connection.prepare(sql())
        cache = statement
        return statement
    }

    private var isObject: String { condition(object, from: 1) }
    private var isElement: String { condition(element, from: object.count + 1) }

    private func condition(_ names: [String], from first: Int) -> String {
        names.enumerated().map { "\(quoted($1)) = ?\(first + $0)" }.joined(separator: " AND ")
    }
}
