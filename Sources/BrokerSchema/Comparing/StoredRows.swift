package import BrokerModel
import BrokerSQLite

/// Finds in a store's rows what decides whether a changed model loses something.
struct StoredRows {
    private let connection: Connection
    private let stored: Model
    private let naming: ColumnNaming

    init(of connection: Connection, _ stored: Model) {
        self.connection = connection
        self.stored = stored
        naming = ColumnNaming(stored)
    }

    /// Entities of the stored model with rows in a table that stays, which are missing or abstract in the wanted model.
    func populated(_ wanted: Model, _ match: ModelMatch) throws(StoreError) -> Set<Int> {
        var populated: Set<Int> = []
        let staying = Set(match.tables.compactMap { $0 })
        for (index, entity) in stored.entities.enumerated()
        where !entity.isAbstract && staying.contains(stored.topmost(of: index)) {
            let mayHaveRows = match.entity(for: index).map { !wanted.entities[$0].isAbstract } ?? false
            guard !mayHaveRows else { continue }
            let concreteEntity = stored.isInHierarchy(index) ? entity.name : nil
            if try hasRows(stored.table(of: index), concreteEntity) { populated.insert(index) }
        }
        return populated
    }

    private func hasRows(_ table: String, _ concreteEntity: String?) throws(StoreError) -> Bool {
        guard try has(concreteEntity == nil ? nil : entityColumnName, in: table) else { return false }
        return try hasRow(
            in: table, where: concreteEntity.map { "\(quoted(entityColumnName)) = \(textLiteral($0))" } ?? "1")
    }

    // MARK: - Parts without values

    /// Those of the parts that are null in every row, or have no links.
    func empty(_ parts: Set<StoredPart>) throws(StoreError) -> Set<StoredPart> {
        var empty: Set<StoredPart> = []
        for part in parts where try isEmpty(part) { empty.formUnion(stored.both(part)) }
        return empty
    }

    private func isEmpty(_ part: StoredPart) throws(StoreError) -> Bool {
        let place = naming.place(of: part.kind, part.index, of: part.topmost)
        guard try has(place.filled, in: place.table) else { return false }
        return try !hasRow(in: place.table, where: place.filled.map { "\(quoted($0)) IS NOT NULL" } ?? "1")
    }

    // MARK: - Values of another form

    /// One value of each attribute that its new form does not hold exactly, and the condition of its rows.
    ///
    /// - Parameter readsAll: also of types that are refused otherwise.
    func inexact(
        _ wanted: Model, _ match: ModelMatch, _ convert: AttributeConversion, readsAll: Bool
    ) throws(StoreError) -> [StoredPart: (value: String, condition: String)] {
        var inexact: [StoredPart: (value: String, condition: String)] = [:]
        var checked: Set<StoredPart> = []
        for (new, entity) in match.entities.enumerated() {
            guard let old = entity.old else { continue }
            for (place, source) in entity.attributes.enumerated() {
                guard let source else { continue }
                let part = stored.part(.attribute, source, of: old)
                let (before, now) = (stored.entities[old].attributes[source], wanted.entities[new].attributes[place])
                guard checked.insert(part).inserted, !now.holdsAll(of: before),
                    readsAll || before.type == now.type && before.dateStorage == now.dateStorage
                        || now.type.change(from: before.type) != nil,
                    try has(before.column, in: stored.table(of: old))
                else { continue }
                let name = quoted(before.column)
                let condition =
                    "\(name) IS NOT NULL AND \(conversionFunction)(\(convert(before, now)), \(name)) IS NULL"
                let value = try connection.text(
                    "SELECT \(name) FROM \(quoted(stored.table(of: old))) WHERE \(condition) LIMIT 1")
                if let value { inexact[part] = (Self.shown(value, scale: before.decimalScale ?? 0), condition) }
            }
        }
        return inexact
    }

    /// A decimal that is stored as a whole number of units, with its point.
    private static func shown(_ value: String, scale: Int) -> String {
        guard scale > 0 else { return value }
        let sign = value.hasPrefix("-") ? "-" : ""
        let digits = value.dropFirst(sign.count)
        let padded = String(repeating: "0", count: max(0, scale + 1 - digits.count)) + digits
        return "\(sign)\(padded.dropLast(scale)).\(padded.suffix(scale))"
    }

    // MARK: - Reading

    private func has(_ column: String?, in table: String) throws(StoreError) -> Bool {
        let condition = column.map { " WHERE name = \(textLiteral($0))" } ?? ""
        return try connection.integer("SELECT 1 FROM pragma_table_info(\(textLiteral(table)))\(condition)") != nil
    }

    private func hasRow(in table: String, where condition: String) throws(StoreError) -> Bool {
        try connection.integer("SELECT 1 FROM \(quoted(table)) WHERE \(condition) LIMIT 1") != nil
    }
}

extension ColumnNaming {
    /// Where the values of a part are: a table, the columns that name their objects there, and those of the values.
    ///
    /// `filled` is not null in rows with a value; nil for a table of links. `isOwn`: the table is that of the entity.
    fileprivate func place(
        of kind: PartKind, _ index: Int, of entity: Int
    ) -> (table: String, key: [String], values: [String], filled: String?, isOwn: Bool) {
        let table = model.table(of: entity)
        guard kind == .relationship else {
            let column = model.entities[entity].attributes[index].column
            return (table, nameColumns(entity), [column], column, true)
        }
        let relationship = model.entities[entity].relationships[index]
        switch layout.entities[entity].forms[index] {
        case .column:
            let columns = linkColumns(relationship)
            return (table, nameColumns(entity), columns, columns[0], true)
        case .destinationColumn:
            let columns = linkColumns(model.inverse(of: relationship)!)
            let destination = relationship.destination
            return (model.table(of: destination), columns, nameColumns(destination), columns[0], false)
        case .linkTable(let number, let isReversed):
            let sides = linkSides(layout.linkTables[number])
            let (near, far) = isReversed ? (sides[1], sides[0]) : (sides[0], sides[1])
            return (linkTable(layout.linkTables[number]), near, far, nil, false)
        }
    }
}

