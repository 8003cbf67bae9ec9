internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The SQL for one entity's objects in its table, prepared on first use.
final class EntityStatements {
    let entity: Entity
    let hasIdentity: Bool
    /// As in ``Entity``. The merge of small jobs asks for these; an entity as a whole is a large value to copy.
    let name: String
    let identity: [Int]
    let hasRowKey: Bool
    let hasUnique: Bool
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
    let kinds: ConcreteEntitySQL?

    /// - Parameter existing: the entity's table, if another program made it.
    init(
        _ index: Int, _ plan: StagingPlan, _ scans: ScanSet, _ existing: ExistingTable?, on connection: Connection
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
        isNamedByRowKey = entity.isNamedByRowKey
        singleIdentity = entity.singleIdentity
        hasPlainKey = entity.singleIdentity.map { $0.type != .boolean } ?? false
        table = columns.table
        kinds = plan.model.isInHierarchy(index) ? ConcreteEntitySQL(index, plan, columns.naming) : nil
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
            columns, kinds, required: required, isForeign: existing != nil, scans, on: connection)
    }

    func name(ofColumn column: Int) -> String { columns.nameInModel(column) }

    private enum Key: Hashable {
        case find, chargingFind, rename, findRowKey, concreteEntityOfRow, key, identityOfRow, modified, count
        case linked(Int)
        case unlink(Int)
    }

    private let cache: StatementCache<Key>

    /// Returns the object with a key; nil when there is none.
    ///
    /// - Parameters:
    ///   - columns: the columns of the table if their long values are charged to the job.
    ///   - bind: binds the key, from parameter 1.
    func find(charging columns: LongColumns? = nil, _ bind: (Statement) -> Void) throws(StoreError) -> StoredObject? {
        let find =
            if let columns, !columns.names.isEmpty {
                try cache.statement(
                    .chargingFind, "\(findSQL) AND \(PredicateFunctions.work(0, for: columns.names.map(quoted)))")
            } else { try cache.statement(.find, findSQL) }
        bind(find)
        defer { find.reset() }
        guard try find.step() else { return nil }
        let concreteEntity = kinds == nil ? nil : plan.model.index(ofEntity: find.text(1))
        return StoredObject(number: find.integer(0), concreteEntity: concreteEntity ?? index)
    }

    private var findSQL: String {
        let names = rowNumber + (kinds == nil ? "" : ", \(quoted(entityColumnName))")
        return "SELECT \(names) FROM \(table) WHERE \(equations(keyNames))"
    }

    func find(_ key: StoredKey, charging columns: LongColumns? = nil) throws(StoreError) -> StoredObject? {
        try find(charging: columns) { key.bind(to: $0, from: 1) }
    }

    /// Parameters: the key. Returns the object in the form of `fetch`.
    func object(_ dates: FetchDates) throws(StoreError) -> ObjectRead {
        if let read = objectReads[dates] { return read }
        let read = try ObjectRead(index, dates, plan, on: connection)
        objectReads[dates] = read
        return read
    }
    private var objectReads: [FetchDates: ObjectRead] = [:]

    /// Parameters: the object's new key, then its old one. References to the object follow.
    func rename() throws(StoreError) -> Statement {
        try cache.statement(.rename, update(keyNames, from: 1, where: equations(keyNames, from: keyNames.count + 1)))
    }

    /// Parameters: the identity. Returns the row key of the object.
    func findRowKey() throws(StoreError) -> Statement {
        // An identity of the entity's own is unique among the objects of the entity that declares it.
        try cache.statement(
            .findRowKey,
            select([rowKeyName], where: entity.identity)
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
            .concreteEntityOfRow, "SELECT \(quoted(entityColumnName)) FROM \(table) WHERE \(rowNumber) = ?1")
    }

    func objectCount() throws(StoreError) -> Int {
        try cache.statement(.count, "SELECT count(*) FROM \(table)").first { Int($0.integer(0)) } ?? 0
    }

    /// Parameters: a link's key. Returns row number and key of the rows whose link at `column` has that key.
    func linked(byColumn column: Int) throws(StoreError) -> Statement {
        try cache.statement(
            .linked(column),
            "SELECT \(rowNumber), \(quotedList(keyNames)) FROM \(table) WHERE \(equations(columns.linkNames(column)))")
    }

    /// Parameters: the key. Returns the key of the object to which the link at `column` leads.
    func owner(_ column: Int) throws(StoreError) -> Statement {
        try connection.prepare(
            "SELECT \(quotedList(columns.linkNames(column))) FROM \(table) WHERE \(equations(keyNames))")
    }

    /// Parameters: a row number. Sets the link at `column` to NULL.
    func unlink(column: Int) throws(StoreError) -> Statement {
        try cache.statement(.unlink(column), unlinkSQL(column))
    }

    private func unlinkSQL(_ column: Int) -> String {
        let names = columns.linkNames(column) + columns.positionNames([column])
        let assignments = names.map { "\(quoted($0)) = NULL" }.joined(separator: ", ")
        return "UPDATE \(table) SET \(assignments) WHERE \(rowNumber) = ?1"
    }

    /// The key of the row with that number; nil when there is no such row.
    func key(ofRow number: Int64) throws(StoreError) -> StoredKey? {
        try cache.statement(.key, "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(rowNumber) = ?1")
            .first(number) { row in StoredKey(keyNames.indices.map { row.cell($0) }) }
    }

    /// Parameters: the key. Returns the values of the identity.
    func identityOfRow() throws(StoreError) -> Statement {
        try cache.statement(.identityOfRow, valuesSQL(of: entity.identity))
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

    /// Parameters: the identity. Returns the value of the attribute that says when the object was modified.
    func modified(_ attribute: Int) throws(StoreError) -> Statement {
        try cache.statement(.modified, select(names([attribute]), where: entity.identity))
    }

    /// Binds the identity from a row of cells.
    ///
    /// - Returns: the next parameter's index.
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

struct StoredObject {
    let number: Int64
    let concreteEntity: Int
}

/// Reads one object in the form of `fetch`, with remote names and without nested objects.
struct ObjectRead {
    /// Parameters: the key. Returns its row.
    let statement: Statement
    private let reader: ObjectReader

    init(_ entity: Int, _ dates: FetchDates, _ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        let shape = ObjectShape(entity: entity, including: [], ObjectShape.Style(names: .remote, dates: dates), plan)
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

/// The SQL of the positions in an object's ordered relationship: in a link table, or beside the elements' links to it.
final class ListPositionStatements {
    private enum Key { case last, find, set }

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

/// SQL about the concrete entities of a hierarchy table's rows, from the view of one of its entities.
///
/// A row of an ancestor becomes a row of the entity, and takes the defaults of its new attributes; a row of a subentity
/// remains one. For any other row the entity would become NULL, which the table rejects: the merge then reads the
/// stored entity.
struct ConcreteEntitySQL {
    let name: String
    private let plan: StagingPlan
    private let naming: ColumnNaming
    private let index: Int
    private let ancestors: [Int]

    init(_ index: Int, _ plan: StagingPlan, _ naming: ColumnNaming) {
        self.index = index
        self.plan = plan
        self.naming = naming
        name = naming.names([index])
        ancestors = plan.model.ancestors(of: index)
    }

    /// Rows of other entities may become rows of this one.
    var mayBecome: Bool { !ancestors.isEmpty }

    private func column(_ row: String) -> String { "\(row).\(quoted(entityColumnName))" }

    private var own: String { naming.names(plan.model.subentities(of: index)) }

    /// The condition that a row is not of this entity; empty where all rows are.
    func isAnother(_ row: String) -> [String] { mayBecome ? ["\(column(row)) NOT IN (\(own))"] : [] }

    func becoming(of row: String) -> [String] {
        guard mayBecome else { return [] }
        return [
            "\(quoted(entityColumnName)) = CASE WHEN \(column(row)) IN (\(own)) THEN \(column(row)) "
                + "WHEN \(column(row)) IN (\(naming.names(ancestors))) THEN \(name) END"
        ]
    }

    /// The assignment of a default to rows that did not have the attribute before; nil where all rows had it.
    ///
    /// - Parameters:
    ///   - value: the SQL of the default.
    ///   - otherwise: the SQL of the value for all other rows.
    func takingDefault(_ attribute: Int, _ value: String, of row: String, otherwise: String) -> String? {
        let lacking = ancestors.filter { !plan.model.entities[$0].attributeIndices.contains(attribute) }
        guard !lacking.isEmpty else { return nil }
        let name = quoted(plan.model.entities[index].attributes[attribute].column)
        return "\(name) = CASE WHEN \(column(row)) IN (\(naming.names(lacking))) THEN \(value) ELSE \(otherwise) END"
    }
}

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

/// The SQL of one link table, prepared on first use.
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
