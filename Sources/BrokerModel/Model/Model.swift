internal import Glibc

/// A data model: read once, checked completely, then immutable and shared by every thread.
///
/// Entities, attributes, relationships and mappings refer to each other by index, in the order in which the model names
/// them.
package final class Model: Sendable {
    package let entities: [Entity]
    package let mappings: [Mapping]
    /// In the order in which they are tried.
    package let routes: [Route]
    /// For people.
    package let description: String?
    /// Commands that load records add to it what these have more.
    package let evolves: Bool
    package let hasReadableViews: Bool
    package let holders: HolderRelationships
    /// By entity index.
    private let families: [Family]
    /// Topmost entities whose hierarchies' objects may be linked to any number of others, or have delete rules.
    private let reaching: Set<Int>
    private let indexByName: [ExactText: Int]
    private let mappingByName: [ExactText: Int]

    /// The ancestors and subentities of an entity.
    private struct Family: Sendable {
        var topmost: Int
        /// The nearest one first.
        var ancestors: [Int] = []
        /// The entity itself and those below it, in the model's order.
        var subentities: [Int] = []
    }

    /// - Precondition: every index is in range, names are unique, and parents form no circle. ``ModelReader`` ensures
    ///   that.
    package init(
        entities: [Entity], mappings: [Mapping] = [], routes: [Route] = [], description: String? = nil,
        evolves: Bool = false, hasReadableViews: Bool = true
    ) {
        self.entities = entities
        self.mappings = mappings
        self.routes = routes
        self.description = description
        self.evolves = evolves
        self.hasReadableViews = hasReadableViews
        holders = HolderRelationships(entities)
        var families = entities.indices.map { Family(topmost: $0) }
        for index in entities.indices {
            var ancestor = index
            families[index].subentities.append(index)
            while let parent = entities[ancestor].parent {
                families[index].ancestors.append(parent)
                families[parent].subentities.append(index)
                ancestor = parent
            }
            families[index].topmost = ancestor
        }
        for index in families.indices { families[index].subentities.sort() }
        self.families = families
        reaching = entities.enumerated().reduce(into: []) { reaching, entity in
            for relationship in entity.element.relationships {
                if relationship.isToMany || [.cascade, .deny].contains(relationship.deleteRule) {
                    reaching.insert(families[entity.offset].topmost)
                }
                if relationship.inverse == nil { reaching.insert(families[relationship.destination].topmost) }
            }
        }
        indexByName = Dictionary(firstOf: entities.enumerated().map { ($1.name, $0) })
        mappingByName = Dictionary(firstOf: mappings.enumerated().map { ($1.name, $0) })
    }

    /// The index of the entity of that name (exact case); nil when the model has none.
    package func index(ofEntity name: String) -> Int? { indexByName[name] }

    /// The index of the mapping of that name (exact case); nil when the model has none.
    package func index(ofMapping name: String) -> Int? { mappingByName[name] }

    /// The other side of a relationship; nil when it has no inverse.
    package func inverse(of relationship: Relationship) -> Relationship? {
        relationship.inverse.map { entities[relationship.destination].relationships[$0] }
    }

    /// The column, besides a to-one relationship's own, of the object's position in the ordered list of its inverse;
    /// nil when the inverse is not ordered.
    package func positionColumn(of relationship: Relationship) -> String? {
        inverse(of: relationship).flatMap { Self.positionColumn(of: relationship, inverse: $0) }
    }

    static func positionColumn(of relationship: Relationship, inverse: Relationship) -> String? {
        !relationship.isToMany && inverse.isOrdered ? "\(relationship.column)_position" : nil
    }
}

// MARK: - Hierarchies

extension Model {
    /// The entity whose table has the objects: the topmost entity, or the entity itself.
    package func topmost(of entity: Int) -> Int { families[entity].topmost }

    /// The objects of its hierarchy that a job may delete.
    package func deletionLimit(of entity: Int) -> DeletionLimit? { entities[topmost(of: entity)].maximumDeletions }

    /// The entities that it inherits from, the nearest one first.
    package func ancestors(of entity: Int) -> [Int] { families[entity].ancestors }

    /// The entity itself and all that inherit from it, in the model's order: the possible concrete entities of its
    /// objects.
    package func subentities(of entity: Int) -> [Int] { families[entity].subentities }

    /// Whether the entity shares a table with other entities.
    package func isInHierarchy(_ entity: Int) -> Bool { families[families[entity].topmost].subentities.count > 1 }

    package func destinationTable(_ entity: Int, _ relationship: Int) -> Int {
        topmost(of: entities[entity].relationships[relationship].destination)
    }

    /// The name of the table that has the entity's objects.
    package func table(of entity: Int) -> String { entities[topmost(of: entity)].table }

    /// Entities that have a table of their own, or for their hierarchy.
    package var tableEntities: [Int] { entities.indices.filter { entities[$0].parent == nil } }

