internal import BrokerJSON
internal import BrokerModel

/// Walks the keys of records and stores the values of known keys in slots, one slot per node of the entity's key tree.
///
/// Records mostly have the same keys in the same order, so each position remembers its last key: one comparison replaces a search.
struct RecordScanner: ~Copyable {
    /// The last key at one position of an object.
    private struct Prediction {
        let key: UnsafeBufferPointer<UInt8>
        /// The tree's node, or -1 - the index among the unknown keys.
        let target: Int
    }

    /// An unknown key of an object at one node of all trees. Its bytes are in the document.
    private struct UnknownKey: Hashable {
        let treeNode: Int
        /// Nil for the keys of the entity beyond the limit.
        let key: BytesKey?
    }

    private struct UnknownCount {
        let entity: EntityPlan
        let node: Int
        let key: BytesKey?
        var count = 0
    }

    /// Limit on the unknown keys in the warnings of one job. A record that uses keys as data must not fill the answer.
    private static let namedUnknownKeys = 1_000
    /// Limit on the positions of an object whose keys are remembered: more than records have that are not dictionaries.
    private static let predictedPositions = 4_096
    private static let firstSlots = 40
    /// Limit in bytes on an unknown key in a warning.
    private static let shownKeyBytes = 128

    /// By node over all trees; empty while few records have been scanned, because most small jobs have no more. The keys
    /// point into the document, which outlives the scanner.
    private var predictions: [[Prediction]] = []
    private let nodeCount: Int
    private var recordsWithoutPredictions = 4
    private var unknownKeys: [UnknownKey: Int] = [:]
    private var unknownCounts: [UnknownCount] = []
    private var slots = UnsafeMutableBufferPointer<JSONValue?>(start: nil, count: 0)
    private var depth = 0
    /// The first unknown key of the latest record, in the order of the text; nil when it has none.
    private(set) var firstUnknownKey: (key: JSONValue, node: Int)?
    /// The unknown keys of the latest record and their values, of an entity that stores these.
    private(set) var extraKeys: [(node: Int, key: JSONValue, value: JSONValue)] = []
    /// The latest record has keys, and all of its own keys are unknown.
    private(set) var hasOnlyUnknownKeys = false
    private var knownKeyCount = 0
    /// By offset, the node of a value of the latest record that is neither an object nor null, in the place of an object on key paths.
    /// The slots of these paths hold them, as they hold a null in such a place.
    private var misplacedValues: [Int: Int] = [:]
    /// The first of these in the place of a relationship's value.
    private(set) var misplacedLink: (relationship: EntityPlan.RelationshipPlan, value: JSONValue)?

    init(nodeCount: Int) { self.nodeCount = nodeCount }

    deinit { slots.deallocate() }

    /// Scans one record and returns the index of its first slot; ``close(_:)`` gives the slots back.
    ///
    /// - Parameter nested: the nested record, or the record itself, below a key that is one of its values.
    mutating func open(
        _ record: JSONValue?, nested: (key: JSONValue, value: JSONValue)? = nil, _ entity: EntityPlan
    ) -> Int {
        let base = depth
        let count = entity.tree.nodes.count
        // With room for nested records: enough for those of most models.
        if slots.count < base + count { growSlots(to: max(Self.firstSlots, 2 * (base + count))) }
        for slot in base..<base + count { slots[slot] = nil }
        depth = base + count
        firstUnknownKey = nil
        knownKeyCount = 0
        if !misplacedValues.isEmpty { (misplacedValues, misplacedLink) = ([:], nil) }
        if !extraKeys.isEmpty { extraKeys.removeAll(keepingCapacity: true) }
        if recordsWithoutPredictions > 0 {
            recordsWithoutPredictions -= 1
        } else if predictions.isEmpty {
            predictions = Array(repeating: [], count: nodeCount)
        }
        if let record { scan(record, 0, entity, base, apartFrom: nested?.key) }
        if let nested, let nesting = entity.nesting { scan(nested.value, nesting.node, entity, base) }
        if !misplacedValues.isEmpty { takeMisplacedLinks(entity, base) }
        // The key of a nested record is one of its values, and `_extra` takes any.
        hasOnlyUnknownKeys =
            firstUnknownKey != nil && knownKeyCount == 0 && nested == nil && entity.extraColumn < 0
        return base
    }

