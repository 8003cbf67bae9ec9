package import BrokerJSON
import BrokerPaths

/// The maximum size of a model: far more than any that people write, and small enough that reading one, and creating
/// its tables, takes seconds and megabytes.
package enum ModelLimits {
    /// Bytes of a file: a Core Data model of a thousand entities has one MiB.
    package static let largestFile = 16 << 20
    /// Bytes of a name: the limit of file names.
    package static let longestName = 255
    package static let mostEntities = 5_000
    /// Attributes and relationships of one entity, as written: the limit of columns of an SQLite table.
    package static let mostProperties = 2_000
    /// Attributes and relationships of all entities together.
    package static let mostPropertiesInAll = 50_000
    /// Entities of a hierarchy, all of which share one table.
    package static let mostRelatives = 250
    /// Properties of all entities, where each entity of a hierarchy has those of all: memory for staging.
    package static let mostInherited = 250_000
    /// Levels of objects that own others: the identity of each level begins with those above.
    package static let mostOwners = 32
    /// Lists of `unique` and `indexes` of one entity: every row is written to each of them.
    package static let mostLists = 250
    /// Mappings and routes together.
    package static let mostMappings = 10_000

    /// The fault of a model file that is too large.
    package static let fileFault =
        "the model has more than \(largestFile >> 20) MiB, and no real model is that large; check the path, or split it"

    /// Reports the parts that exceed a limit, before anything is built from them.
    ///
    /// - Returns: whether the model is within all limits.
    static func check(_ root: ModelNode) -> Bool {
        var check = ModelLimitCheck(faults: root.faults)
        check.check(root.value)
        return check.isWithin
    }
}

/// A check of a model's document, of which only the JSON syntax is known to be valid.
private struct ModelLimitCheck {
    let faults: ModelFaultLog
    private(set) var isWithin = true

    mutating func check(_ root: ModelValue) {
        let mappings = root["mappings"]?.members ?? []
        for mapping in mappings { checkName(mapping.key, mapping.keyPlace, "/mappings") }
        hold(
            mappings.count + (root["routes"]?.elements.count ?? 0), ModelLimits.mostMappings, "mappings and routes",
            "take some out", root, "")
        guard let node = root["entities"] else { return }
        let entities = node.members
        hold(entities.count, ModelLimits.mostEntities, "entities", "split the model", node, "/entities")
        guard isWithin else { return }
        let counts = entities.map { check($0) }
        let properties = counts.reduce(0, +)
        hold(
            properties, ModelLimits.mostPropertiesInAll, "attributes and relationships in all", "split the model", node,
            "/entities")
        checkHierarchies(entities, counts, node)
    }

    /// - Returns: the number of its attributes and relationships.
    private mutating func check(_ entity: ModelValue.Member) -> Int {
        checkName(entity.key, entity.keyPlace, "/entities")
        let pointer = "/entities/\(Self.shortened(entity.key).asPointerToken)"
        if let table = entity.value["table"], let name = table.string { checkName(name, table.place, pointer) }
        var count = 0
        for kind in ["attributes", "relationships"] {
            let members = entity.value[kind]?.members ?? []
            count += members.count
            for member in members.prefix(ModelLimits.mostProperties + 1) {
                checkName(member.key, member.keyPlace, "\(pointer)/\(kind)")
            }
        }
        let lists = ["unique", "indexes"].reduce(0) { $0 + (entity.value[$1]?.elements.count ?? 0) }
        hold(
            count, ModelLimits.mostProperties, "attributes and relationships in one entity", "split the entity",
            entity.value, pointer)
        hold(
            lists, ModelLimits.mostLists, "unique lists and indexes in one entity", "take some out", entity.value,
            pointer)
        return count
    }

