package import BrokerJSON
internal import Glibc

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

}

/// Reports the parts that exceed a limit, before anything is built from them: of the document only the JSON syntax is
/// known to be valid.
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
        hold(
            counts.reduce(0, +), ModelLimits.mostPropertiesInAll, "attributes and relationships in all",
            "split the model", node, "/entities")
        checkHierarchies(entities, counts, node)
    }

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
    private mutating func checkHierarchies(_ entities: [ModelValue.Member], _ counts: [Int], _ node: ModelValue) {
        let places = [ExactText: Int](firstOf: entities.enumerated().map { ($1.key, $0) })
        let parents = entities.map { $0.value["parent"]?.string.flatMap { places[$0] } }
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

    private static func shortened(_ name: String) -> String {
        name.utf8.count > ModelLimits.longestName ? "\(name.prefix(32))…" : name
    }
}

/// Reads a model from its JSON form (`protocol/model.schema.json`), from any source, and checks it completely.
///
/// A model that is read has the properties that ``Model`` promises: indices in range, names unique, inverses on both sides. An
/// unknown field is a fault, so that a typing error is always reported. A model that exceeds ``ModelLimits`` is reported before
/// anything else is read.
package enum ModelReader {
    /// - Throws: ``ModelError`` with every fault in the order of the document; text that is no JSON is one fault.
    package static func read(_ text: JSONText) throws(ModelError) -> Model {
        try read(ModelDocument(parsing: text))
    }

    /// - Throws: ``ModelError`` with every fault in the order of the document.
    package static func read(_ document: ModelDocument) throws(ModelError) -> Model {
        let faults = ModelFaultLog(of: document)
        let root = ModelNode(value: document.root, pointer: "", faults: faults)
        var limits = ModelLimitCheck(faults: faults)
        limits.check(root.value)
        let parts = limits.isWithin ? read(root) : nil
        guard faults.isEmpty, let parts else { throw ModelError(faults: faults.inDocumentOrder) }
        return Model(
            entities: parts.entities, mappings: parts.mappings, routes: parts.routes,
            description: document.root["description"]?.string,
            evolves: (document.root["evolve"] ?? document.root["inferred"]) != nil,
            hasReadableViews: document.root["readableViews"]?.bool ?? true)
    }

    /// Only meaningful when no fault was reported; nil when nothing could be linked.
    private static func read(_ root: ModelNode) -> (entities: [Entity], mappings: [Mapping], routes: [Route])? {
        guard let fields = ModelFields(of: root, vocabulary: .model) else { return nil }
        for node in fields["evolve"]?.elements(expected: "an array of words") ?? [] {
            guard let word = node.string(), word != "columns" else { continue }
            node.report("\"\(word)\" is nothing that evolves; write \"columns\"")
        }
        // Models that were inferred before there was "evolve" have a digest instead.
        _ = (fields["inferred"]?.string(), fields["readableViews"]?.bool())
        let keyStyle: KeyStyle = fields["keyStyle"]?.choice() ?? .exact
        guard let node = fields["entities"] else {
            return root.refuse("a model needs \"entities\"; add an object of entities by name")
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

/// Opens configurations and models. A pipe among them would stop a server until another program writes to it.
package enum RegularFile {
    /// The end of a sentence that begins with the path.
    package struct Refusal: Error {
        package let reason: String
    }

    /// - Returns: a descriptor, which the caller closes.
    package static func open(_ path: String) throws(Refusal) -> Int32 {
        // Without a reader or writer at the other end, a pipe is opened at once.
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Refusal(reason: "cannot be read: \(String(cString: strerror(errno)))") }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            let isFolder = status.st_mode & S_IFMT == S_IFDIR
            throw Refusal(
                reason: "cannot be read: it is a \(isFolder ? "folder" : "pipe or device"), and no regular file")
        }
        return descriptor
    }

    /// - Parameter limit: of a longer file, one byte more than that is read.
    package static func bytes(of path: String, limit: Int) throws(Refusal) -> [UInt8] {
        let descriptor = try open(path)
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        while bytes.count <= limit {
            var count = 0
            bytes += [UInt8](unsafeUninitializedCapacity: min(limit + 1 - bytes.count, 1 << 20)) { space, filled in
                count = read(descriptor, space.baseAddress, space.count)
                filled = max(0, count)
            }
            guard count > 0 else {
                if count == 0 { return bytes }
                throw Refusal(reason: "cannot be read: \(String(cString: strerror(errno)))")
            }
        }
        return bytes
    }
}
