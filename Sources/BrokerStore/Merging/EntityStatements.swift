internal import BrokerModel
internal import BrokerStaging

/// The SQL of one entity's objects in its table, prepared when it is first wanted.
final class EntityStatements {
    /// How rows that bring the same columns are merged.
    enum GroupMerge {
        /// One statement over the scan: the rows can be inserted as they are.
        case set(Statement)
        /// Row by row: they lack something required, so they can only update what exists.
        case update(Statement)
        /// They bring nothing but their key, and lack something required: what exists is unchanged.
        case nothing
    }

    /// Statements kept; records with ever new sets of keys must not hold memory for good.
    private static let keptGroups = 256

    let entity: Entity
    let hasIdentity: Bool
    /// Staged columns that an insert cannot do without, besides the identity: attributes, and links that another program's
    /// table requires.
    let required: [Int]
    private let index: Int
    private let plan: StagingPlan
    private let naming: ColumnNaming
    private let connection: Connection
    private let stagedTable: String
    private let table: String
    /// Nil of an entity that stands alone.
    private let kinds: KindSQL?
    /// The condition that a row is one of the entity's objects; nil when all are.
    let isKind: String?
    private var groups: [[Int]: GroupMerge] = [:]

    /// - Parameter existing: the entity's table, if another program made it.
    init(
        _ index: Int, _ plan: StagingPlan, _ scans: ScanSet, _ existing: ExistingTable?, on connection: Connection
    ) {
        self.index = index
        self.plan = plan
        self.connection = connection
        entity = plan.model.entities[index]
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        hasIdentity = !entity.identity.isEmpty
        let topmost = plan.model.topmost(of: index)
        stagedTable = scans.tableName(entity: topmost)
        table = quoted(plan.model.entities[topmost].table)
        kinds = plan.model.isInHierarchy(index) ? KindSQL(index, plan, naming) : nil
        isKind = naming.isKind(index)
        let entity = entity
        let naming = naming
        let layout = plan.layout.entities[index]
        let requiredLinks = (layout.attributeCount..<layout.columnCount).filter { column in
            let names = naming.linkColumns(entity.relationships[layout.link(atColumn: column).relationship])
            return names.contains { existing?.column($0)?.mustBeGiven ?? false }
        }
        required =
            entity.attributeIndices.filter {
                // An identity is brought wherever it is the key.
                !entity.attributes[$0].isOptional
                    && (!entity.identity.contains($0) || entity.hasIdentityOfItsOwn)
                    && plan.defaultCell(entity: index, attribute: $0) == nil
            } + requiredLinks
    }

    /// Whether the rows are those of the entity's table.
    func isAbout(_ table: FrozenTable) -> Bool { table.entityIndex == plan.model.topmost(of: index) }

    /// What the model calls a staged column.
    func name(ofColumn column: Int) -> String {
        let layout = plan.layout.entities[index]
        guard column >= layout.attributeCount else { return entity.attributes[column].name }
        return entity.relationships[layout.link(atColumn: column).relationship].name
    }

    /// Rows that bring these columns can be inserted.
    func canInsert(_ columns: [Int]) -> Bool { !entity.isAbstract && required.allSatisfy(columns.contains) }

    func merge(_ columns: [Int]) throws(StoreError) -> GroupMerge {
        if let known = groups[columns] { return known }
        if groups.count >= Self.keptGroups { groups.removeAll() }
        let merge = try prepareMerge(columns)
        groups[columns] = merge
        return merge
    }

    /// Parameters: the key. A row when the object exists.
    func exists() throws(StoreError) -> Statement {
        try cached(&existsStatement, "SELECT 1 FROM \(table) WHERE \(keyIsParameters(from: 1))")
    }
    private var existsStatement: Statement?

    /// Parameters: the key. The row number of the object; of a hierarchy, the name of its own entity.
    func number() throws(StoreError) -> Statement {
        let columns = rowNumber + (kinds == nil ? "" : ", \(quoted(entityColumnName))")
        return try cached(&numberStatement, "SELECT \(columns) FROM \(table) WHERE \(keyIsParameters(from: 1))")
    }
    private var numberStatement: Statement?

