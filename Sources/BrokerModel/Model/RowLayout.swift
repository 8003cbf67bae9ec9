/// Where a relationship's links are stored.
package enum RelationshipForm: Sendable, Equatable {
    /// To-one: a link column of the entity's own rows.
    case column(Int)
    /// To-many with a to-one inverse: a link column of the destination's rows.
    case destinationColumn(Int)
    /// Any other to-many: a row in the link table of that index. `isReversed` from its `destination` side.
    case linkTable(Int, isReversed: Bool)
}

/// A to-one relationship among an entity's columns.
package struct LinkColumn: Sendable {
    package let relationship: Int
    /// The entity whose table has the destination's objects.
    package let destination: Int
    /// The link column of the inverse, for a one-to-one pair.
    package let oneToOneColumn: Int?
}

/// A table of links: a to-many relationship without a to-one inverse, or a many-to-many pair.
package struct LinkTable: Sendable {
    /// The entity whose table has the owner's objects: the `source` side of the rows.
    package let source: Int
    package let relationship: Int
    /// The entity whose table has the objects of the other side.
    package let destination: Int
    /// A relationship that is its own inverse: every link is stored in both directions.
    package let isSymmetric: Bool
    /// Objects of both sides have a relationship for the links.
    package let hasInverse: Bool
    /// The owner's relationship is ordered.
    package let isOrdered: Bool
    package let isInverseOrdered: Bool

    /// The sides whose objects have the links in an order: 0 for the source, 1 for the destination.
    package var orderedSides: [Int] { (isOrdered ? [0] : []) + (isInverseOrdered ? [1] : []) }
}

/// The columns of a row of an entity's table: the attributes in the model's order, then one link column per to-one
/// relationship.
package struct EntityLayout: Sendable {
    package let attributeCount: Int
    package let links: [LinkColumn]
    /// By relationship index.
    package let forms: [RelationshipForm]

    package var columnCount: Int { attributeCount + links.count }
    package func link(atColumn column: Int) -> LinkColumn { links[column - attributeCount] }
}

/// The shape of staged rows, derived from the model. Staging fills such rows and the store merges them.
package struct RowLayout: Sendable {
    /// By entity index; entities of a hierarchy share the layout of its table.
    package let entities: [EntityLayout]
    package let linkTables: [LinkTable]

    package init(_ model: Model) {
        var linkTables: [LinkTable] = []
        var linkTableIndices: [RelationshipID: Int] = [:]
        for source in model.tableEntities {
            for (index, relationship) in model.entities[source].relationships.enumerated() {
                let id = RelationshipID(entity: source, relationship: index)
                guard Self.ownsLinkTable(id, in: model) else { continue }
                linkTableIndices[id] = linkTables.count
                let destination = model.topmost(of: relationship.destination)
                let isSymmetric = destination == source && relationship.inverse == index
                linkTables.append(
                    LinkTable(
                        source: source, relationship: index, destination: destination,
                        isSymmetric: isSymmetric, hasInverse: relationship.inverse != nil,
                        isOrdered: relationship.isOrdered,
                        isInverseOrdered: !isSymmetric && model.inverse(of: relationship)?.isOrdered ?? false))
            }
        }
        self.linkTables = linkTables
        entities = model.entities.indices.map {
            Self.layout(ofEntity: model.topmost(of: $0), in: model, linkTableIndices)
        }
    }

    private struct RelationshipID: Hashable {
        let entity: Int
        let relationship: Int
    }

    /// The owner of a many-to-many pair's table is the entity whose name is first; within one entity, the relationship
    /// whose name is first.
    private static func ownsLinkTable(_ id: RelationshipID, in model: Model) -> Bool {
        let relationship = model.entities[id.entity].relationships[id.relationship]
        guard relationship.isToMany else { return false }
        guard let inverse = model.inverse(of: relationship) else { return true }
        guard inverse.isToMany else { return false }
        let owner = model.entities[relationship.owner ?? id.entity]
        let destination = model.entities[inverse.owner ?? relationship.destination]
        return (owner.name, relationship.name) <= (destination.name, inverse.name)
    }

    private static func layout(
        ofEntity index: Int, in model: Model, _ linkTables: [RelationshipID: Int]
    ) -> EntityLayout {
        let entity = model.entities[index]
        var links: [LinkColumn] = []
        let forms = entity.relationships.enumerated().map { position, relationship -> RelationshipForm in
            let inverse = model.inverse(of: relationship)
            if !relationship.isToMany {
                let isOneToOne = inverse.map { !$0.isToMany } ?? false
                links.append(
                    LinkColumn(
                        relationship: position, destination: model.topmost(of: relationship.destination),
                        oneToOneColumn: isOneToOne ? linkColumn(of: relationship.inverse, relationship, model) : nil))
                return .column(entity.attributes.count + links.count - 1)
            }
            if let inverse, !inverse.isToMany {
                return .destinationColumn(linkColumn(of: relationship.inverse, relationship, model)!)
            }
            let own = RelationshipID(entity: index, relationship: position)
            if let table = linkTables[own] { return .linkTable(table, isReversed: false) }
            let other = RelationshipID(
                entity: model.topmost(of: relationship.destination), relationship: relationship.inverse!)
            return .linkTable(linkTables[other]!, isReversed: true)
        }
        return EntityLayout(attributeCount: entity.attributes.count, links: links, forms: forms)
    }

    /// Returns the column of the destination's to-one relationship `inverse`.
    private static func linkColumn(of inverse: Int?, _ relationship: Relationship, _ model: Model) -> Int? {
        guard let inverse else { return nil }
        let destination = model.entities[relationship.destination]
        let before = destination.relationships[..<inverse].count { !$0.isToMany }
        return destination.attributes.count + before
    }
}
