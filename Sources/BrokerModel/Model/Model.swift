internal import BrokerJSON

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
    /// The digest by which `broker submit` sees whether a person has edited the model that it inferred; nil otherwise.
    package let inferred: String?
    package let holders: HolderRelationships
    /// By entity index.
    private let families: [Family]
    /// Topmost entities whose hierarchies' objects may be linked to any number of others, or have delete rules.
    private let reaching: Set<Int>
    /// By the bytes of the name: client's names are compared as bytes, never by Unicode's normal forms.
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
        inferred: String? = nil
    ) {
        self.entities = entities
        self.mappings = mappings
        self.routes = routes
        self.description = description
        self.inferred = inferred
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
        indexByName = Dictionary(uniqueKeysWithValues: entities.enumerated().map { (ExactText($1.name), $0) })
        mappingByName = Dictionary(uniqueKeysWithValues: mappings.enumerated().map { (ExactText($1.name), $0) })
    }

    /// The index of the entity of that name (exact case); nil when the model has none.
    package func index(ofEntity name: String) -> Int? { indexByName[ExactText(name)] }

    /// The index of the mapping of that name (exact case); nil when the model has none.
    package func index(ofMapping name: String) -> Int? { mappingByName[ExactText(name)] }

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

    /// The entities that it inherits from, the nearest one first.
    package func ancestors(of entity: Int) -> [Int] { families[entity].ancestors }

    /// The entity itself and all that inherit from it, in the model's order: the possible concrete entities of its
    /// objects.
    package func subentities(of entity: Int) -> [Int] { families[entity].subentities }

    /// Whether the entity shares a table with other entities.
    package func isInHierarchy(_ entity: Int) -> Bool { families[families[entity].topmost].subentities.count > 1 }

    /// The entity whose table has a relationship's destinations.
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

/// Mappings and routes, in the form that ``MappingReader`` and ``RouteReader`` read.
extension Model {
    func writeMappings(to writer: inout JSONWriter) {
        if !mappings.isEmpty {
            writer.key("mappings")
            writer.object { writer in
                for mapping in mappings {
                    writer.key(mapping.name)
                    switch mapping.form {
                    case .record(let record): write(record, to: &writer)
                    case .select(let select): write(select, to: &writer)
                    }
                }
            }
        }
        if !routes.isEmpty {
            writer.key("routes")
            writer.array { writer in
                for route in routes { write(route, to: &writer) }
            }
        }
    }

    private func write(_ mapping: RecordMapping, to writer: inout JSONWriter) {
        let entity = entities[mapping.entity]
        let nesting = mapping.nesting.map { entity.attributes[$0.attribute].name }
        writer.object { writer in
            writer.member("entity", entity.name)
            if let nesting { writer.member("nestingKey", nesting) }
            if mapping.nesting?.isCollection ?? false { writer.member("collection", true) }
            if !mapping.attributes.isEmpty {
                writer.key("attributes")
                writer.object { writer in
                    for (index, paths) in mapping.attributes.sorted(by: { $0.key < $1.key }) {
                        for path in paths { writer.member(path.text(nesting), entity.attributes[index].name) }
                    }
                }
            }
            guard !mapping.relationships.isEmpty else { return }
            writer.key("relationships")
            writer.object { writer in
                for (index, mapped) in mapping.relationships.sorted(by: { $0.key < $1.key }) {
                    for path in mapped.paths {
                        write(mapped, path.text(nesting), entity.relationships[index].name, to: &writer)
                    }
                }
            }
        }
    }

    private func write(_ mapped: MappedRelationship, _ path: String, _ name: String, to writer: inout JSONWriter) {
        guard let mapping = mapped.mapping else { return writer.member(path, name) }
        writer.key(path)
        writer.object { writer in
            writer.member("relationship", name)
            writer.member("mapping", mappings[mapping].name)
        }
    }

    private func write(_ select: SelectMapping, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("select")
            writer.object { writer in
                writer.member("key", select.key.joined(separator: "."))
                writer.key("cases")
                writer.object { writer in
                    for choice in select.cases { writer.member(choice.value, mappings[choice.mapping].name) }
                }
                switch select.otherwise {
                case .mapping(let mapping): writer.member("otherwise", mappings[mapping].name)
                case .decline:
                    writer.key("otherwise")
                    writer.null()
                case .refuse: break
                }
            }
        }
    }

    private func write(_ route: Route, to writer: inout JSONWriter) {
        writer.object { writer in
            if let pattern = route.pattern { writer.member("path", pattern.text) }
            if let keyPath = route.keyPath { writer.member("keyPath", keyPath.joined(separator: ".")) }
            if let mapping = route.mapping {
                writer.member("mapping", mappings[mapping].name)
            } else {
                writer.member("error", true)
            }
        }
    }
}

extension MappedPath {
    fileprivate func text(_ nesting: String?) -> String {
        ((isBelowKey ? nesting.map { ["(\($0))"] } ?? [] : []) + keys).joined(separator: ".")
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

/// A relationship whose values may contain records of an entity.
package struct HolderRelationship: Sendable {
    /// The entity that declares it.
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

package enum DeleteRule: String, Sendable, CaseIterable {
    case nullify, cascade, deny, noAction
}

/// The effect of a to-many value on the existing links.
package enum Assignment: String, Sendable, CaseIterable {
    case union, replace
}

/// The treatment of a bare key whose object does not exist.
package enum MissingDestination: String, Sendable, CaseIterable {
    /// The object is inserted with that identity.
    case stub
    /// The link is ignored.
    case ignore
    /// The record is invalid (`objectNotFound`).
    case fail
}

/// A link from an entity's objects to those of another, or of the same one.
package struct Relationship: Sendable {
    package var name: String
    /// The prefix of its columns' names: its own name, unless relatives in the same table have another property of that
    /// name.
    package var column: String
    /// In a hierarchy, the entity that declares it: its link table has that entity's name.
    package var owner: Int?
    /// Index of the destination entity in the model.
    package var destination: Int
    package var isToMany: Bool
    /// Index of the inverse among the destination's relationships.
    package var inverse: Int?
    /// The key paths of the value in a record, most preferred first.
    package var keyPaths: [[String]]
    /// The effect of deleting this side's object on the objects of the other side.
    package var deleteRule: DeleteRule
    package var assignment: Assignment
    package var missing: MissingDestination
    /// Values that mean no object, besides null: texts, whole numbers, booleans and the empty array.
    package var none: [JSONFragment] = []
    /// The objects of the other side live in this side's object: they have no other one, and end with it.
    package var isOwned = false
    /// A to-many relationship stores the order in which records name its objects.
    package var isOrdered: Bool
    /// The former name: a store that has the relationship under that name retains its links.
    package var renamedFrom: String?
    /// Index of the mapping that reads the nested records; nil reads them as records of the destination.
    package var mapping: Int?
    /// For people.
    package var description: String?
    package var place: ModelPlace

    package init(
        name: String, destination: Int, isToMany: Bool = false, inverse: Int? = nil, keyPaths: [[String]]? = nil,
        deleteRule: DeleteRule = .nullify, assignment: Assignment = .union, missing: MissingDestination = .stub,
        isOrdered: Bool = false, renamedFrom: String? = nil, place: ModelPlace = .unknown
    ) {
        self.name = name
        column = name
        self.destination = destination
        self.isToMany = isToMany
        self.inverse = inverse
        self.keyPaths = keyPaths ?? [[name]]
        self.deleteRule = deleteRule
        self.assignment = assignment
        self.missing = missing
        self.isOrdered = isOrdered
        self.renamedFrom = renamedFrom
        self.place = place
    }
}
