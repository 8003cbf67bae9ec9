internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

final class EntityStatements {
    let entity: Entity
    let hasIdentity: Bool
    /// As in ``Entity``. The merge of small jobs asks for these; an entity as a whole is a large value to copy.
    let name: String
    let identity: [Int]
    let hasRowKey: Bool
    let hasUnique: Bool
    /// Unique values of some list are judged when a record brings them, also where the job fails with it: the list has no column
    /// for parked values, or another program's table may not take these.
    let judgesUnique: Bool
    let singleIdentity: Attribute?
    /// Objects are named by one value of their identity, which is written as it is stored if it is an integer.
    let hasPlainKey: Bool
    /// The integer by which an object is named is written as it is stored.
    var writesIntegers: Bool { hasPlainKey || isNamedByRowKey }
    private let isNamedByRowKey: Bool
    private let index: Int
    private let plan: StagingPlan
    private let columns: EntityColumns
    private let connection: Connection
    private let table: String
    let upserts: UpsertStatements
    private let isInHierarchy: Bool

    init(
        _ index: Int, _ plan: StagingPlan, _ scans: ScanSet, _ existing: ExistingTable?, _ defaults: DeclaredDefaults,
        checksValues: Bool, on connection: Connection
    ) {
        self.index = index
        self.plan = plan
        self.connection = connection
        cache = StatementCache(on: connection)
        let entity = plan.model.entities[index]
        let columns = EntityColumns(index, plan)
        self.entity = entity
        self.columns = columns
        hasIdentity = !entity.identity.isEmpty
        name = entity.name
        identity = entity.identity
        hasRowKey = entity.hasRowKey
        hasUnique = !entity.unique.isEmpty
        judgesUnique = entity.unique.contains {
            checksValues || plan.model.parkingColumn(of: $0, plan.model.topmost(of: index)) == nil
        }
        isNamedByRowKey = entity.isNamedByRowKey
        singleIdentity = entity.singleIdentity
        hasPlainKey = entity.singleIdentity.map { $0.type != .boolean } ?? false
        table = columns.table
        isInHierarchy = plan.model.isInHierarchy(index)
        keyNames = columns.keyNames
        let layout = plan.layout.entities[index]
        let requiredLinks = (layout.attributeCount..<layout.columnCount).filter { column in
            columns.linkNames(column).contains { existing?.column($0)?.mustBeGiven ?? false }
        }
        let required =
            entity.attributeIndices.filter {
                // Every row has an identity where that is the key.
                !entity.attributes[$0].isOptional
                    && (!entity.identity.contains($0) || entity.hasIdentityOfItsOwn)
                    && plan.defaultCell(entity: index, attribute: $0) == nil
            } + requiredLinks
        upserts = UpsertStatements(
            columns, required: required, isForeign: existing != nil, scans,
            defaulted: defaults.names(in: plan.model.table(of: index)), on: connection)
    }

    func name(ofColumn column: Int) -> String { columns.nameInModel(column) }

    private let cache: StatementCache

    /// Returns the object with a key, which `bind` binds from 1 on. Long values of the columns are charged to the job.
    func find(charging columns: LongColumns? = nil, _ bind: (Statement) -> Void) throws(StoreError) -> StoredObject? {
        let find =
            if let columns, !columns.names.isEmpty {
                try cache.statement(
                    1, sql: "\(findSQL) AND \(PredicateFunctions.work(0, for: columns.names.map(quoted)))")
            } else { try cache.statement(0, sql: findSQL) }
        bind(find)
        defer { find.reset() }
        guard try find.step() else { return nil }
        let concreteEntity = isInHierarchy ? plan.model.index(ofEntity: find.text(1)) : nil
        return StoredObject(number: find.integer(0), concreteEntity: concreteEntity ?? index)
    }

    private var findSQL: String {
        let names = rowNumber + (isInHierarchy ? ", \(quoted(entityColumnName))" : "")
        return "SELECT \(names) FROM \(table) WHERE \(equations(keyNames))"
    }

    func find(_ key: StoredKey, charging columns: LongColumns? = nil) throws(StoreError) -> StoredObject? {
        try find(charging: columns) { key.bind(to: $0, from: 1) }
    }

    /// Parameters: the key. Returns the object in the form of `fetch`.
    func object(_ form: ObjectForm, hasVersion: Bool = false) throws(StoreError) -> ObjectRead {
        let style = ObjectShape.Style(names: form.names, dates: form.dates, hasVersion: hasVersion)
        if let read = objectReads[style] { return read }
        let read = try ObjectRead(index, style, plan, on: connection)
        objectReads[style] = read
        return read
    }
    private var objectReads: [ObjectShape.Style: ObjectRead] = [:]

