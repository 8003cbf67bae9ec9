internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// How the rows of an entity become objects: the columns to read, and the positions of their values in the JSON.
///
/// With remote names that is the inverse of the mapping: an attribute's value is at its first key path, written as
/// nested objects, and the root is not wrapped.
struct ObjectShape {
    enum Node {
        case value(column: Int, ValueWriter)
        case rowKey(column: Int)
        case object([Member])
        /// The key of a linked object: null where `column` is NULL, omitted where one of `required` is: it has no key for records.
        indirect case link(column: Int, required: [Int], Node)
        /// A value that is omitted where it is NULL.
        indirect case unlessNull(Node)
        /// The objects of an included relationship, by its number among the included ones.
        case inclusion(Int)
        case text(String)
        /// The hash of the row.
        case version(RowVersion)
        /// For a hierarchy, by the name of the object's concrete entity.
        case kinds(column: Int, [KindMember])
    }

    struct KindMember {
        let name: [UInt8]
        let node: Node
    }

    struct Member {
        let key: String
        /// The key as JSON, with its colon.
        let text: [UInt8]
        var node: Node

        init(key: String, node: Node) {
            (self.key, self.node) = (key, node)
            var writer = JSONWriter(capacity: key.utf8.count + 3)
            writer.key(key)
            text = writer.bytes
        }
    }

    struct Style: Hashable {
        let names: FetchNames
        let dates: FetchDates
        let hasVersion: Bool
    }

    static let alias = "t"

    /// SQLite allows 2,000 columns of a result (sqlite.org/limits.html), and a statement adds one to those of the shape.
    static let mostColumns = 1_999

    /// SQL expressions, each once; the first is the row's number. At most ``mostColumns``.
    let columns: [String]
    /// The further expressions, in groups of as many as one result may have.
    let moreColumns: [[String]]
    let keyColumns: [Int]
    private let root: Node

    /// Whole objects.
    init(entity: Int, including inclusions: [Int], _ style: Style, _ plan: StagingPlan) {
        var builder = ShapeBuilder(plan: plan, style: style, entity: entity)
        let root: Node
        let kinds = plan.model.subentities(of: entity)
        if kinds.count == 1 {
            root = builder.object(ofEntity: entity, including: inclusions)
        } else {
            let column = builder.add(Self.column(entityColumnName))
            root = .kinds(
                column: column,
                kinds.map { kind in
                    KindMember(
                        name: Array(plan.model.entities[kind].name.utf8),
                        node: builder.object(ofEntity: kind, including: inclusions))
                })
        }
        self.init(builder, root)
    }

    init(_ builder: ShapeBuilder, _ root: Node) {
        self.root = root
        keyColumns = builder.keyColumns
        let all = builder.columns
        columns = Array(all.prefix(Self.mostColumns))
        moreColumns = stride(from: Self.mostColumns, to: all.count, by: Self.mostColumns).map {
            Array(all[$0..<min($0 + Self.mostColumns, all.count)])
        }
    }

    static func column(_ name: String) -> String { "\(alias).\(quoted(name))" }
}

struct ShapeBuilder {
    let plan: StagingPlan
    let naming: ColumnNaming
    let style: ObjectShape.Style
    private(set) var columns: [String] = []
    private(set) var keyColumns: [Int] = []
    private var places: [[UInt8]: Int] = [:]

    /// Begins with the columns that every shape of an entity has: the row's number and the key.
    init(plan: StagingPlan, style: ObjectShape.Style, entity: Int) {
        self.plan = plan
        self.style = style
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        _ = add("\(ObjectShape.alias).\(naming.rowNumber(entity))")
        keyColumns = naming.nameColumns(entity).map { add(ObjectShape.column($0)) }
    }

    mutating func add(_ column: String) -> Int {
        let bytes = Array(column.utf8)
        if let place = places[bytes] { return place }
        places[bytes] = columns.count
        columns.append(column)
        return columns.count - 1
    }

