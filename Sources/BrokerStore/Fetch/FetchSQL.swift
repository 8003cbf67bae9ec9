internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The statements of a fetch. Names are quoted, values are bound.
struct FetchSQL {
    let plan: StagingPlan
    private let naming: ColumnNaming

    init(_ plan: StagingPlan) {
        self.plan = plan
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
    }

    /// The objects themselves, in the order of their keys.
    ///
    /// Parameters: the values of the object's key if the request has one, those of the key after which the objects come
    /// if it has one, the predicate's, the limit, the offset.
    func objects(_ request: FetchRequest, _ shape: ObjectShape, _ predicate: PredicateSQL?) -> String {
        """
        SELECT \(shape.columns.joined(separator: ", ")) FROM \(rows(request, predicate)) \
        ORDER BY \(keys(request).joined(separator: ", ")) LIMIT ? OFFSET ?
        """
    }

    /// Units for each object that is sorted, and each byte of its texts: up to some 9 million objects in 300 MB.
    private static let unitsPerSorted = 32

    /// The row numbers of a sorted request's objects, in its order.
    ///
    /// Parameters: as of ``objects(_:_:_:)``, without the last two for all objects: without them SQLite sorts in less time.
    func order(_ request: FetchRequest, _ predicate: PredicateSQL?) -> String {
        let values = request.sort.map { value(of: $0, of: request.entity) }
        let order =
            request.sort.map { compared($0, of: request.entity) + ($0.isDescending ? " DESC" : "") } + keys(request)
        let work = PredicateFunctions.work(
            Self.unitsPerSorted, times: Self.unitsPerSorted, for: values + keys(request))
        let window = request.limit == .max && request.offset == 0 ? "" : " LIMIT ? OFFSET ?"
        return """
            SELECT \(ObjectShape.alias).\(naming.rowNumber(request.entity)) \
            FROM \(rows(request, predicate, and: work)) ORDER BY \(order.joined(separator: ", "))\(window)
            """
    }

    /// The number of the objects. Parameters: as of ``objects(_:_:_:)``.
    func count(_ request: FetchRequest, _ predicate: PredicateSQL?) -> String {
        "SELECT count(*) FROM (SELECT 1 FROM \(rows(request, predicate)) LIMIT ? OFFSET ?)"
    }

    private func keys(_ request: FetchRequest) -> [String] {
        naming.nameColumns(request.entity).map(ObjectShape.column)
    }

    private func rows(_ request: FetchRequest, _ predicate: PredicateSQL?, and last: String? = nil) -> String {
        let keys = keys(request)
        var conditions: [String] = []
        if request.key != nil { conditions += keys.map { "\($0) = ?" } }
        if let after = request.after {
            conditions += self.conditions(
                after: after, of: request, keys, from: request.key == nil ? 1 : keys.count + 1)
        }
        if let predicate { conditions.append("(\(predicate.condition))") }
        if let entityCondition = naming.entityCondition(request.entity, alias: ObjectShape.alias) {
            conditions.append(entityCondition)
        }
        if let hasIdentity = identityCondition(request.entity) { conditions.append(hasIdentity) }
        if let last { conditions.append(last) }
        return "\(table(request.entity)) AS \(ObjectShape.alias)"
            + (conditions.isEmpty ? "" : " WHERE \(conditions.joined(separator: " AND "))")
    }

