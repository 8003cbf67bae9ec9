/// The reference: objects, their values and links in memory, to which jobs are applied to the letter of the contract.
///
/// It shares nothing with the store but the model's text. Values are texts as `SQLRows` reads them from a table; nil and
/// NULL are a missing member.
struct ObjectGraph {
    /// The identity of an object among those of its hierarchy, as stored values.
    struct Key: Hashable {
        /// The one among whose objects the identity is unique.
        let entity: String
        let identity: [String]
    }

    typealias Node = Int

    struct Object {
        var entity: String
        var values: [String: String]
        /// The `_pk` that the store gave it, once that is known.
        var rowKey: String?
    }

    struct Link: Hashable {
        let from: Node
        let to: Node
    }

    let model: RandomModel
    private(set) var objects: [Node: Object] = [:]
    private(set) var nodes: [Key: Node] = [:]
    /// By relationship, whose names are unique, its links; those of an inverse are the same ones, seen from the other side.
    private var links: [String: Set<Link>] = [:]

    init(_ model: RandomModel) { self.model = model }

    // MARK: - Objects

    /// A new object with that identity, if it has one, and its entity's defaults.
    mutating func insert(_ entity: RandomModel.Entity, identity: [String]?) -> Node {
        var values: [String: String] = [:]
        for attribute in entity.attributes {
            values[attribute.name] = attribute.defaultValue.flatMap { attribute.type.stored($0) }
        }
        for (name, value) in zip(entity.identity, identity ?? []) { values[name] = value }
        let node = objects.count
        objects[node] = Object(entity: entity.name, values: values)
        if let identity { nodes[key(entity.name, identity)] = node }
        return node
    }

    func key(_ entity: String, _ identity: [String]) -> Key {
        Key(entity: model.identityOwner(entity), identity: identity)
    }

    /// The object becomes one of a more special entity, and takes the defaults of what is new to it.
    mutating func turn(_ node: Node, into entity: String) {
        let known = Set(model.entity(objects[node]!.entity).attributes.map(\.name))
        for attribute in model.entity(entity).attributes where !known.contains(attribute.name) {
            objects[node]!.values[attribute.name] = attribute.defaultValue.flatMap { attribute.type.stored($0) }
        }
        objects[node]!.entity = entity
    }

    mutating func set(_ attribute: String, of node: Node, to value: String?) {
        objects[node]!.values[attribute] = value
    }

    mutating func set(rowKey: String, of node: Node) { objects[node]!.rowKey = rowKey }

    // MARK: - Links

    /// The objects that a relationship of that object leads to.
    func destinations(_ relationship: RandomModel.Relationship, of node: Node) -> Set<Node> {
        Set((links[relationship.name] ?? []).filter { $0.from == node }.map(\.to))
    }

    /// Both sides of a link are true; who had to give way to it has lost his.
    mutating func link(_ relationship: RandomModel.Relationship, from: Node, to: Node) {
        if !relationship.isToMany { unlink(relationship, from: from) }
        if let inverse = inverse(of: relationship), !inverse.isToMany { unlink(inverse, from: to) }
        change(relationship, from, to) { $0.insert($1) }
    }

    mutating func unlink(_ relationship: RandomModel.Relationship, from: Node, to: Node) {
        change(relationship, from, to) { $0.remove($1) }
    }

    mutating func unlink(_ relationship: RandomModel.Relationship, from: Node) {
        for to in destinations(relationship, of: from) { unlink(relationship, from: from, to: to) }
    }

    func inverse(of relationship: RandomModel.Relationship) -> RandomModel.Relationship? {
        relationship.inverse.map { model.entity(relationship.destination).relationship($0) }
    }

    private mutating func change<Ignored>(
        _ relationship: RandomModel.Relationship, _ from: Node, _ to: Node,
        _ change: (inout Set<Link>, Link) -> Ignored
    ) {
        _ = change(&links[relationship.name, default: []], Link(from: from, to: to))
        guard let inverse = relationship.inverse else { return }
        _ = change(&links[inverse, default: []], Link(from: to, to: from))
    }

    // MARK: - As tables

    /// The value of a column that links to the object, by section 7 of the contract.
    func keyColumns(_ node: Node) -> [String] {
        let entity = model.entity(objects[node]!.entity)
        if entity.hasRowKey { return [objects[node]!.rowKey ?? "unknown"] }
        return entity.identity.map { objects[node]!.values[$0] ?? "NULL" }
    }

    func keyColumnNames(_ entity: RandomModel.Entity) -> [String] { entity.hasRowKey ? ["_pk"] : entity.identity }

    /// The columns of an entity's table: its row key, its attributes, its to-one relationships.
    func columns(_ entity: RandomModel.Entity) -> [String] {
        (entity.hasRowKey ? ["_pk"] : []) + entity.attributes.map(\.name)
            + entity.relationships.filter { !$0.isToMany }.flatMap { relationship in
                let keys = keyColumnNames(model.entity(relationship.destination))
                return keys.count == 1 ? [relationship.name] : keys.map { "\(relationship.name)_\($0)" }
            }
    }

    func row(_ node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        var cells = [object.entity]
        cells += entity.hasRowKey ? [object.rowKey ?? "unknown"] : []
        cells += entity.attributes.map { object.values[$0.name] ?? "NULL" }
        for relationship in entity.relationships where !relationship.isToMany {
            let count = keyColumnNames(model.entity(relationship.destination)).count
            cells +=
                destinations(relationship, of: node).first.map(keyColumns) ?? Array(repeating: "NULL", count: count)
        }
        return cells.joined(separator: "|")
    }

    func rows(_ entity: RandomModel.Entity) -> [String] {
        objects.filter { $0.value.entity == entity.name }.keys.map { String(row($0).dropFirst(entity.name.count + 1)) }
            .sorted()
    }

    struct LinkTable {
        /// As it is declared.
        let entity: RandomModel.Entity
        let relationship: RandomModel.Relationship
        var name: String { "\(entity.name)_\(relationship.name)" }
    }

    /// To-many relationships without a to-one inverse; of a pair, the one whose entity, or itself, is first by name.
    var linkTables: [LinkTable] {
        model.entities.flatMap { entity in
            entity.relationships.filter { $0.isToMany && hasLinkTable($0) }.filter { relationship in
                guard let inverse = relationship.inverse else { return true }
                return (entity.name, relationship.name) <= (relationship.destination, inverse)
            }.map { LinkTable(entity: entity, relationship: $0) }
        }
    }

    /// The relationship's links lie in a table of their own.
    func hasLinkTable(_ relationship: RandomModel.Relationship) -> Bool {
        relationship.isToMany && inverse(of: relationship)?.isToMany ?? true
    }

    func columns(_ table: LinkTable) -> [String] {
        zip(
            ["source", "destination"], [model.entity(table.entity.name), model.entity(table.relationship.destination)]
        ).flatMap {
            side, entity in
            let keys = keyColumnNames(entity)
            return keys.count == 1 ? [side] : keys.map { "\(side)_\($0)" }
        }
    }

    func rows(_ table: LinkTable) -> [String] {
        (links[table.relationship.name] ?? []).map { link in
            (keyColumns(link.from) + keyColumns(link.to)).joined(separator: "|")
        }.sorted()
    }
}