    mutating func object(ofEntity index: Int, including inclusions: [Int]) -> ObjectShape.Node {
        let entity = plan.model.entities[index]
        // Relationships first: where an attribute has the key path of one, the link contains the attribute's value,
        // too.
        var links = KeyPathTree()
        for position in entity.relationshipIndices {
            let relationship = entity.relationships[position]
            let inclusion = inclusions.firstIndex(of: position)
            guard inclusion != nil || !relationship.isToMany && isNameable(by: relationship) else { continue }
            let node = inclusion.map(ObjectShape.Node.inclusion) ?? link(relationship, at: linkColumns(relationship))
            let places = paths(relationship.name, relationship.keyPaths)
            // A relationship without a key path in records is still included when the request asks for it.
            links.insert(node, at: places.isEmpty && inclusion != nil ? [[relationship.name]] : places)
        }
        var tree = KeyPathTree()
        if style.hasVersion { tree.insert(.version(version(ofEntity: index)), at: [[RowVersion.name]]) }
        for position in entity.attributeIndices {
            let attribute = entity.attributes[position]
            let free = paths(attribute.name, attribute.recordPaths).drop { links.isTaken($0, onlyAsPart: true) }
            guard let path = free.first, !links.isTaken(path) else { continue }
            let node = value(attribute, position, of: index)
            // Most objects have no extra values.
            tree.insert(attribute.isExtra ? .unlessNull(node) : node, at: Array(free))
        }
        tree.merge(links)
        // Like any other member, if the entity has none of that name.
        if style.names == .local, entity.parent != nil { tree.insert(.text(entity.name), at: [["entity"]]) }
        return tree.node
    }

    private mutating func version(ofEntity index: Int) -> RowVersion {
        let entity = plan.model.entities[index]
        var values: [RowVersion.Value] = []
        for attribute in entity.attributeIndices.map({ entity.attributes[$0] }) {
            values.append(RowVersion.Value(name: attribute.name, column: add(ObjectShape.column(attribute.column))))
        }
        for relationship in entity.relationshipIndices.map({ entity.relationships[$0] }) where !relationship.isToMany {
            for column in linkColumns(relationship) {
                values.append(RowVersion.Value(name: relationship.name, column: add(column)))
            }
        }
        return RowVersion(entity: entity.name, values)
    }

    /// Whether a record may name the object at the other end by its key: it is not owned, and no part of a key of several
    /// attributes comes from the record around it alone.
    private func isNameable(by relationship: Relationship) -> Bool {
        guard style.names == .remote else { return true }
        let destination = plan.model.entities[relationship.destination]
        guard !relationship.isOwned, destination.identity.count > 1, !destination.hasRowKey else {
            return !relationship.isOwned
        }
        return destination.identity.allSatisfy { !destination.attributes[$0].recordPaths.isEmpty }
    }

    private func paths(_ name: String, _ keyPaths: [[String]]) -> [[String]] {
        style.names == .local ? [[name]] : keyPaths
    }

    private mutating func value(_ attribute: Attribute, _ position: Int, of entity: Int) -> ObjectShape.Node {
        value(attribute, position, of: entity, at: ObjectShape.column(attribute.column))
    }

    mutating func value(
        _ attribute: Attribute, _ position: Int, of entity: Int, at column: String
    ) -> ObjectShape.Node {
        var column = column
        if attribute.type == .transformable {
            // A value that another program stored need not be JSON, or a text at all.
            column =
                "CASE WHEN typeof(\(column)) <> 'text' OR json_valid(\(column)) THEN \(column) "
                + "ELSE json_quote(\(column)) END"
        }
        return .value(
            column: add(column), plan.valueWriter(entity: entity, attribute: position, style.dates))
    }

    // MARK: - Keys of linked objects

    private func linkColumns(_ relationship: Relationship) -> [String] {
        naming.linkColumns(relationship).map(ObjectShape.column)
    }

    mutating func link(_ relationship: Relationship, at linkColumns: [String]) -> ObjectShape.Node {
        let destination = plan.model.entities[relationship.destination]
        if destination.hasRowKey {
            let column = add(linkColumns[0])
            // A record names such an object by its identity, if it has one; a row key would be read as an identity.
            guard style.names == .remote, !destination.identity.isEmpty else {
                return .link(column: column, required: [], .rowKey(column: column))
            }
            let identity = destination.identity.map { position in
                add(
                    "(SELECT d.\(quoted(destination.attributes[position].column)) "
                        + "FROM \(quoted(plan.model.table(of: relationship.destination))) AS d "
                        + "WHERE d.\(rowKeyName) = \(linkColumns[0]))")
            }
            return .link(column: column, required: identity, key(relationship.destination, identity))
        }
        let columns = linkColumns.map { add($0) }
        return .link(column: columns[0], required: [], key(relationship.destination, columns))
    }

    /// The identity's value; for several attributes an object, which with remote names is a record that names it.
    private func key(_ entity: Int, _ columns: [Int]) -> ObjectShape.Node {
        let identity = plan.model.entities[entity].identity
        let values = zip(identity, columns).map { position, column in
            ObjectShape.Node.value(
                column: column, plan.valueWriter(entity: entity, attribute: position, style.dates))
        }
        guard values.count > 1 else { return values[0] }
        var tree = KeyPathTree()
        for (position, value) in zip(identity, values) {
            let attribute = plan.model.entities[entity].attributes[position]
            tree.insert(value, at: paths(attribute.name, attribute.recordPaths))
        }
        return tree.node
    }
}

