/// The reference: objects and links in memory, to which operations are applied by the letter of the contract.
public struct OperationGraph {
    typealias Node = Int

    struct Object {
        let entity: GraphModel.Entity
        var values: [String: String] = [:]
        /// The `_pk` that the store gave it, once that is known.
        var rowKey: String?
    }

    struct Link: Hashable {
        /// The first by name of a pair of relationships.
        let relationship: String
        let from: Node
        let to: Node
    }

    /// The assertions of an incomplete sync's parts.
    struct Part {
        let definition: String
        var named: Set<[String]> = []
        /// An object of an entity without identity.
        var nameless: Set<Node> = []
        /// A record was rejected.
        var isIncomplete = false
    }

    var objects: [Node: Object] = [:]
    var links: Set<Link> = []
    var parts: [String: Part] = [:]
    /// In the order of whichever side has one.
    private(set) var places: [Link: Int] = [:]
    /// Links that the job has given a place.
    var moved: Set<Link> = []
    private var nextNode = 0

    public init() {}

    mutating func newNode() -> Node {
        nextNode += 1
        return nextNode
    }

    func find(_ entity: GraphModel.Entity, _ key: [String]) -> Node? {
        objects.first { $0.value.entity.name == entity.name && self.key($0.key) == key }?.key
    }

    func nodes(_ entity: GraphModel.Entity) -> [Node] {
        objects.filter { $0.value.entity.name == entity.name }.keys.sorted()
    }

    func key(_ node: Node) -> [String] {
        let object = objects[node]!
        guard !object.entity.identity.isEmpty else { return [object.rowKey ?? "new \(node)"] }
        return object.entity.identity.map { object.values[$0]! }
    }

    // MARK: - Links

    private static func canonical(
        _ entity: GraphModel.Entity, _ relationship: GraphModel.Relationship
    ) -> (name: String, isReversed: Bool) {
        let own = "\(entity.name).\(relationship.name)"
        guard let inverse = relationship.inverse else { return (own, false) }
        let other = "\(relationship.destination).\(inverse)"
        return other < own ? (other, true) : (own, false)
    }

    func linkSet(_ relationship: GraphModel.Relationship, of node: Node) -> Set<Link> {
        let (name, isReversed) = Self.canonical(objects[node]!.entity, relationship)
        return links.filter { $0.relationship == name && (isReversed ? $0.to : $0.from) == node }
    }

    func destinations(_ relationship: GraphModel.Relationship, of node: Node) -> Set<Node> {
        let (_, isReversed) = Self.canonical(objects[node]!.entity, relationship)
        return Set(linkSet(relationship, of: node).map { isReversed ? $0.from : $0.to })
    }

    func link(_ relationship: GraphModel.Relationship, _ node: Node, _ other: Node) -> Link {
        let (name, isReversed) = Self.canonical(objects[node]!.entity, relationship)
        return Link(relationship: name, from: isReversed ? other : node, to: isReversed ? node : other)
    }

    /// Sets a link at both sides, and ends the links that it replaces.
    mutating func insert(_ relationship: GraphModel.Relationship, from node: Node, to other: Node) {
        let link = link(relationship, node, other)
        let inverse = relationship.inverseRelationship
        if !relationship.isToMany { links.subtract(linkSet(relationship, of: node).subtracting([link])) }
        if let inverse, !inverse.isToMany { links.subtract(linkSet(inverse, of: other).subtracting([link])) }
        guard !links.contains(link) else { return }
        let owner = relationship.isOrdered ? (relationship, node) : inverse.map { ($0, other) }
        if let owner, owner.0.isOrdered {
            places[link] = (linkSet(owner.0, of: owner.1).compactMap { places[$0] }.max() ?? -1) + 1
            moved.insert(link)
        }
        links.insert(link)
    }

    /// A replaced set is in the order of the payload; rejected elements retain their positions.
    mutating func number(_ relationship: GraphModel.Relationship, of node: Node, _ set: [Node]) {
        guard relationship.isOrdered else { return }
        let all = linkSet(relationship, of: node)
        let said = set.map { link(relationship, node, $0) }.filter(all.contains)
        let taken = Set(all.subtracting(said).map { places[$0]! })
        var place = 0
        for link in said {
            while taken.contains(place) { place += 1 }
            places[link] = place
            moved.insert(link)
            place += 1
        }
    }