    /// Whether deleting one object of the entity, or of its hierarchy, may delete or change any number of others.
    package func deletionReachesOthers(_ entity: Int) -> Bool { reaching.contains(topmost(of: entity)) }

    /// Whether an object of `entity` is also an object of `other`.
    package func isKind(_ entity: Int, of other: Int) -> Bool {
        entity == other || families[entity].ancestors.contains(other)
    }
}

/// A relationship whose values may contain records of an entity.
package struct HolderRelationship: Sendable {
    package let entity: Int
    package let relationship: Int
    package let destination: Int
}

/// The relationships of a model, by the entities whose records their values may contain.
package struct HolderRelationships: Sendable {
    private let entities: [Entity]
    private var byDestination: [Int: [HolderRelationship]] = [:]
    /// By owned entity, the relationship that owns its objects.
    package private(set) var owners: [Int: HolderRelationship] = [:]

    package init(_ entities: [Entity]) {
        self.entities = entities
        for (index, entity) in entities.enumerated() {
            let inherited = Set(entity.parent.map { entities[$0].relationshipIndices } ?? [])
            for place in entity.relationshipIndices where !inherited.contains(place) {
                let relationship = entity.relationships[place]
                let holder = HolderRelationship(
                    entity: index, relationship: place, destination: relationship.destination)
                byDestination[relationship.destination, default: []].append(holder)
                if relationship.isOwned { owners[relationship.destination] = holder }
            }
        }
    }

    /// The relationships whose values may contain records of that entity: of an owned entity its owner's alone, otherwise
    /// also those that lead to entities above, because a mapping may choose an entity below.
    package func holders(of entity: Int) -> [HolderRelationship] {
        if let owner = owners[entity] { return [owner] }
        var holders: [HolderRelationship] = []
        var ancestor: Int? = entity
        while let current = ancestor {
            holders += byDestination[current] ?? []
            ancestor = entities[current].parent
        }
        return holders
    }
}

extension String {
    /// Equal byte by byte. `==` treats the normal forms of one Unicode text as equal, which SQLite's names and the
    /// contract's ids do not, and takes quadratic time for that.
    package func hasSameBytes(as other: String) -> Bool {
        let areSame = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable {
                own.count == $0.count && (own.isEmpty || memcmp(own.baseAddress!, $0.baseAddress!, own.count) == 0)
            }
        }
        return (areSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}

/// A text as a key: compared byte by byte, as SQLite compares names and the contract compares ids.
///
/// Two texts that differ only in Unicode form are two keys, while `String` compares them as equal.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        var text = text
        text.makeContiguousUTF8()
        self.text = text
    }

    package static func == (left: ExactText, right: ExactText) -> Bool { left.text.hasSameBytes(as: right.text) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

/// A name as SQLite compares names: by bytes, except for the case of ASCII letters.
package struct FoldedName: Hashable, Sendable {
    private let bytes: [UInt8]

    package init(_ name: String) {
        bytes = name.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }

    func hasPrefix(_ prefix: String) -> Bool { bytes.starts(with: prefix.utf8) }
}

extension Dictionary where Key == ExactText {
    /// Of equal names, the first one counts.
    package init(firstOf pairs: some Sequence<(name: String, value: Value)>) {
        self.init(pairs.map { (ExactText($0.name), $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    package subscript(name: String) -> Value? {
        get { self[ExactText(name)] }
        set { self[ExactText(name)] = newValue }
    }
}

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
        var linkTableIndices: [[Int: Int]] = Array(repeating: [:], count: model.entities.count)
        for source in model.tableEntities {
            for (index, relationship) in model.entities[source].relationships.enumerated() {
                guard Self.ownsLinkTable(relationship, of: source, in: model.entities) else { continue }
                linkTableIndices[source][index] = linkTables.count
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

    /// The owner of a many-to-many pair's table is the entity whose name is first; within one entity, the relationship
    /// whose name is first.
    static func ownsLinkTable(_ relationship: Relationship, of entity: Int, in entities: [Entity]) -> Bool {
        guard relationship.isToMany else { return false }
        guard let index = relationship.inverse else { return true }
        let inverse = entities[relationship.destination].relationships[index]
        guard inverse.isToMany else { return false }
        let owner = entities[relationship.owner ?? entity]
        let destination = entities[inverse.owner ?? relationship.destination]
        return (owner.name, relationship.name) <= (destination.name, inverse.name)
    }

    private static func layout(
        ofEntity index: Int, in model: Model, _ linkTables: [[Int: Int]]
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
            if let table = linkTables[index][position] { return .linkTable(table, isReversed: false) }
            let destination = model.topmost(of: relationship.destination)
            return .linkTable(linkTables[destination][relationship.inverse!]!, isReversed: true)
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