    /// By the names of parents, which need not exist, and may form a circle.
    ///
    /// - Parameter counts: the properties of each entity.
    private mutating func checkHierarchies(_ entities: [ModelValue.Member], _ counts: [Int], _ node: ModelValue) {
        let places = Dictionary(
            entities.enumerated().map { (Array($1.key.utf8), $0) }, uniquingKeysWith: { first, _ in first })
        let parents = entities.map { $0.value["parent"]?.string.flatMap { places[Array($0.utf8)] } }
        var topmost = [Int?](repeating: nil, count: entities.count)
        var relatives = [Int](repeating: 0, count: entities.count)
        var properties = relatives
        for index in entities.indices {
            var path = [index]
            while topmost[path.last!] == nil, let parent = parents[path.last!], path.count <= entities.count {
                path.append(parent)
            }
            let top = topmost[path.last!] ?? path.last!
            for member in path { topmost[member] = top }
            relatives[top] += 1
            properties[top] += counts[index]
        }
        for (index, count) in relatives.enumerated() where count > ModelLimits.mostRelatives {
            hold(
                count, ModelLimits.mostRelatives, "entities in one hierarchy", "take some of them out of the hierarchy",
                entities[index].value, "/entities/\(Self.shortened(entities[index].key).asPointerToken)")
        }
        hold(
            zip(relatives, properties).reduce(0) { $0 + $1.0 * $1.1 }, ModelLimits.mostInherited,
            "attributes and relationships where each entity of a hierarchy counts with those of all",
            "take entities out of the largest hierarchies", node, "/entities")
    }

    private mutating func checkName(_ name: String, _ place: SourcePlace, _ pointer: String) {
        guard name.utf8.count > ModelLimits.longestName else { return }
        report(
            "a name has at most \(ModelLimits.longestName) bytes, and this one has \(name.utf8.count); shorten it",
            place,
            "\(pointer)/\(Self.shortened(name).asPointerToken)")
    }

    private mutating func hold(
        _ count: Int, _ most: Int, _ what: String, _ remedy: String, _ value: ModelValue, _ pointer: String
    ) {
        guard count > most else { return }
        report("there are \(count) \(what), and at most \(most) are read; \(remedy)", value.place, pointer)
    }

    private mutating func report(_ message: String, _ place: SourcePlace, _ pointer: String) {
        isWithin = false
        faults.report(message, at: ModelNode(value: ModelValue(.null, at: place), pointer: pointer, faults: faults))
    }

    /// A name, shortened for a message.
    private static func shortened(_ name: String) -> String {
        name.utf8.count > ModelLimits.longestName ? "\(name.prefix(32))…" : name
    }
}

/// A value of the model's document with its pointer, which reports its faults.
///
/// The reading functions return nil after they reported a fault.
struct ModelNode {
    let value: ModelValue
    let pointer: String
    let faults: ModelFaultLog

    var place: ModelPlace { faults.place(of: self) }

    func report(_ message: String) {
        faults.report(message, at: self)
    }

    func reportExpected(_ expected: String) {
        report("expected \(expected), saw \(value.kind.phrase)")
    }
}

/// A key of an object with its value.
struct ModelMember {
    let name: String
    /// Positioned at the key, for faults of the name; its pointer is the value's.
    let key: ModelNode
    let node: ModelNode
}

// MARK: - Scalars

extension ModelNode {
    var isEmptyArray: Bool { value.kind == .array && value.elements.first { _ in true } == nil }

    /// A string that is not empty.
    func string() -> String? {
        guard let string = value.string else {
            reportExpected("a string")
            return nil
        }
        guard !string.isEmpty else {
            report("the string is empty; write a value or take the field out")
            return nil
        }
        return string
    }

    func bool() -> Bool? {
        guard let bool = value.bool else {
            reportExpected("true or false")
            return nil
        }
        return bool
    }

    /// A whole number from 0.
    func count() -> Int? {
        guard let number = value.int64, let count = Int(exactly: number), count >= 0 else {
            reportExpected("a whole number from 0 on")
            return nil
        }
        return count
    }

