/// The reference: objects, their values and links in memory.
///
/// It shares nothing with the store but the model's text. Values are texts as `SQLRows` reads them from a table; nil and
/// NULL are a missing member.
struct ObjectGraph {
    /// The identity of an object among those of its hierarchy, as stored values.
    struct Key: Hashable {
        /// The entity among whose objects the identity is unique.
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
        let relationship: String
        let from: Node
        let to: Node
    }

    let model: RandomModel
    private(set) var objects: [Node: Object] = [:]
    private(set) var nodes: [Key: Node] = [:]
    /// Each link with its position, 0 where the relationship is not ordered. A link of two inverse relationships is there twice, once
    /// for each direction.
    private(set) var links: [Link: Int] = [:]
    /// The nodes of identities, also of those whose objects were deleted.
    private var former: [Key: Node] = [:]
    /// The keys that deleted objects had last.
    private(set) var lastKeys: [Node: String] = [:]
    private var newest: Node = 0

    init(_ model: RandomModel) { self.model = model }

    // MARK: - Objects

    func entity(of node: Node) -> RandomModel.Entity { model.entity(objects[node]!.entity) }

    func key(_ entity: String, _ identity: [String]) -> Key {
        Key(entity: model.identityOwner(entity), identity: identity)
    }

    /// A new object with its entity's defaults. "There is one object per identity": it takes the place of a deleted one.
    mutating func insert(_ entity: RandomModel.Entity, identity: [String]?) -> Node {
        newest += 1
        let known = entity.hasRowKey ? nil : identity.flatMap { former[key(entity.name, $0)] }
        let node = known.flatMap { objects[$0] == nil ? $0 : nil } ?? newest
        objects[node] = Object(entity: entity.name, values: entity.defaults)
        setIdentity(of: node, entity.name, to: identity)
        return node
    }

    /// The objects that it owns follow it.
    mutating func setIdentity(of node: Node, _ entityName: String, to identity: [String]?) {
        let entity = model.entity(entityName)
        let old = entity.identity.compactMap { objects[node]!.values[$0] }
        if old.count == entity.identity.count, !old.isEmpty { nodes[key(entityName, old)] = nil }
        guard let identity else { return }
        for (name, value) in zip(entity.identity, identity) { objects[node]!.values[name] = value }
        nodes[key(entityName, identity)] = node
        former[key(entityName, identity)] = node
        for relationship in self.entity(of: node).relationships where relationship.isOwned {
            for part in destinations(relationship, of: node) {
                let entity = self.entity(of: part)
                let own = entity.identity.dropFirst(identity.count).map { objects[part]!.values[$0]! }
                setIdentity(of: part, entity.name, to: identity + own)
            }
        }
    }

    /// The object becomes one of an entity below its own, and takes the defaults of what is new to it.
    mutating func turn(_ node: Node, into entity: RandomModel.Entity) {
        let known = Set(self.entity(of: node).attributes.map(\.name))
        for (name, value) in entity.defaults where !known.contains(name) { objects[node]!.values[name] = value }
        objects[node]!.entity = entity.name
    }

    mutating func set(_ attribute: String, of node: Node, to value: String?) {
        objects[node]!.values[attribute] = value
    }

    mutating func set(rowKey: String, of node: Node) { objects[node]!.rowKey = rowKey }

    func lacksRequired(_ node: Node) -> Bool {
        entity(of: node).attributes.contains { $0.isRequired && objects[node]!.values[$0.name] == nil }
    }

    // MARK: - Unique values

    /// A value that only one object may have.
    struct UniqueValue: Hashable {
        let topmost: String
        let columns: [String]
        let values: [String]
    }