    /// Parameters: the key. The object as `fetch` gives it.
    func object() throws(StoreError) -> ObjectRead {
        if let objectRead { return objectRead }
        let read = try ObjectRead(index, plan, on: connection)
        objectRead = read
        return read
    }
    private var objectRead: ObjectRead?

    /// Parameters: the key that the object is to get, then the one that it has. What refers to it follows.
    func rename() throws(StoreError) -> Statement {
        let assignments = keyNames.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" }.joined(separator: ", ")
        return try cached(
            &renameStatement,
            "UPDATE \(table) SET \(assignments) WHERE \(keyIsParameters(from: keyNames.count + 1))")
    }
    private var renameStatement: Statement?

    /// Parameters: the identity. The store's own key of the object.
    func findRowKey() throws(StoreError) -> Statement {
        var conditions = entity.identity.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        // Such an identity is unique among the objects of the entity that has it.
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
        return owners.last { !model.entities[$0].identity.isEmpty }.flatMap { naming.isKind($0) }
    }

    /// Parameters: the key. The name of the object's own entity.
    func kind() throws(StoreError) -> Statement {
        try cached(
            &kindStatement, "SELECT \(quoted(entityColumnName)) FROM \(table) WHERE \(keyIsParameters(from: 1))")
    }
    private var kindStatement: Statement?

    /// Parameters: a row number. The name of the object's own entity.
    func kindOfRow() throws(StoreError) -> Statement {
        try cached(&kindOfRowStatement, "SELECT \(quoted(entityColumnName)) FROM \(table) WHERE \(rowNumber) = ?1")
    }
    private var kindOfRowStatement: Statement?

    /// Parameters: a link's key. Row number and key of the rows whose link at `column` is that.
    func linked(byColumn column: Int) throws(StoreError) -> Statement {
        if let known = linkedStatements[column] { return known }
        let names = linkNames(column)
        let conditions = names.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
        let statement = try connection.prepare(
            "SELECT \(rowNumber), \(quotedList(keyNames)) FROM \(table) WHERE \(conditions)")
        linkedStatements[column] = statement
        return statement
    }
    private var linkedStatements: [Int: Statement] = [:]

    /// Parameters: a row number. The link at `column` becomes NULL.
    func unlink(column: Int) throws(StoreError) -> Statement {
        if let known = unlinkStatements[column] { return known }
        let assignments = (linkNames(column) + positionNames([column])).map { "\(quoted($0)) = NULL" }
            .joined(separator: ", ")
        let statement = try connection.prepare("UPDATE \(table) SET \(assignments) WHERE \(rowNumber) = ?1")
        unlinkStatements[column] = statement
        return statement
    }
    private var unlinkStatements: [Int: Statement] = [:]

    /// Parameters: a row number. The key of that row.
    func key() throws(StoreError) -> Statement {
        try cached(&keyStatement, "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(rowNumber) = ?1")
    }
    private var keyStatement: Statement?

    /// Parameters: the key. The values of some attributes.
    func values(of attributes: [Int]) throws(StoreError) -> Statement {
        try connection.prepare(
            "SELECT \(quotedList(attributes.map { entity.attributes[$0].column })) FROM \(table) "
                + "WHERE \(keyIsParameters(from: 1))")
    }

    /// Of the order that the objects keep to which the links at `column` lead.
    func places(byColumn column: Int) -> PlaceStatements {
        if let known = placeStatements[column] { return known }
        let statements = PlaceStatements(
            table: table, object: linkNames(column), element: keyNames, position: positionNames([column])[0],
            on: connection)
        placeStatements[column] = statements
        return statements
    }
    private var placeStatements: [Int: PlaceStatements] = [:]

    /// Parameters: the identity. The value of the attribute that tells how new the object is.
    func modified(_ attribute: Int) throws(StoreError) -> Statement {
        let conditions = entity.identity.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        return try cached(
            &modifiedStatement,
            "SELECT \(quoted(entity.attributes[attribute].column)) FROM \(table) "
                + "WHERE \(conditions.joined(separator: " AND "))")
    }
    private var modifiedStatement: Statement?