    /// The conditions of the objects after a position, in the order of the request.
    ///
    /// - Parameter first: the number of the parameter for the first value of the position.
    private func conditions(
        after position: [OwnedCell], of request: FetchRequest, _ keys: [String], from first: Int
    ) -> [String] {
        let marks = position.indices.map { "?\(first + $0)" }
        // A row value: SQLite seeks the position in the index, whichever columns the key has
        // (sqlite.org/rowvalue.html, section 2.3).
        let afterKey = "(\(keys.joined(separator: ", "))) > (\(marks.suffix(keys.count).joined(separator: ", ")))"
        guard !request.sort.isEmpty else { return [afterKey] }
        var cases = ""
        for (index, term) in request.sort.enumerated() {
            let (value, mark) = (compared(term, of: request.entity), marks[index])
            // NULL is less than any value (sqlite.org/datatype3.html, section 4.1).
            let isAfter =
                position[index].cell.kind == .null
                ? (term.isDescending ? "0" : "1")
                : term.isDescending ? "(\(value) > \(mark)) IS NOT 1" : "\(value) > \(mark)"
            cases += "WHEN \(value) IS NOT \(mark) THEN \(isAfter) "
        }
        var conditions = ["CASE \(cases)ELSE \(afterKey) END"]
        if !request.sort[0].isDescending, position[0].cell.kind != .null {
            // SQLite seeks it in an index of the attribute, and not the CASE.
            conditions.insert("\(compared(request.sort[0], of: request.entity)) >= \(marks[0])", at: 0)
        }
        return conditions
    }

    /// The values of a request's sort terms, and then the columns of the object's key, as clients write it. Parameter: the row's
    /// number.
    func position(in request: FetchRequest) -> String {
        columns(request.sort.map { value(of: $0, of: request.entity) } + keys(request), of: request.entity)
    }

    /// The condition of the index of an identity that a subentity declares. Without it SQLite would sort the objects of
    /// the entities below that one for each page (sqlite.org/partialindex.html, section 3).
    private func identityCondition(_ entity: Int) -> String? {
        guard plan.model.entities[entity].hasIdentityOfItsOwn else { return nil }
        let owner = plan.model.ancestors(of: entity).last { !plan.model.entities[$0].identity.isEmpty }
        return owner.flatMap { naming.entityCondition($0, alias: ObjectShape.alias) }
    }

    /// Columns of one row that do not fit the results of the other statements. Parameter: the row's number.
    func columns(_ columns: [String], of entity: Int) -> String {
        """
        SELECT \(columns.joined(separator: ", ")) FROM \(table(entity)) AS \(ObjectShape.alias) \
        WHERE \(ObjectShape.alias).\(naming.rowNumber(entity)) = ?1
        """
    }

    /// One object. Parameters: the values of its key.
    func object(_ entity: Int, _ shape: ObjectShape) -> String {
        let conditions = naming.keyColumns(entity).enumerated().map { "\(ObjectShape.column($1.name)) = ?\($0 + 1)" }
        return """
            SELECT \(shape.columns.joined(separator: ", ")) FROM \(table(entity)) AS \(ObjectShape.alias) \
            WHERE \(conditions.joined(separator: " AND "))
            """
    }

    /// The objects to which a relationship of some rows leads: the shape's columns, then the index of the row among
    /// those; in the order of those indices, then in the relationship's own order if it is ordered.
    ///
    /// Parameter: a JSON array of row numbers.
    func destinations(of relationship: Int, of entity: Int, _ shape: ObjectShape) -> String {
        let destination = plan.model.entities[entity].relationships[relationship].destination
        let keys = keys(destination).map(ObjectShape.column)
        let order = [place(relationship, of: entity)].compactMap { $0 } + keys
        return """
            SELECT \(shape.columns.joined(separator: ", ")), k."key" FROM json_each(?1) AS k \
            CROSS JOIN \(table(entity)) AS p ON p.\(naming.rowNumber(entity)) = k."value" \
            \(naming.linkJoin(entity, relationship, as: "l"))CROSS JOIN \(table(destination)) AS t \
            ON \(naming.isLinked(entity, relationship, from: "p", to: "t", over: "l")) ORDER BY k."key", \(order.joined(separator: ", "))
            """
    }

    private func table(_ entity: Int) -> String { quoted(plan.model.table(of: entity)) }

    private func keys(_ entity: Int) -> [String] { naming.keyColumns(entity).map(\.name) }

    /// The position of a row `t` in an ordered relationship; nil for an unordered one.
    private func place(_ relationship: Int, of entity: Int) -> String? {
        let own = plan.model.entities[entity].relationships[relationship]
        guard own.isOrdered else { return nil }
        switch plan.layout.entities[entity].forms[relationship] {
        case .column: return nil
        case .destinationColumn:
            return plan.model.inverse(of: own).flatMap(plan.model.positionColumn).map { "t.\(quoted($0))" }
        case .linkTable(_, let isReversed):
            return "l.\(quoted((isReversed ? LinkPosition.inversePosition : .position).rawValue))"
        }
    }