    /// Parameters: the object's new key, then its old one. References to the object follow.
    func rename() throws(StoreError) -> Statement {
        try cache.statement(sql: update(keyNames, from: 1, where: equations(keyNames, from: keyNames.count + 1)))
    }

    /// Parameters: the identity. Returns the row key of the object.
    func findRowKey() throws(StoreError) -> Statement {
        // An identity of the entity's own is unique among the objects of the entity that declares it.
        try cache.statement(
            sql: select([rowKeyName], where: entity.identity)
                + (entity.hasIdentityOfItsOwn ? identityHead.map { " AND \($0)" } ?? "" : ""))
    }

    /// The condition that a row is one of the objects among which the identity is unique.
    private var identityHead: String? {
        let model = plan.model
        let owners = [index] + model.ancestors(of: index)
        return owners.last { !model.entities[$0].identity.isEmpty }.flatMap { columns.naming.entityCondition($0) }
    }

    /// Parameters: a row number. Returns the name of the object's concrete entity.
    func concreteEntityOfRow() throws(StoreError) -> Statement {
        try cache.statement(
            sql: "SELECT \(quoted(entityColumnName)) FROM \(table) WHERE \(rowNumber) = ?1")
    }

    func objectCount() throws(StoreError) -> Int {
        try cache.statement(sql: "SELECT count(*) FROM \(table)").first { Int($0.integer(0)) } ?? 0
    }

    /// Parameters: a link's key. Returns row number and key of the rows whose link at `column` has that key.
    func linked(byColumn column: Int) throws(StoreError) -> Statement {
        try cache.statement(
            column,
            sql: "SELECT \(rowNumber), \(quotedList(keyNames)) FROM \(table) "
                + "WHERE \(equations(columns.linkNames(column)))")
    }

    /// Parameters: the key. Returns the key of the object to which the link at `column` leads.
    func owner(_ column: Int) throws(StoreError) -> Statement {
        try cache.statement(
            column, sql: "SELECT \(quotedList(columns.linkNames(column))) FROM \(table) WHERE \(equations(keyNames))")
    }

    /// The key of the row with that number; nil when there is no such row.
    func key(ofRow number: Int64) throws(StoreError) -> StoredKey? {
        try cache.statement(sql: "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(rowNumber) = ?1")
            .first(number) { row in StoredKey(keyNames.indices.map { row.cell($0) }) }
    }

    /// Parameters: the key. Returns the values of the identity.
    func identityOfRow() throws(StoreError) -> Statement {
        try cache.statement(sql: valuesSQL(of: entity.identity))
    }

    /// The positions of the objects in the ordered relationship whose links are at `column`.
    func positions(byColumn column: Int) -> ListPositionStatements {
        if let known = positionStatements[column] { return known }
        let statements = ListPositionStatements(
            table: table, object: columns.linkNames(column), element: keyNames,
            position: columns.positionNames([column])[0],
            on: connection)
        positionStatements[column] = statements
        return statements
    }
    private var positionStatements: [Int: ListPositionStatements] = [:]

    /// Parameters: the identity. Returns the value of the attribute that says when the object was modified and, in a hierarchy,
    /// the name of the object's concrete entity.
    func modified(_ attribute: Int) throws(StoreError) -> Statement {
        let entityName = isInHierarchy ? [entityColumnName] : []
        return try cache.statement(sql: select(names([attribute]) + entityName, where: entity.identity))
    }

    /// Binds the identity from a row of cells. Returns the next parameter's index.
    @discardableResult
    func bindIdentity(_ cells: UnsafePointer<Cell>, to statement: Statement, from index: Int) -> Int {
        for (position, column) in entity.identity.enumerated() { statement.bind(cells[column], at: index + position) }
        return index + entity.identity.count
    }

    let keyNames: [String]

    // MARK: - SQL

    /// The SQL name of the row number, in a table whose columns may have any name.
    private var rowNumber: String { columns.rowNumber }

    private func names(_ attributes: [Int]) -> [String] { attributes.map { entity.attributes[$0].column } }

    private func select(_ names: [String], where attributes: [Int]) -> String {
        "SELECT \(quotedList(names)) FROM \(table) WHERE \(equations(self.names(attributes)))"
    }

    private func valuesSQL(of attributes: [Int]) -> String {
        "SELECT \(quotedList(names(attributes))) FROM \(table) WHERE \(equations(keyNames))"
    }

    private func update(_ names: [String], from first: Int, where condition: String) -> String {
        "UPDATE \(table) SET \(equations(names, from: first, by: ", ")) WHERE \(condition)"
    }
}