    func uniqueValues(of node: Node) -> Set<UniqueValue> {
        guard let object = objects[node] else { return [] }
        let topmost = model.topmost(object.entity)
        let attributes = model.entity(object.entity).attributes.map(\.name)
        return model.uniqueColumns(below: topmost).reduce(into: []) { all, columns in
            let values = columns.compactMap { column in
                attributes.first { model.column($0, of: object.entity) == column }.flatMap { object.values[$0] }
            }
            guard values.count == columns.count else { return }
            all.insert(UniqueValue(topmost: topmost, columns: columns, values: values))
        }
    }

    func isTaken(_ value: UniqueValue, from node: Node) -> Bool {
        objects.keys.contains { $0 != node && uniqueValues(of: $0).contains(value) }
    }

    // MARK: - Links

    /// The objects that a relationship of that object leads to, in their order.
    func destinations(_ relationship: RandomModel.Relationship, of node: Node) -> [Node] {
        links.filter { $0.key.relationship == relationship.name && $0.key.from == node }
            .sorted { ($0.value, $0.key.to) < ($1.value, $1.key.to) }.map(\.key.to)
    }

    func inverse(of relationship: RandomModel.Relationship) -> RandomModel.Relationship? {
        relationship.inverse.map { model.entity(relationship.destination).relationship($0) }
    }

    func position(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node) -> Int? {
        links[Link(relationship: relationship.name, from: from, to: to)]
    }

    /// Both sides of a link are true, and its ends lose other partners where there may be only one.
    mutating func link(_ relationship: RandomModel.Relationship, from: Node, to: Node, at position: Int? = nil) {
        let inverse = inverse(of: relationship)
        if !relationship.isToMany {
            for other in destinations(relationship, of: from) where other != to { unlink(relationship, from, other) }
        }
        if let inverse, !inverse.isToMany {
            for other in destinations(inverse, of: to) where other != from { unlink(inverse, to, other) }
        }
        add(relationship, from, to, position)
        if let inverse, inverse.name != relationship.name || from != to { add(inverse, to, from, nil) }
    }

    private mutating func add(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node, _ position: Int?) {
        let link = Link(relationship: relationship.name, from: from, to: to)
        guard relationship.isOrdered else { return links[link] = 0 }
        let last = links.filter { $0.key.relationship == relationship.name && $0.key.from == from }.map(\.value).max()
        links[link] = position ?? links[link] ?? (last ?? -1) + 1
    }

    mutating func unlink(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node) {
        links[Link(relationship: relationship.name, from: from, to: to)] = nil
        if let inverse = relationship.inverse { links[Link(relationship: inverse, from: to, to: from)] = nil }
    }

    // MARK: - Deletion

    /// Deletes objects by the delete rules; false when `deny` prevents that.
    mutating func delete(_ named: Set<Node>) -> Bool {
        var going = named
        var last = named
        while !last.isEmpty {
            last = Set(last.flatMap { destinations(of: $0) { $0.rule == .cascade || $0.isOwned } }).subtracting(going)
            going.formUnion(last)
        }
        let isDenied = going.contains { node in
            destinations(of: node) { $0.rule == .deny }.contains { !going.contains($0) }
        }
        if isDenied { return false }
        nodes = nodes.filter { !going.contains($0.value) }
        links = links.filter { !going.contains($0.key.from) && !going.contains($0.key.to) }
        for node in going { lastKeys[node] = json(keyOf: node) }
        for node in going { objects[node] = nil }
        return true
    }

    private func destinations(of node: Node, _ isIncluded: (RandomModel.Relationship) -> Bool) -> [Node] {
        entity(of: node).relationships.filter(isIncluded).flatMap { destinations($0, of: node) }
    }
}

/// As tables.
extension ObjectGraph {
    /// The value of a column that links to the object, by `database.md`.
    func keyColumns(_ node: Node) -> [String] {
        let entity = entity(of: node)
        if entity.hasRowKey { return [objects[node]!.rowKey ?? "new \(node)"] }
        return entity.identity.map { objects[node]!.values[$0] ?? "NULL" }
    }

    private func keyColumnNames(_ entity: RandomModel.Entity) -> [String] {
        entity.hasRowKey ? ["_pk"] : entity.identity
    }

