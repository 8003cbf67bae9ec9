internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The SQL of single objects, which are named by the entity of their table and the number of their row.
final class ObjectStatements {
    private let plan: StagingPlan
    private let defaults: DeclaredDefaults
    private let connection: Connection
    private let naming: ColumnNaming
    private let cache: StatementCache
    /// By the entity of the owner's table: ``ownedKeys(_:)``.
    private var ownedKeys: [Int: [Statement]] = [:]
    private var model: Model { plan.model }

    init(_ plan: StagingPlan, _ defaults: DeclaredDefaults, on connection: Connection) {
        self.plan = plan
        self.defaults = defaults
        self.connection = connection
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        cache = StatementCache(on: connection)
    }

    // MARK: - Objects

    /// Parameters: the number of the row if it is given; the values of the attributes among the columns; the row numbers of the
    /// objects at the links, which come after them.
    func insert(_ entity: Int, _ columns: [Int], isNumbered: Bool) throws(StoreError) -> Statement {
        try cache.statement(
            entity, isNumbered ? 1 : 0, columns: columns, sql: insertSQL(entity, columns, isNumbered: isNumbered))
    }

    private func insertSQL(_ entity: Int, _ columns: [Int], isNumbered: Bool) -> String {
        var (names, values): ([String], [String]) = ([], [])
        func add(_ name: String) {
            names.append(quoted(name))
            values.append("?\(names.count)")
        }
        if isNumbered { add(rowNumber(entity)) }
        let layout = plan.layout.entities[entity]
        for column in columns where column < layout.attributeCount {
            add(model.entities[entity].attributes[column].column)
            if model.entities[entity].attributes[column].isExtra {
                values[values.count - 1] = "\(ExtraFunction.name)(NULL, ?\(names.count))"
            }
        }
        var parameter = names.count
        for column in columns where column >= layout.attributeCount {
            parameter += 1
            let destination = layout.link(atColumn: column).destination
            for (name, key) in zip(linkNames(entity, column), keyNames(destination)) {
                names.append(quoted(name))
                values.append(
                    "(SELECT \(quoted(key)) FROM \(table(destination)) WHERE \(rowNumber(destination)) = ?\(parameter))"
                )
            }
        }
        if model.isInHierarchy(entity) {
            names.append(quoted(entityColumnName))
            values.append(naming.names([entity]))
        }
        let defaulted = defaults.names(in: model.table(of: entity)).map(quoted)
        for name in defaulted where !names.contains(where: name.hasSameBytes) {
            names.append(name)
            values.append("NULL")
        }
        let content =
            names.isEmpty
            ? "DEFAULT VALUES" : "(\(names.joined(separator: ", "))) VALUES (\(values.joined(separator: ", ")))"
        return "INSERT INTO \(table(entity)) \(content)"
    }

    /// Parameters: the values of the attributes, then a row number. A row that has these values does not change.
    ///
    /// - Parameter becomes: the object becomes one of the entity.
    func update(_ entity: Int, _ attributes: [Int], becomes: Bool) throws(StoreError) -> Statement {
        try cache.statement(
            entity, becomes ? 1 : 0, columns: attributes, sql: updateSQL(entity, attributes, becomes: becomes))
    }

    private func updateSQL(_ entity: Int, _ attributes: [Int], becomes: Bool) -> String {
        let names = attributes.map { quoted(model.entities[entity].attributes[$0].column) }
        let values = ExtraFunction.values(names, of: model.entities[entity])
        var assignments = zip(names, values).map { "\($0) = \($1)" }
        var condition = "\(rowNumber(entity)) = ?\(names.count + 1)"
        if becomes {
            assignments.append("\(quoted(entityColumnName)) = \(naming.names([entity]))")
        } else {
            condition += " AND (\(anyOf(zip(names, values).map { "\($0) IS NOT \($1)" })))"
        }
        return "UPDATE \(table(entity)) SET \(assignments.joined(separator: ", ")) WHERE \(condition)"
    }

    /// The value of the attribute in the row with that number; nil when there is no such row.
    func value(of attribute: Int, _ entity: Int, _ number: Int64) throws(StoreError) -> OwnedCell? {
        try cache.statement(
            entity, attribute,
            sql: "SELECT \(column(attribute, entity)) FROM \(table(entity)) WHERE \(rowNumber(entity)) = ?1"
        ).first(number) { OwnedCell(copying: $0.cell(0)) }
    }