    // MARK: - As orders

    /// An ordered relationship as the store has it.
    struct Order {
        let table: String
        /// The owner's key, the element's, and the place.
        let columns: [String]
        let ownerColumns: Int
        /// Owner and element, in order.
        let rows: [String]
        let links: [String: Link]
    }

    var orders: [Order] {
        GraphModel.entities.flatMap { entity in
            entity.relationships.filter(\.isOrdered).map { order(entity, $0) }
        }
    }

    private func order(_ entity: GraphModel.Entity, _ relationship: GraphModel.Relationship) -> Order {
        let destination = GraphModel.entity(relationship.destination)
        let (name, isReversed) = Self.canonical(entity, relationship)
        var links: [String: Link] = [:]
        var rows: [(owner: String, place: Int, text: String)] = []
        for link in self.links where link.relationship == name {
            let (owner, element) = isReversed ? (link.to, link.from) : (link.from, link.to)
            let text = (key(owner) + key(element)).joined(separator: "|")
            links[text] = link
            rows.append((key(owner).joined(separator: "|"), places[link]!, text))
        }
        let texts = rows.sorted { ($0.owner, $0.place) < ($1.owner, $1.place) }.map(\.text)
        if !relationship.hasLinkTable {
            let columns = Self.columns(relationship.inverse!, to: entity) + destination.keyColumns
            return Order(
                table: destination.name, columns: columns + ["\(relationship.inverse!)_position"],
                ownerColumns: entity.keyColumns.count, rows: texts, links: links)
        }
        let sides = isReversed ? ["destination", "source"] : ["source", "destination"]
        let table = isReversed ? "\(destination.name)_\(relationship.inverse!)" : "\(entity.name)_\(relationship.name)"
        return Order(
            table: table,
            columns: Self.columns(sides[0], to: entity) + Self.columns(sides[1], to: destination)
                + [isReversed ? "inverse_position" : "position"],
            ownerColumns: entity.keyColumns.count, rows: texts, links: links)
    }

    /// Takes over the places that the store gave: between them are gaps, which the contract does not number.
    mutating func learn(_ place: Int, of link: Link) { places[link] = place }

    // MARK: - As tables

    struct Table {
        let name: String
        let columns: [String]
        let rows: [String]
    }

    var tables: [Table] {
        GraphModel.entities.flatMap { entity in
            [Table(name: entity.name, columns: Self.columns(entity), rows: nodes(entity).map(row).sorted())]
                + entity.relationships.filter { $0.hasLinkTable && !Self.canonical(entity, $0).isReversed }
                .map { linkTable(entity, $0) }
        }
    }

    private func linkTable(_ entity: GraphModel.Entity, _ relationship: GraphModel.Relationship) -> Table {
        let name = Self.canonical(entity, relationship).name
        let sides = [("source", entity), ("destination", GraphModel.entity(relationship.destination))]
        return Table(
            name: "\(entity.name)_\(relationship.name)", columns: sides.flatMap { Self.columns($0, to: $1) },
            rows: links.filter { $0.relationship == name }.map { (key($0.from) + key($0.to)).joined(separator: "|") }
                .sorted())
    }

    private static func columns(_ name: String, to entity: GraphModel.Entity) -> [String] {
        entity.keyColumns.count == 1 ? [name] : entity.keyColumns.map { "\(name)_\($0)" }
    }

    private static func columns(_ entity: GraphModel.Entity) -> [String] {
        (entity.identity.isEmpty ? ["_pk"] : []) + entity.attributes
            + entity.relationships.filter { !$0.isToMany }.flatMap {
                columns($0.name, to: GraphModel.entity($0.destination))
            }
    }

    func row(_ node: Node) -> String {
        let object = objects[node]!
        var cells = object.entity.identity.isEmpty ? key(node) : []
        cells += object.entity.attributes.map { object.values[$0] ?? "NULL" }
        for relationship in object.entity.relationships where !relationship.isToMany {
            let count = GraphModel.entity(relationship.destination).keyColumns.count
            let destination = destinations(relationship, of: node).first { objects[$0] != nil }
            cells += destination.map(key) ?? Array(repeating: "NULL", count: count)
        }
        return cells.joined(separator: "|")
    }
}
