/// The reference: objects and links in memory, to which operations are applied by the letter of the contract.
struct OperationGraph {
    typealias Node = Int

    struct Object {
        let entity: GraphModel.Entity
        var values: [String: String] = [:]
        /// The `_pk` that the store gave it, once that is known.
        var rowKey: String?
    }

    struct Link: Hashable {
        /// Of a pair of relationships, the one that is first by name.
        let relationship: String
        let from: Node
        let to: Node
    }

    /// What the parts of a sync have said that is not complete.
    struct Part {
        let definition: String
        var named: Set<[String]> = []
    }

    var objects: [Node: Object] = [:]
    var links: Set<Link> = []
    var parts: [String: Part] = [:]
    private var nextNode = 0

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

    /// Both sides of a link are true; who had to give way to it has lost his.
    mutating func insert(_ relationship: GraphModel.Relationship, from node: Node, to other: Node) {
        if !relationship.isToMany { links.subtract(linkSet(relationship, of: node)) }
        if let name = relationship.inverse {
            let inverse = objects[other]!.entity.relationship(name)
            if !inverse.isToMany { links.subtract(linkSet(inverse, of: other)) }
        }
        links.insert(link(relationship, node, other))
    }

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
            cells += destinations(relationship, of: node).first.map(key) ?? Array(repeating: "NULL", count: count)
        }
        return cells.joined(separator: "|")
    }
}