    private func column(_ attribute: Int, _ entity: Int) -> String {
        quoted(model.entities[entity].attributes[attribute].column)
    }

    /// Parameters: a value that no other row has, then a row number. The row gets the value.
    func park(_ entity: Int, _ attribute: Int) throws(StoreError) -> Statement {
        try cache.statement(
            entity, attribute,
            sql: "UPDATE \(table(entity)) SET \(column(attribute, entity)) = ?1 WHERE \(rowNumber(entity)) = ?2")
    }

    /// Parameters: the row's own value, the one that it got instead, then its number.
    ///
    /// - Parameter isRenumbered: whether the row may have another number now; there is no third parameter then.
    func unpark(_ entity: Int, _ attribute: Int, isRenumbered: Bool) throws(StoreError) -> Statement {
        let name = column(attribute, entity)
        return try cache.statement(
            entity, attribute, columns: isRenumbered ? [1] : [],
            sql: "UPDATE \(table(entity)) SET \(name) = ?1 WHERE \(name) = ?2"
                + (isRenumbered ? "" : " AND \(rowNumber(entity)) = ?3"))
    }

    /// Parameters: a row number. Returns a row if there is one.
    func exists(_ entity: Int) throws(StoreError) -> Statement {
        try cache.statement(entity, sql: "SELECT 1 FROM \(table(entity)) WHERE \(rowNumber(entity)) = ?1")
    }

    /// Parameters: a row number. Returns a row if one has that number or a greater one.
    func reaches(_ entity: Int) throws(StoreError) -> Statement {
        try cache.statement(entity, sql: "SELECT 1 FROM \(table(entity)) WHERE \(rowNumber(entity)) >= ?1 LIMIT 1")
    }

    /// Parameters: the values of the attributes. Returns the number of the row that has them all.
    func holder(of attributes: [Int], _ entity: Int) throws(StoreError) -> Statement {
        try cache.statement(
            entity, columns: attributes,
            sql: "SELECT \(rowNumber(entity)) FROM \(table(entity)) WHERE "
                + equations(attributes.map { model.entities[entity].attributes[$0].column }))
    }

    // MARK: - Links in columns

    /// Parameters: a row number, and that of the object to which the row's link at the column is to lead. Only rows whose
    /// link changes are changed; their position in an ordered relationship is cleared.
    func setLink(_ entity: Int, _ column: Int) throws(StoreError) -> Statement {
        let destination = plan.layout.entities[entity].link(atColumn: column).destination
        let key = keyNames(destination).map(quoted).joined(separator: ", ")
        let source = "FROM \(table(destination)) WHERE \(rowNumber(destination)) = ?2"
        let links = linkNames(entity, column).map(quoted).joined(separator: ", ")
        return try cache.statement(
            entity, column,
            sql: "UPDATE \(table(entity)) SET (\(links)) = (SELECT \(key) \(source))"
                + "\(clearingPosition(entity, column)) WHERE \(rowNumber(entity)) = ?1 AND EXISTS (SELECT 1 \(source)) "
                + "AND (\(links)) IS NOT (SELECT \(key) \(source))")
    }

    /// Parameters: a row number. Ends the row's link at the column.
    func clearLink(_ entity: Int, _ column: Int) throws(StoreError) -> Statement {
        let links = linkNames(entity, column).map(quoted)
        return try cache.statement(
            entity, column,
            sql: "UPDATE \(table(entity)) SET \(links.map { "\($0) = NULL" }.joined(separator: ", "))"
                + "\(clearingPosition(entity, column)) WHERE \(rowNumber(entity)) = ?1 AND \(links[0]) IS NOT NULL")
    }

    /// Parameters: a row number of the destination. Returns the numbers of the rows whose link at the column leads there.
    func holders(_ entity: Int, _ column: Int) throws(StoreError) -> Statement {
        let destination = plan.layout.entities[entity].link(atColumn: column).destination
        let isLinked = zip(linkNames(entity, column), keyNames(destination)).map { "o.\(quoted($0)) = e.\(quoted($1))" }
        return try cache.statement(
            entity, column,
            sql: "SELECT o.\(rowNumber(entity)) FROM \(table(destination)) e CROSS JOIN \(table(entity)) o "
                + "WHERE e.\(rowNumber(destination)) = ?1 AND \(isLinked.joined(separator: " AND "))")
    }