extension Model {
    /// The column for parked values of a unique list: the first that neither identifies an object nor says when it was modified.
    func parkingColumn(of list: [Int], _ table: Int) -> Int? {
        let entities = subentities(of: table).map { self.entities[$0] }
        return list.first { attribute in
            entities.allSatisfy { !$0.identity.contains(attribute) && $0.modified != attribute }
        }
    }
}

struct StoredObject {
    let number: Int64
    let concreteEntity: Int
}

/// Reads one object in the form of `fetch`, without nested objects.
struct ObjectRead {
    /// Parameters: the key. Returns its row.
    let statement: Statement
    private let reader: ObjectReader

    init(
        _ entity: Int, _ style: ObjectShape.Style, _ plan: StagingPlan, on connection: Connection
    ) throws(StoreError) {
        let shape = ObjectShape(entity: entity, including: [], style, plan)
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

/// Statements about the positions in an object's ordered relationship, in a link table or beside the elements' links.
final class ListPositionStatements {
    private let cache: StatementCache
    private let table: String
    private let position: String
    private let object: [String]
    private let element: [String]

    /// - Parameter table: quoted, as in SQL. Object and element are named by the columns of their keys.
    init(table: String, object: [String], element: [String], position: String, on connection: Connection) {
        (self.table, self.object, self.element) = (table, object, element)
        self.position = quoted(position)
        cache = StatementCache(on: connection)
    }

    /// Parameters: the object's key. Returns the greatest position; NULL when no element has one.
    func last() throws(StoreError) -> Statement {
        try cache.statement(sql: "SELECT max(\(position)) FROM \(table) WHERE \(equations(object))")
    }

    /// Parameters: the object's key, then the element's. Returns the position; no row when they are not linked.
    func find() throws(StoreError) -> Statement {
        try cache.statement(sql: "SELECT \(position) FROM \(table) WHERE \(equations(object + element))")
    }

    /// Parameters: the object's key, the element's, then the position.
    func set() throws(StoreError) -> Statement {
        let both = object + element
        return try cache.statement(
            sql: "UPDATE \(table) SET \(position) = ?\(both.count + 1) WHERE \(equations(both))")
    }
}

/// Statements of a connection, each prepared on first use.
final class StatementCache {
    private struct Key: Hashable {
        /// The address of the name of the function that returns the statement.
        let function: UInt
        let numbers: SIMD2<Int>
        let columns: [Int]
    }

    private let connection: Connection
    private var statements: [Key: Statement] = [:]

    init(on connection: Connection) { self.connection = connection }

    /// The statement of the calling function for these numbers, by which its SQL differs. That is evaluated on first use.
    func statement(
        _ first: Int = 0, _ second: Int = 0, columns: [Int] = [], of function: StaticString = #function,
        sql: @autoclosure () -> String
    ) throws(StoreError) -> Statement {
        let key = Key(
            function: UInt(bitPattern: function.utf8Start), numbers: SIMD2(first, second), columns: columns)
        if let known = statements[key] { return known }
        let statement = try connection.prepare(sql())
        statements[key] = statement
        return statement
    }
}

final class LinkStatements {
    let link: LinkTable
    private let number: Int
    private let scans: ScanSet
    private let connection: Connection
    private let table: String
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

    private let cache: StatementCache

    /// Inserts all links of the scan; existing links do not change.
    func insert() throws(StoreError) -> Statement {
        try cache.statement(sql: insertSQL)
    }

    private var insertSQL: String {
        let positions = [LinkPosition.position, .inversePosition]
        let names = sides.flatMap { $0 } + link.orderedSides.map { positions[$0].rawValue }
        let values = names.indices.map { "c\($0)" }.joined(separator: ", ")
        return "INSERT INTO \(table) (\(quotedList(names))) SELECT \(values) "
            + "FROM \(scans.tableName(linkTable: number)) WHERE true ON CONFLICT DO NOTHING"
    }

    /// Parameters: the key of the object at one side. Returns row number and the other side's key of its links.
    func linked(isReversed: Bool) throws(StoreError) -> Statement {
        let side = isReversed ? 1 : 0
        return try cache.statement(
            side,
            sql: "SELECT rowid, \(quotedList(sides[1 - side])) FROM \(table) WHERE \(equations(sides[side]))")
    }

    private(set) lazy var positions = [false, true].map { isReversed in
        let position = isReversed ? LinkPosition.inversePosition : .position
        return ListPositionStatements(
            table: table, object: sides[isReversed ? 1 : 0], element: sides[isReversed ? 0 : 1],
            position: position.rawValue, on: connection)
    }
}
