internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The SQL for one entity's objects in its table, prepared on first use.
final class EntityStatements {
    let entity: Entity
    let hasIdentity: Bool
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
        let entity = plan.model.entities[index]
        let columns = EntityColumns(index, plan)
        self.entity = entity
        self.columns = columns
        hasIdentity = !entity.identity.isEmpty
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

    /// Returns the object with a key; nil when there is none.
    ///
    /// - Parameters:
    ///   - columns: the columns of the table if their long values are charged to the job.
    ///   - bind: binds the key, from parameter 1.
    func find(charging columns: LongColumns? = nil, _ bind: (Statement) -> Void) throws(StoreError) -> StoredObject? {
        let find =
            if let columns, !columns.names.isEmpty {
                try cached(
                    &chargingFindStatement,
                    "\(findSQL) AND \(PredicateFunctions.work(0, for: columns.names.map(quoted)))")
            } else { try cached(&findStatement, findSQL) }
        bind(find)
        defer { find.reset() }
        guard try find.step() else { return nil }
        let concreteEntity = kinds == nil ? nil : plan.model.index(ofEntity: find.text(1))
        return StoredObject(number: find.integer(0), concreteEntity: concreteEntity ?? index)
    }

    private var findSQL: String {
        let names = rowNumber + (kinds == nil ? "" : ", \(quoted(entityColumnName))")
        return "SELECT \(names) FROM \(table) WHERE \(keyIsParameters(from: 1))"
    }
    private var findStatement: Statement?
    private var chargingFindStatement: Statement?

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
        let assignments = keyNames.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" }.joined(separator: ", ")
        return try cached(
            &renameStatement,
            "UPDATE \(table) SET \(assignments) WHERE \(keyIsParameters(from: keyNames.count + 1))")
    }
    private var renameStatement: Statement?

    /// Parameters: the row key, then the identity that the object gets.
    func identify() throws(StoreError) -> Statement {
        let assignments = entity.identity.enumerated().map {
            "\(quoted(entity.attributes[$1].column)) = ?\(keyNames.count + 1 + $0)"
        }
        return try cached(
            &identifyStatement,
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) WHERE \(keyIsParameters(from: 1))")
    }
    private var identifyStatement: Statement?

    /// Parameters: the identity. Returns the row key of the object.
    func findRowKey() throws(StoreError) -> Statement {
        var conditions = entity.identity.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        // Such an identity is unique among the objects of the entity that declares it.
        if entity.hasIdentityOfItsOwn, let head = identityHead { conditions.append(head) }
        return try cached(
            &findRowKeyStatement,
            "SELECT \(rowKeyName) FROM \(table) WHERE \(conditions.joined(separator: " AND "))")
    }
    private var findRowKeyStatement: Statement?

    /// The condition that a row is one of the objects among which the identity is unique.
    private var identityHead: String? {
        let model = plan.model
        let owners = [index] + model.ancestors(of: index)
        return owners.last { !model.entities[$0].identity.isEmpty }.flatMap { columns.naming.entityCondition($0) }
    }

    /// Parameters: a row number. Returns the name of the object's concrete entity.
    func concreteEntityOfRow() throws(StoreError) -> Statement {
        try cached(
            &concreteEntityOfRowStatement, "SELECT \(quoted(entityColumnName)) FROM \(table) WHERE \(rowNumber) = ?1")
    }
    private var concreteEntityOfRowStatement: Statement?

    /// Parameters: a link's key. Returns row number and key of the rows whose link at `column` has that key.
    func linked(byColumn column: Int) throws(StoreError) -> Statement {
        if let known = linkedStatements[column] { return known }
        let names = columns.linkNames(column)
        let conditions = names.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
        let statement = try connection.prepare(
            "SELECT \(rowNumber), \(quotedList(keyNames)) FROM \(table) WHERE \(conditions)")
        linkedStatements[column] = statement
        return statement
    }
    private var linkedStatements: [Int: Statement] = [:]

    /// Parameters: a row number. Sets the link at `column` to NULL.
    func unlink(column: Int) throws(StoreError) -> Statement {
        if let known = unlinkStatements[column] { return known }
        let assignments = (columns.linkNames(column) + columns.positionNames([column])).map { "\(quoted($0)) = NULL" }
            .joined(separator: ", ")
        let statement = try connection.prepare("UPDATE \(table) SET \(assignments) WHERE \(rowNumber) = ?1")
        unlinkStatements[column] = statement
        return statement
    }
    private var unlinkStatements: [Int: Statement] = [:]

    /// Parameters: a row number. Returns the key of that row.
    func key() throws(StoreError) -> Statement {
        try cached(&keyStatement, "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(rowNumber) = ?1")
    }
    private var keyStatement: Statement?

    /// Parameters: the key. Returns the values of the identity.
    func identityOfRow() throws(StoreError) -> Statement {
        if let known = identityOfRowStatement { return known }
        let statement = try values(of: entity.identity)
        identityOfRowStatement = statement
        return statement
    }
    private var identityOfRowStatement: Statement?

    /// Parameters: the key. Returns the values of some attributes.
    func values(of attributes: [Int]) throws(StoreError) -> Statement {
        try connection.prepare(
            "SELECT \(quotedList(attributes.map { entity.attributes[$0].column })) FROM \(table) "
                + "WHERE \(keyIsParameters(from: 1))")
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
        let conditions = entity.identity.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        return try cached(
            &modifiedStatement,
            "SELECT \(quoted(entity.attributes[attribute].column)) FROM \(table) "
                + "WHERE \(conditions.joined(separator: " AND "))")
    }
    private var modifiedStatement: Statement?

    /// Parameters: the values of some attributes. Returns the key of an object that has them all.
    func holder(of attributes: [Int]) throws(StoreError) -> Statement {
        let conditions = attributes.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        return try connection.prepare(
            "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(conditions.joined(separator: " AND "))")
    }

    /// Parameters: the key, then for each of the attributes a value that no other row has.
    func freeValues(_ attributes: [Int]) throws(StoreError) -> Statement {
        let width = keyNames.count
        let assignments = attributes.enumerated().map {
            "\(quoted(entity.attributes[$1].column)) = ?\(width + $0 + 1)"
        }
        return try connection.prepare(
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) WHERE \(keyIsParameters(from: 1))")
    }

    /// Parameters: the values of some attributes. Returns the number of the row that has them all.
    func rowNumber(of attributes: [Int]) throws(StoreError) -> Statement {
        let conditions = attributes.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        return try connection.prepare(
            "SELECT \(rowNumber) FROM \(table) WHERE \(conditions.joined(separator: " AND "))")
    }

    /// Parameters: a row number, then a value that no other row has. The row gets the value in that column.
    func park(in column: Int) throws(StoreError) -> Statement {
        try connection.prepare(
            "UPDATE \(table) SET \(quoted(entity.attributes[column].column)) = ?2 WHERE \(rowNumber) = ?1")
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

    private func keyIsParameters(from first: Int) -> String {
        columns.keyIsParameters(from: first)
    }

    private func cached(_ cache: inout Statement?, _ sql: @autoclosure () -> String) throws(StoreError) -> Statement {
        if let cache { return cache }
        let statement = try connection.prepare(sql())
        cache = statement
        return statement
    }
}

/// An object of the store.
struct StoredObject {
    /// The row number in the entity's table.
    let number: Int64
    let concreteEntity: Int
}