    private func clearingPosition(_ entity: Int, _ column: Int) -> String {
        positionColumn(entity, column).map { ", \(quoted($0)) = NULL" } ?? ""
    }

    /// The column of a row's position in the ordered relationship to which its link at the column belongs.
    func positionColumn(_ entity: Int, _ column: Int) -> String? {
        let link = plan.layout.entities[entity].link(atColumn: column)
        return model.positionColumn(of: model.entities[entity].relationships[link.relationship])
    }

    // MARK: - Links in tables

    /// Parameters: the row numbers of the objects at the source and at the destination. An existing link does not change.
    func insertLink(_ number: Int) throws(StoreError) -> Statement {
        let link = plan.layout.linkTables[number]
        let sides = naming.linkSides(link)
        let names = (sides[0] + sides[1]).map(quoted).joined(separator: ", ")
        let values =
            keyNames(link.source).map { "s.\(quoted($0))" } + keyNames(link.destination).map { "d.\(quoted($0))" }
        return try cache.statement(
            number,
            sql: "INSERT INTO \(linkTable(number)) (\(names)) SELECT \(values.joined(separator: ", ")) "
                + "FROM \(table(link.source)) s CROSS JOIN \(table(link.destination)) d "
                + "WHERE s.\(rowNumber(link.source)) = ?1 AND d.\(rowNumber(link.destination)) = ?2 ON CONFLICT DO NOTHING"
        )
    }

    /// Parameters: the number of a row of the link table.
    func deleteLink(_ number: Int) throws(StoreError) -> Statement {
        try cache.statement(number, sql: "DELETE FROM \(linkTable(number)) WHERE rowid = ?1")
    }

    /// Parameters: the row number of the object at one side. Returns the link's row number, and that of the other object.
    func links(_ number: Int, isReversed: Bool) throws(StoreError) -> Statement {
        let link = plan.layout.linkTables[number]
        let sides = naming.linkSides(link)
        let (near, far) = isReversed ? (link.destination, link.source) : (link.source, link.destination)
        let joins = [("e", near, sides[isReversed ? 1 : 0]), ("o", far, sides[isReversed ? 0 : 1])].map {
            row, entity, side in
            zip(side, keyNames(entity)).map { "l.\(quoted($0)) = \(row).\(quoted($1))" }.joined(separator: " AND ")
        }
        return try cache.statement(
            number, isReversed ? 1 : 0,
            sql:
                "SELECT l.rowid, o.\(rowNumber(far)) FROM \(table(near)) e CROSS JOIN \(linkTable(number)) l ON \(joins[0]) "
                + "CROSS JOIN \(table(far)) o ON \(joins[1]) WHERE e.\(rowNumber(near)) = ?1")
    }

    // MARK: - Positions

    /// Parameters: the row number of an object, and that of an element of its ordered relationship, then a position.
    func setPosition(_ entity: Int, _ relationship: Int) throws(StoreError) -> Statement {
        try cache.statement(
            entity, relationship,
            sql: list(entity, relationship) { table, position, isObject, isElement in
                "UPDATE \(table) SET \(position) = ?3 WHERE \(isObject) AND \(isElement) AND \(position) IS NOT ?3"
            })
    }

    /// Parameters: the row number of an object. Returns the greatest position in its ordered relationship.
    func lastPosition(_ entity: Int, _ relationship: Int) throws(StoreError) -> Statement {
        try cache.statement(
            entity, relationship,
            sql: list(entity, relationship) { table, position, isObject, _ in
                "SELECT max(\(position)) FROM \(table) WHERE \(isObject)"
            })
    }