    /// The columns of an entity's table as SQL: its row key, its attributes, its to-one relationships with their positions.
    func columns(_ entity: RandomModel.Entity) -> [String] {
        let own = (entity.hasRowKey ? ["_pk"] : []) + entity.attributes.map(\.name)
        return own
            + entity.relationships.filter { !$0.isToMany }.flatMap { relationship in
                let keys = keyColumnNames(model.entity(relationship.destination))
                let columns = keys.count == 1 ? [relationship.name] : keys.map { "\(relationship.name)_\($0)" }
                guard inverse(of: relationship)?.isOrdered ?? false else { return columns }
                // A position without a link says nothing.
                return columns + ["iif(\(columns[0]) IS NULL, NULL, \(relationship.name)_position)"]
            }
    }

    func row(_ node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        var cells = entity.hasRowKey ? [object.rowKey ?? "new \(node)"] : []
        cells += entity.attributes.map { object.values[$0.name] ?? "NULL" }
        for relationship in entity.relationships where !relationship.isToMany {
            let other = destinations(relationship, of: node).first
            let count = keyColumnNames(model.entity(relationship.destination)).count
            cells += other.map(keyColumns) ?? Array(repeating: "NULL", count: count)
            guard let inverse = inverse(of: relationship), inverse.isOrdered else { continue }
            cells.append(other.map { "\(position(inverse, $0, node)!)" } ?? "NULL")
        }
        return cells.joined(separator: "|")
    }

    func rows(_ entity: RandomModel.Entity) -> [String] {
        objects.filter { $0.value.entity == entity.name }.keys.map(row).sorted()
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
            entity.relationships.filter(hasLinkTable).filter { relationship in
                guard let inverse = relationship.inverse else { return true }
                return (entity.name, relationship.name) <= (relationship.destination, inverse)
            }.map { LinkTable(entity: entity, relationship: $0) }
        }
    }

    /// The relationship's links are in a table of their own.
    func hasLinkTable(_ relationship: RandomModel.Relationship) -> Bool {
        relationship.isToMany && inverse(of: relationship)?.isToMany ?? true
    }

    func columns(_ table: LinkTable) -> [String] {
        let ends = [("source", table.entity.name), ("destination", table.relationship.destination)]
        return ends.flatMap { side, entity in
            let keys = keyColumnNames(model.entity(entity))
            return keys.count == 1 ? [side] : keys.map { "\(side)_\($0)" }
        } + (table.relationship.isOrdered ? ["position"] : [])
            + (inverse(of: table.relationship)?.isOrdered ?? false ? ["inverse_position"] : [])
    }

    func rows(_ table: LinkTable) -> [String] {
        links.filter { $0.key.relationship == table.relationship.name }.map { link, position in
            var cells = keyColumns(link.from) + keyColumns(link.to)
            if table.relationship.isOrdered { cells.append("\(position)") }
            if let inverse = inverse(of: table.relationship), inverse.isOrdered {
                cells.append("\(self.position(inverse, link.to, link.from)!)")
            }
            return cells.joined(separator: "|")
        }.sorted()
    }

    /// An object's key as it is in answers.
    func json(keyOf node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        guard !entity.isNamedByRowKey else { return object.rowKey ?? "new \(node)" }
        let parts = entity.identity.map { Self.json(object.values[$0]!, entity.attribute($0).type) }
        guard parts.count > 1 else { return parts[0] }
        return "{\(zip(entity.identity, parts).map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
    }

    private static func json(_ stored: String, _ type: SampleType) -> String {
        switch type {
        case .integer16, .integer64, .double, .transformable: stored
        case .boolean: stored == "1" ? "true" : "false"
        case .binary: type.samples.first { $0.stored == stored }!.json
        case .string, .decimal, .date, .calendarDate, .uuid: "\"\(stored)\""
        }
    }
}
