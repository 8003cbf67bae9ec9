internal import BrokerModel

/// The checks and views of a hierarchy's table: checks for columns that only some of its entities require, and a view
/// for each entity but the topmost.
extension Schema {
    package struct View: Sendable, Equatable {
        let name: String
        let table: String
        /// A column of the table, with its name in the view.
        let columns: [Renamed]
        let condition: String

        struct Renamed: Sendable, Equatable {
            let column: String
            let name: String
        }

        /// The view has the entity's own and inherited columns, over its objects and those of its subentities.
        init(of index: Int, _ naming: ColumnNaming) {
            let model = naming.model
            let entity = model.entities[index]
            var columns = entity.hasRowKey ? [Renamed(column: rowKeyName, name: rowKeyName)] : []
            columns += entity.attributeIndices.map {
                Renamed(column: entity.attributes[$0].column, name: entity.attributes[$0].name)
            }
            for position in entity.relationshipIndices {
                let relationship = entity.relationships[position]
                guard !relationship.isToMany else { continue }
                var own = relationship
                own.column = relationship.name
                columns += zip(naming.linkColumns(relationship), naming.linkColumns(own)).map {
                    Renamed(column: $0, name: $1)
                }
                let places = [relationship, own].compactMap(model.positionColumn)
                if places.count == 2 { columns.append(Renamed(column: places[0], name: places[1])) }
            }
            columns.append(Renamed(column: entityColumnName, name: entityColumnName))
            name = entity.table
            table = model.table(of: index)
            self.columns = columns
            condition = naming.entityCondition(index)!
        }

        var sql: String {
            let list = columns.map {
                $0.column == $0.name ? quoted($0.name) : "\(quoted($0.column)) AS \(quoted($0.name))"
            }
            return "CREATE VIEW \(quoted(name)) AS\n    SELECT \(list.joined(separator: ", "))\n"
                + "    FROM \(quoted(table)) WHERE \(condition)"
        }
    }

    /// The columns that entities below the topmost one require.
    package static func checks(_ topmost: Int, _ naming: ColumnNaming) -> [Check] {
        let model = naming.model
        let top = model.entities[topmost]
        var requiring: [Int: [Int]] = [:]
        for member in model.subentities(of: topmost) {
            let entity = model.entities[member]
            for position in entity.attributeIndices where !top.attributeIndices.contains(position) {
                let isRequired =
                    entity.identity.contains(position)
                    ? !entity.isIdentityOptional : !entity.attributes[position].isOptional
                if isRequired { requiring[position, default: []].append(member) }
            }
        }
        return requiring.sorted { $0.key < $1.key }.map { position, members in
            Check(column: top.attributes[position].column, entities: members.map { model.entities[$0].name })
        }
    }

    /// Identities that entities below the topmost one declare themselves.
    package static func ownIdentities(_ topmost: Int, _ naming: ColumnNaming) -> [PartialList] {
        let model = naming.model
        return model.subentities(of: topmost).compactMap { member in
            let entity = model.entities[member]
            let isHead = entity.parent.map { model.entities[$0].identity.isEmpty } ?? false
            guard isHead, !entity.identity.isEmpty, let condition = naming.entityCondition(member) else { return nil }
            return PartialList(
                entity: entity.name, columns: entity.identity.map { entity.attributes[$0].column }, condition: condition
            )
        }
    }
}

extension ColumnNaming {
    /// The condition that a row of the entity's table is an object of the entity or of a subentity; nil when all are.
    ///
    /// - Parameter alias: of the table in the statement.
    package func entityCondition(_ entity: Int, alias: String? = nil) -> String? {
        guard model.entities[entity].parent != nil else { return nil }
        let column = (alias.map { "\($0)." } ?? "") + quoted(entityColumnName)
        return "\(column) IN (\(names(model.subentities(of: entity))))"
    }

    /// The names of entities as SQL literals.
    package func names(_ entities: [Int]) -> String {
        entities.map { textLiteral(model.entities[$0].name) }.joined(separator: ", ")
    }
}

/// A text as an SQL literal. It has no control characters, because it is a name of the model.
package func textLiteral(_ text: String) -> String {
    "'\(text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''"))'"
}