    /// Parameters: the row number of an object. Returns row number and position of each element of its ordered relationship.
    func positions(_ entity: Int, _ relationship: Int) throws(StoreError) -> Statement {
        let destination = model.destinationTable(entity, relationship)
        return try cache.statement(
            entity, relationship,
            sql: list(entity, relationship) { table, position, isObject, _ in
                guard case .linkTable(let number, let isReversed) = plan.layout.entities[entity].forms[relationship]
                else {
                    return "SELECT \(rowNumber(destination)), \(position) FROM \(table) WHERE \(isObject)"
                }
                let side = naming.linkSides(plan.layout.linkTables[number])[isReversed ? 0 : 1]
                let isFar = zip(side, keyNames(destination)).map { "l.\(quoted($0)) = o.\(quoted($1))" }
                return
                    "SELECT o.\(rowNumber(destination)), l.\(position) FROM \(table) l CROSS JOIN \(self.table(destination)) o "
                    + "ON \(isFar.joined(separator: " AND ")) WHERE \(isObject)"
            })
    }

    /// The SQL over the rows with the positions of an ordered relationship.
    private func list(
        _ entity: Int, _ relationship: Int,
        _ sql: (_ table: String, _ position: String, _ isObject: String, _ isElement: String) -> String
    ) -> String {
        func isKey(_ names: [String], of entity: Int, _ parameter: Int) -> String {
            let key = keyNames(entity).map(quoted).joined(separator: ", ")
            return "(\(names.map(quoted).joined(separator: ", "))) = (SELECT \(key) FROM \(table(entity)) "
                + "WHERE \(rowNumber(entity)) = ?\(parameter))"
        }
        let destination = model.destinationTable(entity, relationship)
        switch plan.layout.entities[entity].forms[relationship] {
        case .column: preconditionFailure("a to-one relationship has no order")
        case .destinationColumn(let column):
            return sql(
                table(destination), quoted(positionColumn(destination, column)!),
                isKey(linkNames(destination, column), of: entity, 1), "\(rowNumber(destination)) = ?2")
        case .linkTable(let number, let isReversed):
            let sides = naming.linkSides(plan.layout.linkTables[number])
            let position = isReversed ? LinkPosition.inversePosition : .position
            return sql(
                linkTable(number), quoted(position.rawValue), isKey(sides[isReversed ? 1 : 0], of: entity, 1),
                isKey(sides[isReversed ? 0 : 1], of: destination, 2))
        }
    }

    // MARK: - Renaming

    /// The updates, to be run in their order, by which owned objects follow the new identity of their owner, which begins their own.
    /// Foreign keys follow by themselves (`ON UPDATE CASCADE`), from the owner to its objects and from these to theirs.
    ///
    /// Parameters: the owner's new key.
    func ownedKeys(_ owner: Int) throws(StoreError) -> [Statement] {
        if let known = ownedKeys[owner] { return known }
        var updates: [Statement] = []
        for sql in ownedKeysSQL(owner, model.entities[owner].identity.count) {
            updates.append(try connection.prepare(sql))
        }
        ownedKeys[owner] = updates
        return updates
    }

    private func ownedKeysSQL(_ owner: Int, _ count: Int) -> [String] {
        model.holders.owners.sorted { $0.key < $1.key }.filter { model.topmost(of: $1.entity) == owner }.flatMap {
            entity, holder in
            let inverse = model.inverse(of: model.entities[holder.entity].relationships[holder.relationship])!
            let links = naming.linkColumns(inverse)
            let own = model.entities[entity].identity.prefix(links.count).map {
                model.entities[entity].attributes[$0].column
            }
            let assignments = zip(own, links).map { "\(quoted($0)) = \(quoted($1))" }.joined(separator: ", ")
            return [
                "UPDATE \(table(entity)) SET \(assignments) WHERE \(equations(Array(links.prefix(count))))"
            ] + ownedKeysSQL(entity, count)
        }
    }

    // MARK: - Names

    private func table(_ entity: Int) -> String { quoted(model.table(of: entity)) }

    private func linkTable(_ number: Int) -> String { quoted(naming.linkTable(plan.layout.linkTables[number])) }

    private func rowNumber(_ entity: Int) -> String { naming.rowNumber(entity) }

    private func keyNames(_ entity: Int) -> [String] { naming.keyColumns(entity).map(\.name) }

    private func linkNames(_ entity: Int, _ column: Int) -> [String] {
        let link = plan.layout.entities[entity].link(atColumn: column)
        return naming.linkColumns(model.entities[entity].relationships[link.relationship])
    }
}