    /// One of the raw values of `Choice`.
    func choice<Choice: CaseIterable & RawRepresentable<String>>() -> Choice? {
        if let choice = value.string.flatMap(Choice.init) { return choice }
        let names = Choice.allCases.map(\.rawValue)
        let expected = "one of " + names.map { "\"\($0)\"" }.joined(separator: ", ")
        guard let seen = value.string else {
            reportExpected(expected)
            return nil
        }
        report("expected \(expected), saw \"\(seen)\"" + NearMiss.question(seen, among: names))
        return nil
    }
}

// MARK: - Containers

extension ModelNode {
    /// The members of an object in order; a key that occurs twice is reported and returned once.
    func members(expected: String) -> [ModelMember]? {
        guard value.kind == .object else {
            reportExpected(expected)
            return nil
        }
        // By bytes: names that differ only in Unicode's normal form are different names.
        var lines: [[UInt8]: Int] = [:]
        var members: [ModelMember] = []
        for member in value.members {
            let name = member.key
            let pointer = pointer + "/" + name.asPointerToken
            let key = ModelValue(.string(name), at: member.keyPlace)
            let keyNode = ModelNode(value: key, pointer: pointer, faults: faults)
            if let line = lines[Array(name.utf8)] {
                keyNode.report("\"\(name)\" occurs twice here, first on line \(line); keep one of them")
                continue
            }
            lines[Array(name.utf8)] = keyNode.place.line
            let node = ModelNode(value: member.value, pointer: pointer, faults: faults)
            members.append(ModelMember(name: name, key: keyNode, node: node))
        }
        return members
    }

    /// The elements of an array; an empty one is reported unless it is allowed.
    func elements(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        guard value.kind == .array else {
            reportExpected(expected)
            return nil
        }
        let nodes = value.elements.enumerated().map { index, value in
            ModelNode(value: value, pointer: "\(pointer)/\(index)", faults: faults)
        }
        guard !nodes.isEmpty || mayBeEmpty else {
            report("the array is empty; expected \(expected)")
            return nil
        }
        return nodes
    }

    /// The node itself when it is a string, otherwise the elements of an array.
    func oneOrMore(expected: String, mayBeEmpty: Bool = false) -> [ModelNode]? {
        value.kind == .string ? [self] : elements(expected: expected, mayBeEmpty: mayBeEmpty)
    }
}

/// The faults that one reading of a model has found so far. Belongs to one reading on one thread.
final class ModelFaultLog {
    /// The index of each source.
    private let ranks: [String: Int]
    private var found: [ModelFault]

    init(of document: ModelDocument) {
        ranks = Dictionary(
            document.sources.enumerated().map { ($0.element, $0.offset) }, uniquingKeysWith: { first, _ in first })
        found = document.faults
    }

    var isEmpty: Bool { found.isEmpty }

    func report(_ message: String, at node: ModelNode) {
        found.append(ModelFault(message, at: place(of: node)))
    }

    func place(of node: ModelNode) -> ModelPlace {
        let place = node.value.place
        return ModelPlace(pointer: node.pointer, source: place.source, line: place.line, column: place.column)
    }

    /// By position; faults of one position in the order in which they were found.
    var inDocumentOrder: [ModelFault] {
        found.enumerated()
            .sorted { order(of: $0.element.place, $0.offset) < order(of: $1.element.place, $1.offset) }
            .map(\.element)
    }

    private func order(of place: ModelPlace, _ index: Int) -> (Int, Int, Int, Int) {
        (ranks[place.source] ?? ranks.count, place.line, place.column, index)
    }
}

/// Reads the model's `routes`.
struct RouteReader {
    let mappings: MappingReader

    /// Only meaningful when no fault was reported.
    func read(_ nodes: [ModelNode]) -> [Route] { nodes.compactMap(read) }

