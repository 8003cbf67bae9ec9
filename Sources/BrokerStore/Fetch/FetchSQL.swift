internal import BrokerSchema
internal import BrokerModel
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

    /// Units for each object that is sorted, and for each byte of the texts by which it is: so one fetch sorts up to some 9
    /// million objects, in some 300 MB of temporary storage.
    private static let unitsPerSorted = 32

    /// The row numbers of a sorted request's objects, in its order.
    ///
    /// Parameters: as of ``objects(_:_:_:)``, without the last two for all objects: without them SQLite sorts in less time.
    func order(_ request: FetchRequest, _ predicate: PredicateSQL?) -> String {
        let values = request.sort.map { value(of: $0, of: request.entity) }
        let order = zip(request.sort, values).map { sortKey($0, $1, of: request.entity) } + keys(request)
        let work = PredicateFunctions.work(
            Self.unitsPerSorted, times: Self.unitsPerSorted, for: values + keys(request))
        let window = request.limit == .max && request.offset == 0 ? "" : " LIMIT ? OFFSET ?"
        return """
            SELECT \(ObjectShape.alias).\(naming.rowNumber(request.entity)) \
            FROM \(rows(request, predicate, and: work)) ORDER BY \(order.joined(separator: ", "))\(window)
            """
    }

    /// The number of the objects.
    ///
    /// Parameters: as of ``objects(_:_:_:)``.
    func count(_ request: FetchRequest, _ predicate: PredicateSQL?) -> String {
        "SELECT count(*) FROM (SELECT 1 FROM \(rows(request, predicate)) LIMIT ? OFFSET ?)"
    }

    private func keys(_ request: FetchRequest) -> [String] {
        naming.nameColumns(request.entity).map(ObjectShape.column)
    }

    /// The table and the condition of a request.
    private func rows(_ request: FetchRequest, _ predicate: PredicateSQL?, and last: String? = nil) -> String {
        let keys = keys(request)
        var conditions: [String] = []
        if request.key != nil { conditions += keys.map { "\($0) = ?" } }
        if request.after != nil {
            // A row value: SQLite seeks the place in the index, whichever columns the key has
            // (sqlite.org/rowvalue.html, section 2.3).
            conditions.append(
                "(\(keys.joined(separator: ", "))) > (\(keys.map { _ in "?" }.joined(separator: ", ")))")
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

    /// The columns of an object's key, as clients write it.
    ///
    /// Parameter: the row's number.
    func key(of entity: Int) -> String { columns(naming.nameColumns(entity).map(ObjectShape.column), of: entity) }

    /// The condition of the index of an identity that a subentity declares. Without it SQLite would sort the objects of
    /// the entities below that one for each page (sqlite.org/partialindex.html, section 3).
    private func identityCondition(_ entity: Int) -> String? {
        guard plan.model.entities[entity].hasIdentityOfItsOwn else { return nil }
        let owner = plan.model.ancestors(of: entity).last { !plan.model.entities[$0].identity.isEmpty }
        return owner.flatMap { naming.entityCondition($0, alias: ObjectShape.alias) }
    }

    /// Columns of one row that do not fit the results of the other statements.
    ///
    /// Parameter: the row's number.
    func columns(_ columns: [String], of entity: Int) -> String {
        """
        SELECT \(columns.joined(separator: ", ")) FROM \(table(entity)) AS \(ObjectShape.alias) \
        WHERE \(ObjectShape.alias).\(naming.rowNumber(entity)) = ?1
        """
    }

    /// One object.
    ///
    /// Parameters: the values of its key.
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

    /// The expression of a sort term; decimals sort by their value, because no number type of SQLite holds all of their
    /// digits.
    private func sortKey(_ term: FetchRequest.SortTerm, _ value: String, of entity: Int) -> String {
        value
            + (attribute(of: term, of: entity).comparedType == .decimal
                ? " COLLATE \(PredicateFunctions.decimalOrder)" : "")
            + (term.isDescending ? " DESC" : "")
    }
}