    mutating func close(_ base: Int) { depth = base }

    private mutating func growSlots(to count: Int) {
        let larger = UnsafeMutableBufferPointer<JSONValue?>.allocate(capacity: count)
        larger.initialize(repeating: nil)
        _ = larger.update(fromContentsOf: slots)
        slots.deallocate()
        slots = larger
    }

    /// Returns the value at the most preferred path: the first that is not null, else null, else nil.
    @inline(__always)
    func value(_ nodes: [Int], _ base: Int) -> JSONValue? {
        var null: JSONValue?
        for node in nodes {
            guard let value = slots[base + node] else { continue }
            if !value.isNull { return value }
            null = null ?? value
        }
        return null
    }

    @inline(__always)
    func value(_ node: Int, _ base: Int) -> JSONValue? { slots[base + node] }

    private mutating func scan(
        _ object: JSONValue, _ node: Int, _ entity: EntityPlan, _ base: Int, apartFrom nestedKey: JSONValue? = nil
    ) {
        var position = 0
        for (key, value) in object.members {
            if let nestedKey, nestedKey.offset == key.offset { continue }
            let target = self.target(of: key, position, node, entity)
            position += 1
            if target >= 0 {
                slots[base + target] = value
                knownKeyCount += 1
            } else {
                unknownCounts[-1 - target].count += 1
                if entity.extraColumn >= 0 { extraKeys.append((node, key, value)) }
                if firstUnknownKey.map({ key.offset < $0.key.offset }) ?? true { firstUnknownKey = (key, node) }
            }
        }
        for child in entity.innerNodes[node] {
            guard let value = slots[base + child] else { continue }
            if value.kind == .object {
                scan(value, child, entity, base)
            } else if value.isNull {
                place(value, below: child, entity.tree, base)
            } else if !entity.tree.nodes[child].isClaimed {
                misplacedValues[value.offset] = child
                place(value, below: child, entity.tree, base)
            }
        }
    }

    /// Stores a value that is no object at the end of all paths that lead through it.
    private mutating func place(_ value: JSONValue, below node: Int, _ tree: KeyTree, _ base: Int) {
        for child in tree.nodes[node].children {
            slots[base + child] = value
            place(value, below: child, tree, base)
        }
    }

    /// Whether the value is in the place of an object on a key path of the latest record.
    @inline(__always)
    func isMisplaced(_ value: JSONValue) -> Bool { misplacedNode(of: value) != nil }

    /// The node at which such a value is.
    @inline(__always)
    func misplacedNode(of value: JSONValue) -> Int? {
        misplacedValues.isEmpty ? nil : misplacedValues[value.offset]
    }

    /// Takes such values from the slots of relationships, and notes the first.
    private mutating func takeMisplacedLinks(_ entity: EntityPlan, _ base: Int) {
        for relationship in entity.ownRelationships {
            guard let value = value(relationship.nodes, base), isMisplaced(value) else { continue }
            for node in relationship.nodes { slots[base + node] = nil }
            if misplacedLink.map({ value.offset < $0.value.offset }) ?? true { misplacedLink = (relationship, value) }
        }
    }

    @inline(__always)
    private mutating func target(of key: JSONValue, _ position: Int, _ node: Int, _ entity: EntityPlan) -> Int {
        let bytes = key.bytes
        guard !predictions.isEmpty else { return search(bytes, key, node, entity) }
        let treeNode = entity.firstNode + node
        if position < predictions[treeNode].count {
            let predicted = predictions[treeNode][position]
            if Bytes.areEqual(predicted.key, bytes) { return predicted.target }
        }
        let target = search(bytes, key, node, entity)
        let prediction = Prediction(key: bytes, target: target)
        if position < predictions[treeNode].count {
            predictions[treeNode][position] = prediction
        } else if position == predictions[treeNode].count, position < Self.predictedPositions {
            if position == 0 { predictions[treeNode].reserveCapacity(entity.tree.nodes[node].children.count) }
            predictions[treeNode].append(prediction)
        }
        return target
    }