/// Values at key paths, which become nested objects.
private struct KeyPathTree {
    private var members: [ObjectShape.Member] = []
    private var places: [[UInt8]: Int] = [:]
    private var subtrees: [Int: KeyPathTree] = [:]

    var node: ObjectShape.Node {
        var members = members
        for (place, subtree) in subtrees { members[place].node = subtree.node }
        return .object(members)
    }

    /// Inserts a value at the first of the paths that neither extends another value's path nor is the beginning of one.
    /// If a value has that very path, it serves both.
    mutating func insert(_ node: ObjectShape.Node, at paths: [[String]]) {
        for path in paths where !isTaken(path, onlyAsPart: true) {
            if !isTaken(path) { put(node, path[...]) }
            return
        }
    }

    /// - Parameter onlyAsPart: ignores a value at exactly that path.
    func isTaken(_ path: [String], onlyAsPart: Bool = false) -> Bool { isTaken(path[...], onlyAsPart: onlyAsPart) }

    private func isTaken(_ path: ArraySlice<String>, onlyAsPart: Bool) -> Bool {
        guard let key = path.first, let place = places[Array(key.utf8)] else { return false }
        let rest = path.dropFirst()
        guard let subtree = subtrees[place] else { return !rest.isEmpty || !onlyAsPart }
        return rest.isEmpty || subtree.isTaken(rest, onlyAsPart: onlyAsPart)
    }

    private mutating func put(_ node: ObjectShape.Node, _ path: ArraySlice<String>) {
        guard let key = path.first else { return }
        let rest = path.dropFirst()
        let place = places[Array(key.utf8)] ?? members.count
        if place == members.count {
            members.append(ObjectShape.Member(key: key, node: node))
            places[Array(key.utf8)] = place
        }
        if !rest.isEmpty { subtrees[place, default: KeyPathTree()].put(node, rest) }
    }

    /// Adds the other tree's values, none of which conflicts with one here.
    mutating func merge(_ other: KeyPathTree) {
        for (place, member) in other.members.enumerated() {
            let key = Array(member.key.utf8)
            if let known = places[key] {
                if let subtree = other.subtrees[place] { subtrees[known, default: KeyPathTree()].merge(subtree) }
                continue
            }
            places[key] = members.count
            if let subtree = other.subtrees[place] { subtrees[members.count] = subtree }
            members.append(member)
        }
    }
}

// MARK: - Writing

extension ObjectShape {
    /// Writes the object of the row, and calls `hole` at the position of every included relationship.
    func write(_ row: FetchedRow, to writer: inout JSONWriter, hole: (Int, Int) -> Void) {
        Self.write(root, row, &writer, hole)
    }

    /// The key of the row, as the text of a key in a dictionary: several values joined by commas.
    func keyText(_ row: Statement, _ writers: [ValueWriter]) -> [UInt8] {
        guard !writers.isEmpty else { return Array(String(row.integer(keyColumns[0])).utf8) }
        return Array(zip(keyColumns, writers).map { $1.keyText(row.cell($0)) }.joined(separator: [UInt8(ascii: ",")]))
    }

    private static func write(
        _ node: Node, _ row: FetchedRow, _ writer: inout JSONWriter, _ hole: (Int, Int) -> Void
    ) {
        switch node {
        case .value(let column, let value): value.write(row.cell(column), to: &writer)
        case .rowKey(let column): writer.integer(row.integer(column))
        case .object(let members):
            writer.object { writer in
                // Without an iterator, which would count the references of each member.
                for index in members.indices where !isLeftOut(members[index].node, row) {
                    writer.key(raw: members[index].text)
                    write(members[index].node, row, &writer, hole)
                }
            }
        case .link(let column, _, let key):
            if row.isNull(column) { writer.null() } else { write(key, row, &writer, hole) }
        case .unlessNull(let value): write(value, row, &writer, hole)
        case .text(let text): writer.string(text)
        case .version(let version): writer.string(version.text(row))
        case .kinds(let column, let kinds):
            let name = row.bytes(column)
            guard let kind = kinds.first(where: { $0.name.elementsEqual(name) }) else { return writer.null() }
            write(kind.node, row, &writer, hole)
        case .inclusion(let number):
            hole(number, writer.count)
            writer.raw([] as [UInt8])
        }
    }