/// Counts what goes with the parts that a changed model lacks, if they are dropped.
struct StoreLosses {
    private static let maximumExamples = 10
    private static let maximumCharacters = 60

    let stored: Model
    let wanted: Model
    let match: ModelMatch
    let removed: [String: RemovedPart]
    let moved: [String: MovedValues]

    /// The changes with their losses. Reads every row of the tables concerned.
    func adding(to changes: [StoreChange], on connection: Connection) throws(StoreError) -> [StoreChange] {
        var changes = changes
        for index in changes.indices {
            let (verdict, subject) = (changes[index].verdict, changes[index].subject)
            let found = verdict == .migrated ? moved[subject].map(rows) : removed[subject].flatMap(rows)
            guard verdict != .kept, let found else { continue }
            changes[index].loss = try found.loss(on: connection)
        }
        return changes
    }

    private struct Rows {
        let kind: StoreLoss.Kind
        let table: String
        let condition: String
        /// The columns that name the object, and those that are lost.
        let columns: (key: [String], lost: [String])

        func loss(on connection: Connection) throws(StoreError) -> StoreLoss? {
            let rows = "FROM \(quoted(table)) WHERE \(condition)"
            guard let count = try connection.integer("SELECT count(*) \(rows)"), count > 0 else { return nil }
            let names = (columns.key + columns.lost).map(quoted).map { name in
                // Not all of a large value is copied.
                "quote(CASE WHEN typeof(\(name)) IN ('text', 'blob') THEN substr(\(name), 1, \(maximumCharacters)) ELSE \(name) END)"
            }
            let statement = try connection.prepare(
                "SELECT \(names.joined(separator: ", ")) \(rows) LIMIT \(maximumExamples)")
            var examples: [String] = []
            while try statement.step() {
                let texts = names.indices.map(statement.text)
                let parts = [texts.prefix(columns.key.count), texts.dropFirst(columns.key.count)]
                examples.append(
                    parts.filter { !$0.isEmpty }.map { $0.joined(separator: ", ") }.joined(separator: ": "))
            }
            return StoreLoss(kind, count: count, examples: examples)
        }
    }

    private func rows(of moved: MovedValues) -> Rows {
        let entity = stored.entities[moved.part.topmost]
        return Rows(
            kind: .values, table: entity.table, condition: moved.condition,
            columns: (
                ColumnNaming(stored).nameColumns(moved.part.topmost), [entity.attributes[moved.part.index].column]
            ))
    }

    private func rows(of part: RemovedPart) -> Rows? {
        let naming = ColumnNaming(stored)
        switch part {
        case .entity(let entity):
            guard !stored.entities[entity].isAbstract else { return nil }
            return Rows(
                kind: .objects, table: stored.table(of: entity), condition: condition([entity]),
                columns: (naming.nameColumns(entity), []))
        case .part(let kind, let index, let entity):
            if kind == .relationship, hasInverse(stored.entities[entity].relationships[index]) { return nil }
            let place = naming.place(of: kind, index, of: entity)
            // Of the entity, and of subentities with which the loss is reported.
            let subentities = stored.subentities(of: entity).filter { subentity in
                match.entity(for: subentity).map { match.inherits(kind, index, of: $0, stored, wanted) } ?? false
            }
            let conditions = [
                place.filled.map { "\(quoted($0)) IS NOT NULL" }, place.isOwn ? condition([entity] + subentities) : nil,
            ]
            return Rows(
                kind: kind == .attribute ? .values : .links, table: place.table,
                condition: (["1"] + conditions.compactMap { $0 }).joined(separator: " AND "),
                columns: (place.key, place.values))
        }
    }

    /// Whether the model still has the inverse, which retains the links.
    private func hasInverse(_ relationship: Relationship) -> Bool {
        guard let inverse = relationship.inverse, let destination = match.entity(for: relationship.destination) else {
            return false
        }
        return match.place(.relationship, for: inverse, of: destination) != nil
    }

    /// The condition that a row is an object of exactly one of the entities, which share a table.
    private func condition(_ entities: [Int]) -> String {
        guard stored.isInHierarchy(entities[0]) else { return "1" }
        let names = entities.map { textLiteral(stored.entities[$0].name) }
        return "\(quoted(entityColumnName)) IN (\(names.joined(separator: ", ")))"
    }
}

/// Registers a conversion of stored values to another type; its number is the first argument of ``conversionFunction``.
package typealias AttributeConversion = (_ old: Attribute, _ new: Attribute) -> Int

/// The SQL function that converts a stored value: the number of the conversion, and the value. NULL is a value that the new
/// attribute does not hold.
package let conversionFunction = "_broker_converted"

/// The SQL function for `_extra` of a row with a value that is converted: the number of the conversion, `_extra`, and the value.
package let extraFunction = "_broker_moved"

/// Values that their attribute does not hold any more, and that go to `_extra`.
struct MovedValues {
    let part: StoredPart
    let condition: String
}