    /// Parameters: the values of some attributes. The key of an object that has them all.
    func holder(of attributes: [Int]) throws(StoreError) -> Statement {
        let conditions = attributes.enumerated().map { "\(quoted(entity.attributes[$1].column)) = ?\($0 + 1)" }
        return try connection.prepare(
            "SELECT \(quotedList(keyNames)) FROM \(table) WHERE \(conditions.joined(separator: " AND "))")
    }

    /// Parameters: the key, then for each of the attributes a value that no other row has.
    func vacate(_ attributes: [Int]) throws(StoreError) -> Statement {
        let width = keyNames.count
        let assignments = attributes.enumerated().map {
            "\(quoted(entity.attributes[$1].column)) = ?\(width + $0 + 1)"
        }
        return try connection.prepare(
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) WHERE \(keyIsParameters(from: 1))")
    }

    /// Binds the identity out of a row's worth of cells, and returns the next parameter's index.
    @discardableResult
    func bindIdentity(_ cells: UnsafePointer<Cell>, to statement: Statement, from index: Int) -> Int {
        for (position, column) in entity.identity.enumerated() { statement.bind(cells[column], at: index + position) }
        return index + entity.identity.count
    }

    /// Names of the columns that tell which object it is.
    var keyNames: [String] { naming.keyColumns(index).map(\.name) }

    // MARK: - SQL

    /// What SQLite calls the number of a row, in a table that may have columns of any name.
    private var rowNumber: String { naming.rowNumber(index) }

    private func keyIsParameters(from first: Int) -> String {
        keyNames.enumerated().map { "\(quoted($1)) = ?\($0 + first)" }.joined(separator: " AND ")
    }

    private func linkNames(_ column: Int) -> [String] {
        let link = plan.layout.entities[index].link(atColumn: column)
        return naming.linkColumns(entity.relationships[link.relationship])
    }

    private func cached(_ place: inout Statement?, _ sql: @autoclosure () -> String) throws(StoreError) -> Statement {
        if let place { return place }
        let statement = try connection.prepare(sql())
        place = statement
        return statement
    }

    /// Names of a staged column's columns in the table, and their numbers in the virtual table.
    private func columns(_ staged: Int) -> [(name: String, number: Int)] {
        let first = entity.hasRowKey ? 1 : 0
        let attributes = entity.attributes.count
        if staged < attributes { return [(entity.attributes[staged].column, first + staged)] }
        let before = (attributes..<staged).map { linkNames($0).count }.reduce(0, +)
        return linkNames(staged).enumerated().map { ($1, first + attributes + before + $0) }
    }

    private func prepareMerge(_ brought: [Int]) throws(StoreError) -> GroupMerge {
        let key: [(name: String, number: Int)] =
            entity.hasRowKey ? [(rowKeyName, 0)] : entity.identity.flatMap(columns)
        let others = brought.filter { entity.hasRowKey || !entity.identity.contains($0) }.flatMap(columns)
        if canInsert(brought) { return .set(try prepareUpsert(key, others, brought)) }
        guard !others.isEmpty || kinds?.mayBecome ?? false else { return .nothing }
        return .update(try prepareUpdate(others.map(\.name), brought))
    }

