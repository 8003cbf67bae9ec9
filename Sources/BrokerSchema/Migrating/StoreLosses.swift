internal import BrokerModel
internal import BrokerSQLite

/// Counts what goes with the parts that a changed model lacks, if they are dropped.
struct StoreLosses {
    /// The number of rows that are reported with their contents.
    private static let maximumExamples = 10
    /// The number of characters of a value that are reported.
    private static let maximumCharacters = 60

    let stored: Model
    let wanted: Model
    let match: ModelMatch
    /// By the subjects of the changes.
    let removed: [String: RemovedPart]

    /// The changes with their losses. Reads every row of the tables concerned.
    func adding(to changes: [StoreChange], on connection: Connection) throws(StoreError) -> [StoreChange] {
        var changes = changes
        for index in changes.indices {
            guard [.dropped, .refused].contains(changes[index].verdict),
                let rows = removed[changes[index].subject].flatMap(rows)
            else { continue }
            changes[index].loss = try rows.loss(on: connection)
        }
        return changes
    }

    /// The rows that have what is lost.
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

    /// Nil where nothing is lost.
    private func rows(of part: RemovedPart) -> Rows? {
        let naming = ColumnNaming(model: stored, layout: RowLayout(stored))
        switch part {
        case .entity(let entity):
            guard !stored.entities[entity].isAbstract else { return nil }
            return Rows(
                kind: .objects, table: stored.table(of: entity), condition: condition([entity]),
                columns: (naming.nameColumns(entity), []))
        case .part(.attribute, let index, let entity):
            return rows(.values, [stored.entities[entity].attributes[index].column], .attribute, index, entity, naming)
        case .part(.relationship, let index, let entity):
            let relationship = stored.entities[entity].relationships[index]
            if hasInverse(relationship) { return nil }
            switch naming.layout.entities[entity].forms[index] {
            case .column:
                return rows(.links, naming.linkColumns(relationship), .relationship, index, entity, naming)
            case .destinationColumn:
                guard let inverse = stored.inverse(of: relationship) else { return nil }
                let columns = naming.linkColumns(inverse)
                return Rows(
                    kind: .links, table: stored.table(of: relationship.destination),
                    condition: "\(quoted(columns[0])) IS NOT NULL",
                    columns: (columns, naming.nameColumns(relationship.destination)))
            case .linkTable(let number, let isReversed):
                let link = naming.layout.linkTables[number]
                let sides = naming.linkSides(link)
                return Rows(
                    kind: .links, table: naming.linkTable(link), condition: "1",
                    columns: (sides[isReversed ? 1 : 0], sides[isReversed ? 0 : 1]))
            }
        }
    }

    /// Whether the model still has the inverse, which retains the links.
    private func hasInverse(_ relationship: Relationship) -> Bool {
        guard let inverse = relationship.inverse, let destination = match.entity(for: relationship.destination) else {
            return false
        }
        return match.place(.relationship, for: inverse, of: destination) != nil
    }

    /// Rows of the entity, and of subentities with which the loss is reported, that have values in columns.
    private func rows(
        _ lost: StoreLoss.Kind, _ columns: [String], _ kind: PartKind, _ index: Int, _ entity: Int,
        _ naming: ColumnNaming
    ) -> Rows {
        let subentities = stored.subentities(of: entity).filter { subentity in
            guard let new = match.entity(for: subentity) else { return false }
            return match.inherits(kind, index, of: new, stored, wanted)
        }
        return Rows(
            kind: lost, table: stored.table(of: entity),
            condition: "\(quoted(columns[0])) IS NOT NULL AND \(condition([entity] + subentities))",
            columns: (naming.nameColumns(entity), columns))
    }

    /// The condition that a row is an object of exactly one of the entities, which share a table.
    private func condition(_ entities: [Int]) -> String {
        guard stored.isInHierarchy(entities[0]) else { return "1" }
        let names = entities.map { textLiteral(stored.entities[$0].name) }
        return "\(quoted(entityColumnName)) IN (\(names.joined(separator: ", ")))"
    }
}