    private func read(_ node: ModelNode) -> Route? {
        guard let fields = ModelFields(of: node, vocabulary: .route) else { return nil }
        var route = Route(mapping: nil, place: node.place)
        if let path = fields["path"], let text = path.string() {
            do throws(PathPatternError) {
                route.pattern = try PathPattern(text)
            } catch {
                path.report(error.description)
            }
        }
        if let keyPath = fields["keyPath"] { route.keyPath = self.keyPath(keyPath) }
        if fields["path"] == nil, fields["keyPath"] == nil {
            node.report("the route does not say which payloads it is for; add a \"path\" or a \"keyPath\"")
        }
        let isError = fields.flag("error")
        switch (fields["mapping"], isError) {
        case (let mapping?, false): route.mapping = mappings.mapping(namedBy: mapping)
        case (let mapping?, true):
            mapping.report("a route leads either to a mapping or to an error; take one out")
        case (nil, true): break
        case (nil, false):
            node.report("the route leads nowhere; add \"mapping\" with the name of one, or \"error\": true")
        }
        return route
    }

    private func keyPath(_ node: ModelNode) -> [String]? {
        guard let text = node.string() else { return nil }
        let keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard !keys.contains("") else {
            node.report("the key path \"\(text)\" has an empty key; take out the dot too many")
            return nil
        }
        return keys
    }
}

/// Reads a model from its JSON form (`protocol/model.schema.json`), from any source, and checks it completely.
///
/// A model that is read has the properties that ``Model`` promises: indices in range, names unique, inverses on both
/// sides. An unknown field is a fault, so that a typing error is always reported; only `$schema` and `description` are
/// allowed everywhere, and have no effect. A model that exceeds ``ModelLimits`` is reported before anything else is
/// read.
package enum ModelReader {
    /// - Throws: ``ModelError`` with every fault in the order of the document; text that is no JSON is one fault.
    package static func read(_ text: JSONText) throws(ModelError) -> Model {
        try read(ModelDocument(parsing: text))
    }

    /// - Throws: ``ModelError`` with every fault in the order of the document.
    package static func read(_ document: ModelDocument) throws(ModelError) -> Model {
        let faults = ModelFaultLog(of: document)
        let root = ModelNode(value: document.root, pointer: "", faults: faults)
        let parts = ModelLimits.check(root) ? read(root) : nil
        guard faults.isEmpty, let parts else { throw ModelError(faults: faults.inDocumentOrder) }
        return Model(
            entities: parts.entities, mappings: parts.mappings, routes: parts.routes,
            description: document.root["description"]?.string, inferred: document.root["inferred"]?.string)
    }

    private static let longestMark = 100

    /// Only meaningful when no fault was reported; nil when nothing could be linked.
    private static func read(_ root: ModelNode) -> (entities: [Entity], mappings: [Mapping], routes: [Route])? {
        guard let fields = ModelFields(of: root, vocabulary: .model) else { return nil }
        if let node = fields["inferred"], let mark = node.string(), mark.utf8.count > longestMark {
            node.report("\"inferred\" has more than \(longestMark) bytes; take it out: `broker submit` writes it")
        }
        let keyStyle: KeyStyle = fields["keyStyle"]?.choice() ?? .exact
        guard let node = fields["entities"] else {
            root.report("a model needs \"entities\"; add an object of entities by name")
            return nil
        }
        guard let members = node.members(expected: "an object of entities by name") else { return nil }
        if members.isEmpty { node.report("the model has no entity; add one, or nothing can be stored") }
        let reader = EntityReader(keyStyle: keyStyle)
        var linker = ModelLinker(members.map(reader.read))
        var entities = linker.link()
        let mappings = MappingReader(
            fields["mappings"]?.members(expected: "an object of mappings by name") ?? [], entities)
        let read = mappings.read()
        mappings.resolveRelationships(of: linker.drafts, in: &entities, read)
        let routes = fields["routes"]?.elements(expected: "an array of routes", mayBeEmpty: true) ?? []
        return (entities, read, RouteReader(mappings: mappings).read(routes))
    }
}