    private mutating func search(
        _ bytes: UnsafeBufferPointer<UInt8>, _ key: JSONValue, _ node: Int, _ entity: EntityPlan
    ) -> Int {
        entity.tree.child(of: node, bytes) ?? entity.tree.rest(of: node) ?? unknown(key, node, entity)
    }

    private mutating func unknown(_ key: JSONValue, _ node: Int, _ entity: EntityPlan) -> Int {
        var unknown = UnknownKey(treeNode: entity.firstNode + node, key: BytesKey(bytes: key.bytes))
        if let known = unknownKeys[unknown] { return -1 - known }
        if unknownCounts.count >= Self.namedUnknownKeys {
            unknown = UnknownKey(treeNode: entity.firstNode, key: nil)
            if let known = unknownKeys[unknown] { return -1 - known }
        }
        unknownKeys[unknown] = unknownCounts.count
        unknownCounts.append(UnknownCount(entity: entity, node: node, key: unknown.key))
        return -unknownCounts.count
    }

    /// Returns one warning per unknown key, in the order of first occurrence.
    func warnings() -> [Warning] {
        guard !unknownCounts.isEmpty else { return [] }
        struct WarningKey: Hashable {
            let entity: Int
            let path: [UInt8]?
        }
        var warnings: [Warning] = []
        /// Several plans of one entity may have the same unknown key.
        var indices: [WarningKey: Int] = [:]
        for unknown in unknownCounts {
            let path = unknown.key.map { unknown.entity.path(to: unknown.node, Self.shown($0.bytes)) }
            let key = WarningKey(entity: unknown.entity.ownIndex, path: path.map { Array($0.utf8) })
            if let index = indices[key] {
                warnings[index].count += unknown.count
                continue
            }
            indices[key] = warnings.count
            let code: Warning.Code = unknown.entity.extraColumn >= 0 ? .extraKey : .unknownKey
            warnings.append(Warning(code, entity: unknown.entity.name, key: path, count: unknown.count))
        }
        return warnings
    }

    /// Returns the key, or its beginning.
    static func shown(_ key: UnsafeBufferPointer<UInt8>) -> String {
        guard key.count > shownKeyBytes else { return String(decoding: key, as: UTF8.self) }
        var end = shownKeyBytes
        while end > 0, key[end] & 0xC0 == 0x80 { end -= 1 }
        return String(decoding: key[..<end], as: UTF8.self) + "…"
    }
}

extension EntityPlan {
    /// The path from the record to a key at that node. In a path a dot leads into an object, so a key with a dot is in quotation marks.
    func path(to node: Int, _ key: String) -> String {
        (path(to: node) + [key.contains(".") ? "\"\(key)\"" : key]).joined(separator: ".")
    }

    /// The message of an error about a key at that node.
    func unknownKeyMessage(_ key: JSONValue, at node: Int) -> String {
        let name = RecordScanner.shown(key.bytes)
        let path = path(to: node, name)
        let shown = path == name ? "the key \"\(name)\"" : node == 0 ? "the key \(path)" : "the path \(path)"
        let known = tree.nodes[node].children.map { String(decoding: self.tree.nodes[$0].key, as: UTF8.self) }
        let ending =
            name.contains(".")
            ? ", as a dot in the model leads into an object. An array with one text is a key with dots."
            : NearMiss.ending(name, among: known)
        return
            "The model does not name \(shown) of \(self.name)\(ending) Correct the record, add the key to the model or to its "
            + "\"ignore\", or send the job with \"unknown\": \"warn\" (in Swift unknownKeys: .warn), which counts such keys."
    }

    /// The path to a key at that node in a record, as `_extra` has it.
    func extraPath(to node: Int, _ key: JSONValue? = nil) -> [UInt8] {
        ExtraValues.path(nodePaths[node] + (key.map { [String(decoding: $0.bytes, as: UTF8.self)] } ?? []))
    }

    /// Returns the keys from the record to that node.
    private func path(to node: Int) -> [String] {
        var path: [String] = []
        var node = node
        while node != 0 {
            if let nesting, nesting.node == node { return ["(\(attributes[nesting.column].converter.name))"] + path }
            path.insert(String(decoding: tree.nodes[node].key, as: UTF8.self), at: 0)
            node = tree.nodes.firstIndex { $0.children.contains(node) }!
        }
        return path
    }
}