    private func attribute(of term: FetchRequest.SortTerm, of entity: Int) -> Attribute {
        plan.model.entities[plan.model.end(of: term.path, from: entity)].attributes[term.attribute]
    }

    private func value(of term: FetchRequest.SortTerm, of entity: Int) -> String {
        naming.value(of: attribute(of: term, of: entity).column, atEnd: term.path[...], of: entity, ObjectShape.alias)
    }

    /// The expression of a sort term; decimals, which are texts, are compared by their value.
    private func compared(_ term: FetchRequest.SortTerm, of entity: Int) -> String {
        value(of: term, of: entity)
            + (attribute(of: term, of: entity).comparedType == .decimal
                ? " COLLATE \(PredicateFunctions.decimalOrder)" : "")
    }
}

final class FetchNode {
    struct Inclusion {
        let statement: Statement
        let node: FetchNode
        let isToMany: Bool
    }

    let reader: ObjectReader
    let inclusions: [Inclusion]

    convenience init(_ request: FetchRequest, _ sql: FetchSQL, _ connection: Connection) throws(StoreError) {
        let style = ObjectShape.Style(names: request.names, dates: request.dates, hasVersion: request.hasVersions)
        let isWhole = request.selection.isEmpty && request.result != .count
        let selected = request.result == .count ? [] : request.selection
        let shape = isWhole ? nil : ObjectShape(selecting: selected, of: request.entity, style, sql.plan)
        try self.init(shape, isWhole ? request.inclusions : [], of: request.entity, style, sql, connection)
    }

    /// - Parameter shape: nil for whole objects.
    private init(
        _ shape: ObjectShape?, _ inclusions: [FetchRequest.Inclusion], of entity: Int, _ style: ObjectShape.Style,
        _ sql: FetchSQL, _ connection: Connection
    ) throws(StoreError) {
        let whole = { ObjectShape(entity: entity, including: inclusions.map(\.relationship), style, sql.plan) }
        reader = try ObjectReader(shape ?? whole(), of: entity, sql, on: connection)
        var nodes: [Inclusion] = []
        for inclusion in inclusions {
            let relationship = sql.plan.model.entities[entity].relationships[inclusion.relationship]
            let node = try FetchNode(nil, inclusion.inclusions, of: relationship.destination, style, sql, connection)
            let statement = try connection.prepare(
                sql.destinations(of: inclusion.relationship, of: entity, node.reader.shape))
            nodes.append(Inclusion(statement: statement, node: node, isToMany: relationship.isToMany))
        }
        self.inclusions = nodes
    }

    /// The nested objects of the rows with those numbers; nil when they exceed the memory.
    func nests(of rowNumbers: ArraySlice<Int64>, memory: Int) throws(StoreError) -> [FetchedNest]? {
        var memory = memory
        return try nests(of: rowNumbers, &memory)
    }

    private func nests(of rowNumbers: ArraySlice<Int64>, _ memory: inout Int) throws(StoreError) -> [FetchedNest]? {
        guard !inclusions.isEmpty else { return [] }
        var numbers = JSONWriter(capacity: rowNumbers.count * 8)
        numbers.array { writer in
            for number in rowNumbers { writer.integer(number) }
        }
        var nests: [FetchedNest] = []
        for inclusion in inclusions {
            guard var nest = try inclusion.read(numbers.bytes, memory) else { return nil }
            memory -= nest.memory
            guard let inner = try inclusion.node.nests(of: nest.level.rowNumbers[...], &memory) else { return nil }
            nest.inner = inner
            nests.append(nest)
        }
        return nests
    }
}

