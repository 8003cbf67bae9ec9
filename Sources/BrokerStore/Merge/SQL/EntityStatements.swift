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
    /// Objects are named by one value, which is written as it is stored if it is an integer.
    let hasPlainKey: Bool
    private let index: Int
    private let plan: StagingPlan
    private let columns: EntityColumns
    private let connection: Connection
    private let table: String
    let upserts: UpsertStatements
    /// Nil for an entity outside of hierarchies.
    let kinds: ConcreteEntitySQL?
    /// The condition that a row is one of the entity's objects; nil when all are.
    let entityCondition: String?

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
        singleIdentity = entity.singleIdentity
        hasPlainKey = entity.singleIdentity.map { $0.type != .boolean } ?? false
        table = columns.table
        kinds = plan.model.isInHierarchy(index) ? ConcreteEntitySQL(index, plan, columns.naming) : nil
        entityCondition = columns.naming.entityCondition(index)
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

    /// Whether the rows are those of the entity's table.
    func isAbout(_ table: FrozenTable) -> Bool { table.entityIndex == tableIndex }

    var tableIndex: Int { plan.model.topmost(of: index) }

    /// The model's name of a staged column.
    func name(ofColumn column: Int) -> String { columns.nameInModel(column) }

    private enum Key: Hashable {
        case find, chargingFind, rename, identify, findRowKey, concreteEntityOfRow, key, identityOfRow, modified, count
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

    /// Returns the object with that key; nil when there is none.
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

    /// Parameters: the row key, then the identity that the object gets.
    func identify() throws(StoreError) -> Statement {
        try cache.statement(
            .identify, update(names(entity.identity), from: keyNames.count + 1, where: equations(keyNames)))
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

    /// The number of objects in the entity's table.
    func objectCount() throws(StoreError) -> Int {
        let count = try cache.statement(.count, "SELECT count(*) FROM \(table)")
        defer { count.reset() }
        return try count.step() ? Int(count.integer(0)) : 0
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

    /// Parameters: a row number. Returns the key of that row.
    func key() throws(StoreError) -> Statement {
        try cache.statement(.key, "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(rowNumber) = ?1")
    }

    /// Parameters: the key. Returns the values of the identity.
    func identityOfRow() throws(StoreError) -> Statement {
        try cache.statement(.identityOfRow, valuesSQL(of: entity.identity))
    }

    /// Parameters: the key. Returns the values of some attributes.
    func values(of attributes: [Int]) throws(StoreError) -> Statement {
        try connection.prepare(valuesSQL(of: attributes))
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

    /// Parameters: the values of some attributes. Returns the number of the row that has them all.
    func rowNumber(of attributes: [Int]) throws(StoreError) -> Statement {
        try connection.prepare("SELECT \(rowNumber) FROM \(table) WHERE \(equations(names(attributes)))")
    }

    /// Parameters: a value that no other row has, then a row number. The row gets the value in that column.
    func park(in column: Int) throws(StoreError) -> Statement {
        try connection.prepare(update(names([column]), from: 1, where: "\(rowNumber) = ?2"))
    }

    /// Parameters: the values of the attributes, then the value that ``park(in:)`` put in that column, and the number of
    /// the row.
    ///
    /// - Parameter isRenumbered: whether the row may have another number now.
    func unpark(_ attributes: [Int], from column: Int, isRenumbered: Bool) throws(StoreError) -> Statement {
        let (name, parked) = (quoted(entity.attributes[column].column), attributes.count + 1)
        let value = attributes.firstIndex(of: column)! + 1
        return try connection.prepare(
            "UPDATE \(table) SET \(name) = ?\(value) WHERE \(name) = ?\(parked)"
                + (isRenumbered ? "" : " AND \(rowNumber) = ?\(parked + 1)"))
    }

    /// Binds the identity from a row of cells.
    ///
    /// - Returns: the next parameter's index.
    @discardableResult
    func bindIdentity(_ cells: UnsafePointer<Cell>, to statement: Statement, from index: Int) -> Int {
        for (position, column) in entity.identity.enumerated() { statement.bind(cells[column], at: index + position) }
        return index + entity.identity.count
    }

    /// Names of the columns that identify an object.
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

/// An object of the store.
struct StoredObject {
    /// The row number in the entity's table.
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

/// SQL about the concrete entities of a hierarchy table's rows, from the view of one of its entities.
///
/// A row of an ancestor becomes a row of the entity, and takes the defaults of its new attributes; a row of a subentity
/// remains one. For any other row the entity would become NULL, which the table rejects: the merge then reads the
/// stored entity.
struct ConcreteEntitySQL {
    /// The entity's name as a literal.
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

    /// The assignment of the concrete entity.
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