    /// `INSERT … SELECT` over the scan: new rows take the defaults, changed rows are updated, the same are not written.
    private func prepareUpsert(
        _ key: [(name: String, number: Int)], _ others: [(name: String, number: Int)], _ brought: [Int]
    ) throws(StoreError) -> Statement {
        var names = (key + others).map(\.name)
        var values = (key + others).map { "c\($0.number)" }
        var defaults: [Cell] = []
        var becoming: [String] = []
        for attribute in entity.attributeIndices where !brought.contains(attribute) {
            guard let cell = plan.defaultCell(entity: index, attribute: attribute) else { continue }
            names.append(entity.attributes[attribute].column)
            defaults.append(cell)
            values.append("?\(defaults.count)")
            becoming += kinds?.takingDefault(attribute, "?\(defaults.count)", of: quoted("_broker_old")) ?? []
        }
        if let kinds {
            names.append(entityColumnName)
            values.append(kinds.name)
        }
        // A name of its own for the row that is there: the table may be called "excluded", too.
        let old = quoted("_broker_old")
        let difference = { (name: String) in "\(old).\(quoted(name)) IS NOT excluded.\(quoted(name))" }
        let assignments =
            others.map { "\(quoted($0.name)) = excluded.\(quoted($0.name))" }
            + leavingPlaces(brought, of: old, difference) + becoming + (kinds?.becoming(of: old) ?? [])
        let differences = others.map { difference($0.name) } + (kinds?.isAnother(old) ?? [])
        let conflict =
            differences.isEmpty
            ? "NOTHING" : "UPDATE SET \(assignments.joined(separator: ", ")) WHERE \(anyOf(differences[...]))"
        let statement = try connection.prepare(
            "INSERT INTO \(table) AS \(old) (\(quotedList(names))) SELECT \(values.joined(separator: ", ")) FROM \(stagedTable) "
                + "WHERE true ON CONFLICT (\(quotedList(key.map(\.name)))) DO \(conflict)")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() { statement.bind(cell, at: position + 1) }
        return statement
    }

    /// An object that goes over to another's ordered relationship has no place there yet (``JobMerge/mergePlaces()``).
    private func leavingPlaces(
        _ brought: [Int], of row: String, _ difference: (String) -> String
    ) -> [String] {
        brought.flatMap { column in
            positionNames([column]).map { position in
                let isAnother = linkNames(column).map(difference).joined(separator: " OR ")
                return "\(quoted(position)) = CASE WHEN \(isAnother) THEN NULL ELSE \(row).\(quoted(position)) END"
            }
        }
    }

    /// Where the links at these columns have their places.
    private func positionNames(_ columns: [Int]) -> [String] {
        let layout = plan.layout.entities[index]
        return columns.filter { $0 >= layout.attributeCount }.compactMap { column in
            plan.model.positionColumn(of: entity.relationships[layout.link(atColumn: column).relationship])
        }
    }

    /// Parameters: the new values, then the key.
    private func prepareUpdate(_ names: [String], _ brought: [Int]) throws(StoreError) -> Statement {
        let places = leavingPlaces(brought, of: table) { name in
            "\(quoted(name)) IS NOT ?\(names.firstIndex { $0.hasSameBytes(as: name) }! + 1)"
        }
        // Behind the values and the key.
        var parameter = names.count + keyNames.count
        var defaults: [Cell] = []
        var becoming = kinds?.becoming(of: table) ?? []
        for attribute in entity.attributeIndices where kinds != nil && !brought.contains(attribute) {
            guard let cell = plan.defaultCell(entity: index, attribute: attribute) else { continue }
            let taking = kinds!.takingDefault(attribute, "?\(parameter + 1)", of: table)
            guard !taking.isEmpty else { continue }
            becoming += taking
            defaults.append(cell)
            parameter += 1
        }
        let assignments = names.enumerated().map { "\(quoted($1)) = ?\($0 + 1)" } + places + becoming
        let differences =
            names.enumerated().map { "\(quoted($1)) IS NOT ?\($0 + 1)" } + (kinds?.isAnother(table) ?? [])
        let statement = try connection.prepare(
            "UPDATE \(table) SET \(assignments.joined(separator: ", ")) "
                + "WHERE \(keyIsParameters(from: names.count + 1)) AND (\(anyOf(differences[...])))")
        // The plan owns the defaults' bytes and outlives the statement.
        for (position, cell) in defaults.enumerated() {
            statement.bind(cell, at: names.count + keyNames.count + position + 1)
        }
        return statement
    }
}

/// The conditions joined by OR, as a tree of little height: SQLite allows expressions of 1,000 levels, and 2,000 columns.
private func anyOf(_ conditions: ArraySlice<String>) -> String {
    guard conditions.count > 8 else { return conditions.joined(separator: " OR ") }
    let middle = conditions.startIndex + conditions.count / 2
    return "(\(anyOf(conditions[..<middle]))) OR (\(anyOf(conditions[middle...])))"
}