    private static func isLeftOut(_ node: Node, _ row: FetchedRow) -> Bool {
        switch node {
        case .link(let column, let required, _): !row.isNull(column) && required.contains { row.isNull($0) }
        case .unlessNull(.value(let column, _)): row.isNull(column)
        default: false
        }
    }
}

extension ObjectShape {
    /// Objects that have the selected values alone, each by the name with which it was selected.
    init(selecting values: [FetchRequest.SelectedValue], of entity: Int, _ style: Style, _ plan: StagingPlan) {
        var builder = ShapeBuilder(plan: plan, style: style, entity: entity)
        let members = values.map { Member(key: $0.name, node: builder.node(of: $0, entity)) }
        self.init(builder, .object(members))
    }
}

extension ShapeBuilder {
    fileprivate mutating func node(of value: FetchRequest.SelectedValue, _ entity: Int) -> ObjectShape.Node {
        let end = plan.model.end(of: value.path, from: entity)
        func column(_ name: String) -> String {
            naming.value(of: name, atEnd: value.path[...], of: entity, ObjectShape.alias)
        }
        switch value.kind {
        case .attribute(let position):
            let attribute = plan.model.entities[end].attributes[position]
            return self.value(attribute, position, of: end, at: column(attribute.column))
        case .relationship(let position):
            let relationship = plan.model.entities[end].relationships[position]
            return link(relationship, at: naming.linkColumns(relationship).map(column))
        }
    }
}

extension ColumnNaming {
    /// The SQL of a column's value at the end of to-one relationships; NULL where a link is missing.
    func value(
        of column: String, atEnd path: ArraySlice<Int>, of entity: Int, _ alias: String, depth: Int = 0
    ) -> String {
        guard let first = path.first else { return "\(alias).\(quoted(column))" }
        let destination = model.entities[entity].relationships[first].destination
        let next = "s\(depth)"
        let value = value(of: column, atEnd: path.dropFirst(), of: destination, next, depth: depth + 1)
        let condition = isLinked(entity, first, from: alias, to: next, over: "l")
        return "(SELECT \(value) FROM \(quoted(model.table(of: destination))) AS \(next) WHERE \(condition))"
    }
}

/// Reads the rows of one entity with all columns of their shape. Belongs to the connection's thread.
///
/// ```
/// statement: row number, keys, columns 2 to 1,998 ─┐
/// more[0]:   columns 1,999 to 3,997, by the number ├─▶ FetchedRow
/// more[1]:   …                                    ─┘
/// ```
///
/// An entity with fewer columns, as nearly all have, is read by the one statement.
struct ObjectReader {
    let shape: ObjectShape
    /// One for each of the shape's `moreColumns`. Parameter: the row's number.
    private let more: [Statement]

    init(_ shape: ObjectShape, of entity: Int, _ sql: FetchSQL, on connection: Connection) throws(StoreError) {
        self.shape = shape
        var more: [Statement] = []
        for columns in shape.moreColumns { more.append(try connection.prepare(sql.columns(columns, of: entity))) }
        self.more = more
    }

    /// Calls `body` with the current row of a statement, whose first columns are those of the shape.
    func withRow<Result>(of statement: Statement, _ body: (FetchedRow) -> Result) throws(StoreError) -> Result {
        guard !more.isEmpty else { return body(FetchedRow(first: statement, more: more)) }
        defer { for statement in more { statement.reset() } }
        for other in more {
            other.bind(statement.integer(0), at: 1)
            guard try other.step() else { preconditionFailure("a row of the same transaction is there") }
        }
        return body(FetchedRow(first: statement, more: more))
    }
}

/// A row with all columns of a shape, by their numbers there. Valid until one of its statements is stepped or reset.
struct FetchedRow {
    fileprivate let first: Statement
    fileprivate let more: [Statement]

    @inline(__always)
    private func read<Value>(_ column: Int, _ body: (Statement, Int) -> Value) -> Value {
        guard column >= ObjectShape.mostColumns else { return body(first, column) }
        return body(more[column / ObjectShape.mostColumns - 1], column % ObjectShape.mostColumns)
    }

    func isNull(_ column: Int) -> Bool { read(column) { $0.isNull($1) } }

    func integer(_ column: Int) -> Int64 { read(column) { $0.integer($1) } }

    func bytes(_ column: Int) -> UnsafeBufferPointer<UInt8> { read(column) { $0.bytes($1) } }

    func cell(_ column: Int) -> Cell { read(column) { $0.cell($1) } }
}