extension FetchNode.Inclusion {
    fileprivate func read(_ numbers: [UInt8], _ memory: Int) throws(StoreError) -> FetchedNest? {
        var nest = FetchedNest(level: FetchedLevel(holeCount: node.inclusions.count), isToMany: isToMany)
        var rows: [Int64: Int] = [:]
        defer { statement.reset() }
        statement.bind(text: numbers, at: 1)
        while try statement.step() {
            let number = statement.integer(0)
            var row = rows[number]
            if row == nil {
                row = try nest.level.append(statement, node.reader)
                rows[number] = row
            }
            nest.links.append(row!, of: Int(statement.integer(node.reader.shape.columns.count)))
            if nest.memory > memory { return nil }
        }
        return nest
    }
}

struct FetchedNest {
    struct Overflow: Error {}

    var level: FetchedLevel
    var links = FetchedLinks()
    let isToMany: Bool
    var inner: [FetchedNest] = []

    var memory: Int { level.memory + links.memory }

    /// Writes the nested objects of a near row: an array, or an object or null.
    func write(of near: Int, to bytes: inout [UInt8], limit: Int) throws {
        let rows = links.rows(of: near)
        if isToMany { bytes.append(UInt8(ascii: "[")) }
        if rows.isEmpty, !isToMany { bytes += "null".utf8 }
        for (position, row) in rows.enumerated() {
            if position > 0 {
                guard isToMany else { break }
                bytes.append(UInt8(ascii: ","))
            }
            try level.write(row, to: &bytes) { number, bytes in
                try inner[number].write(of: row, to: &bytes, limit: limit)
            }
            guard bytes.count <= limit else { throw Overflow() }
        }
        if isToMany { bytes.append(UInt8(ascii: "]")) }
    }
}

/// The objects at one node of a fetch's tree, each written once however often it is nested, with holes for nested ones.
struct FetchedLevel {
    private(set) var rowNumbers: [Int64] = []
    private var writer = JSONWriter(capacity: 4 << 10)
    private var texts: [Range<Int>] = []
    /// By row and included relationship: the offset of the hole for those objects.
    private var holes: [Int] = []
    private let holeCount: Int

    init(holeCount: Int) { self.holeCount = holeCount }

    var count: Int { texts.count }

    var memory: Int { writer.count + texts.count * 64 + holes.count * 8 }

    mutating func append(_ statement: Statement, _ reader: ObjectReader) throws(StoreError) -> Int {
        // A comma separates two of them.
        let start = writer.count + (texts.isEmpty ? 0 : 1)
        let first = holes.count
        holes += repeatElement(0, count: holeCount)
        var found = holes
        holes = []
        try reader.withRow(of: statement) { row in
            reader.shape.write(row, to: &writer) { number, place in found[first + number] = place }
        }
        holes = found
        texts.append(start..<writer.count)
        rowNumbers.append(statement.integer(0))
        return texts.count - 1
    }

    /// Appends a row's text piece by piece, and calls `fill` at each hole with the number of its relationship.
    func write(_ row: Int, to bytes: inout [UInt8], fill: (Int, inout [UInt8]) throws -> Void) rethrows {
        var start = texts[row].lowerBound
        // Holes are in the order of the text, which may differ from that of the relationships.
        let own = (0..<holeCount).map { (number: $0, place: holes[row * holeCount + $0]) }
            .sorted { $0.place < $1.place }
        for (number, place) in own where place > 0 {
            writer.copy(start..<place, to: &bytes)
            try fill(number, &bytes)
            start = place
        }
        writer.copy(start..<texts[row].upperBound, to: &bytes)
    }
}

struct FetchedLinks {
    /// By row of the near level: the index in `rows` at which its links begin.
    private var firsts: [Int] = [0]
    private var rows: [Int] = []

    var memory: Int { (firsts.count + rows.count) * 8 }

    /// Rows of the near level must come in their order.
    mutating func append(_ row: Int, of near: Int) {
        while firsts.count <= near { firsts.append(rows.count) }
        rows.append(row)
    }

    func rows(of near: Int) -> ArraySlice<Int> {
        guard near < firsts.count else { return [] }
        return rows[firsts[near]..<(near + 1 < firsts.count ? firsts[near + 1] : rows.count)]
    }
}
