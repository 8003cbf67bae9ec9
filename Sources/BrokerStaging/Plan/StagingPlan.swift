internal import BrokerJSON
package import BrokerModel
internal import Synchronization

/// A compiled mapping of the model.
enum MappingPlan: Sendable {
    case record(EntityPlan)
    case select(SelectPlan)

    /// - Parameter selectors: key paths by which a `select` chooses the mapping.
    init(_ mapping: Mapping, _ entities: [EntityPlan], _ model: Model, firstNode: Int, selectors: [[String]]) {
        switch mapping.form {
        case .record(let record):
            self = .record(
                EntityPlan(
                    record, of: entities[record.entity], firstNode: firstNode, selectors: selectors, in: model))
        case .select(let select): self = .select(SelectPlan(mapping.name, select))
        }
    }

    /// Nodes of its own key tree.
    var nodeCount: Int {
        switch self {
        case .record(let plan): plan.tree.nodes.count
        case .select: 0
        }
    }
}

extension Model {
    /// The model whose records have its own names as keys, besides values that come from the record around.
    fileprivate var keyedByNames: Model {
        var entities = entities
        for entity in entities.indices {
            for (index, attribute) in entities[entity].attributes.enumerated() where !attribute.keyPaths.isEmpty {
                let holder = attribute.keyPaths.filter { HolderValue($0) != nil }
                entities[entity].attributes[index].keyPaths =
                    attribute.prefersHolder ? holder + [[attribute.name]] : [[attribute.name]] + holder
            }
            for (index, relationship) in entities[entity].relationships.enumerated() {
                if !relationship.keyPaths.isEmpty {
                    entities[entity].relationships[index].keyPaths = [[relationship.name]]
                }
                entities[entity].relationships[index].mapping = nil
            }
            (entities[entity].root, entities[entity].ignoredPaths) = (nil, [])
        }
        return Model(entities: entities)
    }

    /// By mapping, the key paths by which selects choose it, directly or through other selects. They are known keys of
    /// its records.
    var selectorKeys: [[[String]]] {
        var keys: [[[String]]] = mappings.map { _ in [] }
        for mapping in mappings {
            guard case .select(let select) = mapping.form else { continue }
            var reached: Set<Int> = []
            var waiting = [select]
            while let next = waiting.popLast() {
                var targets = next.cases.map(\.mapping)
                if case .mapping(let other) = next.otherwise { targets.append(other) }
                for target in targets where reached.insert(target).inserted {
                    keys[target].append(select.key)
                    if case .select(let inner) = mappings[target].form { waiting.append(inner) }
                }
            }
        }
        return keys
    }
}

/// Chooses a mapping by the value at a key.
final class SelectPlan: Sendable {
    let name: String
    let key: [String]
    private let cases: [[UInt8]: Int]
    let otherwise: SelectMapping.Otherwise

    init(_ name: String, _ select: SelectMapping) {
        self.name = name
        key = select.key
        cases = Dictionary(
            select.cases.map { (Array($0.value.utf8), $0.mapping) }, uniquingKeysWith: { first, _ in first })
        otherwise = select.otherwise
    }

    /// The value that selects the mapping; nil for no value or null.
    func value(in record: JSONValue) -> JSONValue? {
        guard let value = record.value(at: key), !value.isNull else { return nil }
        return value
    }

    /// Values are compared as text: `1` is the case `"1"`.
    func mapping(for value: JSONValue) -> Int? {
        guard value.kind != .object, value.kind != .array else { return nil }
        return cases[Array(value.bytes)]
    }

    /// The cases, for messages.
    var summary: String {
        cases.keys.map { String(decoding: $0, as: UTF8.self).quotedBriefly }.sorted().prefix(20).joined(separator: ", ")
    }
}

/// A record, with the plan that reads it. Valid only as long as both, which it does not retain.
struct MappedRecord {
    let value: JSONValue
    private let plan: Unmanaged<EntityPlan>
    /// The dictionary key of the record, where that key is one of its values.
    var nestedKey: JSONValue?
    /// The record that contains it, where that one brings values of its own, or owns it.
    var holder: RecordHolder?

    init(value: JSONValue, entity: EntityPlan, nestedKey: JSONValue? = nil) {
        self.value = value
        plan = .passUnretained(entity)
        self.nestedKey = nestedKey
    }

    var entity: EntityPlan { plan.takeUnretainedValue() }

    /// Calls `body` with the plan, and counts no reference.
    @inline(__always)
    func withEntity<Value, Failure: Error>(
        _ body: (EntityPlan) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try plan.withoutCounting(body)
    }
}

/// A column whose value a nested record takes from the record that contains it.
struct HolderValuePlan: Sendable {
    /// The holder's value, by the relationship that contains the record.
    struct Source: Sendable {
        /// The entity whose table has the holders.
        let table: Int
        let relationship: Int
        /// The holder's column; nil takes the record's position.
        let column: Int?
    }

    let column: Int
    /// The value precedes those of the record's own keys.
    let isPreferred: Bool
    private let sources: [Source]

    init(_ column: Int, _ value: HolderValue, of entity: Int, _ model: Model) {
        self.column = column
        isPreferred = model.entities[entity].attributes[column].prefersHolder
        sources = model.holders.holders(of: entity).compactMap { holder in
            let (table, place) = (model.topmost(of: holder.entity), holder.relationship)
            guard case .attribute(let name) = value else {
                return Source(table: table, relationship: place, column: nil)
            }
            let identity = model.entities[holder.entity].identity
            let names = model.entities[holder.entity].attributes
            return identity.first { names[$0].name.hasSameBytes(as: name) }.map {
                Source(table: table, relationship: place, column: $0)
            }
        }
    }

    /// Returns where that holder has the value; nil when it has none.
    func source(_ holder: RecordHolder) -> Source? {
        sources.first { $0.relationship == Int(holder.relationship) && $0.table == Int(holder.entity) }
    }
}

/// The relationship that owns the objects of an entity.
struct OwnerPlan: Sendable {
    /// The entity whose table has the owners.
    let table: Int
    let relationship: Int
    /// The owner's name and its relationship, for messages.
    let name: String

    init(_ owner: HolderRelationship, of model: Model) {
        table = model.topmost(of: owner.entity)
        relationship = owner.relationship
        let entity = model.entities[owner.entity]
        name = "\(entity.name) (\(entity.relationships[owner.relationship].name))"
    }

    /// Whether the record is nested where its objects live.
    func isHolder(_ holder: RecordHolder?) -> Bool {
        holder.map { Int($0.entity) == table && Int($0.relationship) == relationship } ?? false
    }
}

/// The record that contains a nested one.
struct RecordHolder {
    // Small, because every record is passed with one, or with nil.
    /// The entity whose table has its row.
    let entity: UInt32
    let row: UInt32
    /// The relationship whose value is, or contains, the nested record.
    let relationship: UInt32
    /// The position of the nested record among the values.
    let position: UInt32
}

/// The model, compiled for staging: key trees, converters and columns. Immutable, shared by all workers.
package final class StagingPlan: Sendable {
    package let model: Model
    package let layout: RowLayout
    /// By entity index, the column of the link to its owner; nil for an entity that is not owned.
    package let ownerColumns: [Int?]
    /// By entity index, the column `_extra` of its table; nil without one.
    package let extraColumns: [ExtraColumn?]
    /// By entity index, the plan of its records without a mapping.
    let entities: [EntityPlan]
    /// The same, for those who count no references to them.
    let unretainedEntities: [Unmanaged<EntityPlan>]
    /// By mapping index.
    let mappings: [MappingPlan]
    let linkKeys: LinkKeys
    /// The consequences of a record may be undone because a rule of the model is broken at last.
    package var mayFailLast: Bool { linkKeys.mayFailLast }

    /// Nodes of all key trees together; a tree's own begin at its ``EntityPlan/firstNode``.
    let nodeCount: Int
    /// Little content is staged in little time: the model has no pattern, which few bytes can keep busy for a second,
    /// no tombstone, and no hooks.
    package let isBrief: Bool
    /// Nil without hooks.
    let hooks: StagingHooks?
    /// The plan of records whose keys are the model's names; made for the first job with such records.
    private let keyedByNames = Mutex<StagingPlan?>(nil)

    /// - Parameter hooks: code of an embedding program that takes part in staging.
    /// - Throws: `ModelError` with every default, limit, date pattern or regular expression that cannot be used.
    package init(_ model: Model, hooks: StagingHooks? = nil) throws(ModelError) {
        let layout = RowLayout(model)
        var faults: [ModelFault] = []
        var entities: [EntityPlan] = []
        var nodeCount = 0
        let patterns = ModelPatterns()
        var known: Set<ModelFault> = []
        for index in model.entities.indices {
            do throws(ModelError) {
                let plan = try EntityPlan(index, layout.entities[index], firstNode: nodeCount, of: model, patterns)
                entities.append(plan)
                nodeCount += plan.tree.nodes.count
            } catch {
                // A fault of an inherited attribute is reported once.
                faults += error.faults.filter { known.insert($0).inserted }
                if patterns.isRefused { break }
            }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        mappings = zip(model.mappings, model.selectorKeys).map { mapping, selectors in
            let plan = MappingPlan(mapping, entities, model, firstNode: nodeCount, selectors: selectors)
            nodeCount += plan.nodeCount
            return plan
        }
        linkKeys = LinkKeys(entities, mappings, of: model)
        self.model = model
        self.hooks = hooks?.completed(for: model)
        isBrief =
            hooks == nil
            && model.entities.allSatisfy { entity in
                entity.tombstone == nil && entity.attributes.allSatisfy { $0.constraints.pattern == nil }
            }
        self.layout = layout
        ownerColumns = model.entities.indices.map { entity in
            guard let owner = model.holders.owners[entity],
                let inverse = model.entities[owner.entity].relationships[owner.relationship].inverse,
                case .column(let column) = layout.entities[entity].forms[inverse]
            else { return nil }
            return column
        }
        extraColumns = model.entities.indices.map { index in
            ExtraColumn(model.subentities(of: model.topmost(of: index)).map { entities[$0] })
        }
        self.entities = entities
        unretainedEntities = entities.map { .passUnretained($0) }
        self.nodeCount = nodeCount
    }

    /// - Parameter plan: the plan of the same model, from which this one differs in the keys of records alone.
    private init(keyedByNames plan: StagingPlan) {
        let model = plan.model.keyedByNames
        var nodeCount = 0
        entities = plan.entities.map { entity in
            let named = EntityPlan(keyedByNames: entity, firstNode: nodeCount, of: model)
            nodeCount += named.tree.nodes.count
            return named
        }
        unretainedEntities = entities.map { .passUnretained($0) }
        mappings = []
        linkKeys = LinkKeys(entities, [], of: model)
        (self.model, self.nodeCount, layout) = (plan.model, nodeCount, plan.layout)
        (ownerColumns, extraColumns, isBrief, hooks) = (plan.ownerColumns, plan.extraColumns, plan.isBrief, plan.hooks)
    }

    /// The plan by which a job's records with those names are staged.
    package func reading(_ names: FetchNames) -> StagingPlan {
        guard names == .local else { return self }
        return keyedByNames.withLock { made in
            let plan = made ?? StagingPlan(keyedByNames: self)
            made = plan
            return plan
        }
    }

    /// The attributes that objects of the entity have.
    package func attributes(of entity: Int) -> [Int] { entities[entity].ownColumns }

    /// The value that an insert gives a missing attribute; nil when it has no default.
    package func defaultCell(entity: Int, attribute: Int) -> Cell? {
        guard entities[entity].hierarchy == nil || entities[entity].ownColumns.contains(attribute) else { return nil }
        return entities[entity].attributes[attribute].converter.defaultCell?.cell
    }
}

/// Code of the embedding program that takes part in staging. Its arguments and results are JSON text.
///
/// Threads of the coordinator call it, several at once. It must not block, and must return equal results for equal
/// arguments: a job may be staged more than once.
package struct StagingHooks: Sendable {
    /// A chooser's decision on a record.
    package enum Choice: Sendable {
        /// The mapping of that index.
        case mapping(Int)
        /// The record is ignored.
        case decline
        /// The model decides.
        case asModelled
    }

    package typealias Chooser = @Sendable ([UInt8]) throws -> Choice
    /// - Returns: the record to stage instead; nil ignores the record.
    package typealias Rewriter = @Sendable ([UInt8]) throws -> [UInt8]?
    package typealias Validator = @Sendable ([UInt8]) throws -> Void
    package typealias Conversion = @Sendable ([UInt8]) throws -> [UInt8]

    /// By mapping index.
    package var choosers: [Int: Chooser] = [:]
    /// By entity index; an entity without one inherits that of its nearest ancestor.
    package var rewriters: [Int: Rewriter] = [:]
    package var validators: [Int: Validator] = [:]
    /// By entity index and attribute index.
    package var conversions: [Int: [Int: Conversion]] = [:]

    package init() {}

    /// Returns the hooks with those that entities inherit.
    func completed(for model: Model) -> StagingHooks {
        var hooks = self
        for index in model.entities.indices {
            for ancestor in model.ancestors(of: index) {
                if hooks.rewriters[index] == nil { hooks.rewriters[index] = rewriters[ancestor] }
                if hooks.validators[index] == nil { hooks.validators[index] = validators[ancestor] }
                hooks.conversions[index, default: [:]].merge(conversions[ancestor] ?? [:]) { own, _ in own }
            }
        }
        return hooks
    }
}

/// The keys of records at which a value may have consequences for very many objects: links of others end, owned objects are
/// deleted, or the positions of a list are looked at.
struct LinkKeys: Sendable {
    private var tree = KeyTree()
    /// By node of the tree, whether any value has consequences, and not only `null`.
    private var takesAnyValue: [Bool] = [false]
    /// The lengths, first and last bytes of the keys, mixed, as bits: most other keys differ in these already.
    private var marks: UInt64 = 0
    /// Any record may have such consequences: that of an entity with a tombstone, or one that is itself the value.
    private var matchesAll: Bool
    /// By entity, whether its records, or those nested in them, have such keys.
    private var haveKeys: [Bool]
    /// The consequences of a record may be undone because a rule of the model is broken at last.
    let mayFailLast: Bool

    init(_ entities: [EntityPlan], _ mappings: [MappingPlan], of model: Model) {
        matchesAll = entities.contains { $0.tombstone != nil && model.deletionReachesOthers($0.ownIndex) }
        mayFailLast = model.entities.indices.contains { index in
            let entity = model.entities[index]
            return entity.relationships.contains { $0.deleteRule == .deny }
                || model.holders.owners[index] != nil && !entity.unique.isEmpty
        }
        let records = mappings.compactMap { if case .record(let plan) = $0 { plan } else { nil } }
        haveKeys = entities.map { _ in false }
        for plan in entities + records {
            for relationship in plan.relationships {
                for node in relationship.nodes { add(plan.tree.nodes[node].key, of: relationship) }
                if relationship.mayReachOthers { haveKeys[plan.ownIndex] = true }
            }
        }
        tree.indexChildren()
        var isComplete = false
        while !isComplete {
            isComplete = true
            for plan in entities + records where !haveKeys[plan.ownIndex] {
                let nested = plan.relationships.flatMap { model.subentities(of: $0.destinationTable) }
                guard nested.contains(where: { haveKeys[$0] }) else { continue }
                (haveKeys[plan.ownIndex], isComplete) = (true, false)
            }
        }
    }

    private mutating func add(_ key: [UInt8], of plan: EntityPlan.RelationshipPlan) {
        let relationship = plan.relationship
        guard plan.mayReachOthers else { return }
        guard !key.isEmpty else { return matchesAll = true }
        let node = tree.claim([String(decoding: key, as: UTF8.self)])
        if node == takesAnyValue.count { takesAnyValue.append(false) }
        marks |= key.withUnsafeBufferPointer { Self.mark($0) }
        if !relationship.isToMany || relationship.assignment == .replace || relationship.isOrdered {
            takesAnyValue[node] = true
        }
    }

    private static func mark(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let first = key.first, let last = key.last else { return 0 }
        return 1 << UInt64((key.count &* 17 &+ Int(first) &* 5 &+ Int(last)) & 63)
    }

    /// Whether a record in the value, at any depth, may have such consequences.
    ///
    /// - Parameter entity: that of the records; nil where a mapping or a route decides it.
    func mayReachOthers(_ value: JSONValue, of entity: Int?) -> Bool {
        matchesAll || marks != 0 && entity.map { haveKeys[$0] } ?? true && contains(value)
    }

    private func contains(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .array: return value.elements.contains { contains($0) }
        case .object: return value.members.contains { isOne($0.key, $0.value) || contains($0.value) }
        default: return false
        }
    }

    private func isOne(_ key: JSONValue, _ value: JSONValue) -> Bool {
        guard marks & Self.mark(key.bytes) != 0, let node = tree.child(of: 0, key.bytes) else { return false }
        return takesAnyValue[node] || value.isNull
    }
}

/// The key paths of some routes as a tree: where in a payload the objects are, and which mapping reads them.
///
/// It is walked over the payload itself, in the order of the text, and copies nothing.
package final class RouteTree: Sendable {
    struct Target: Sendable {
        /// Nil for an error route.
        let mapping: Int?
        let parameters: PathParameters?
    }

    private let tree: KeyTree
    /// By node of the tree.
    private let targets: [Int: Target]

    /// - Parameter routes: in their order; of two with the same key path the first one counts.
    init(_ routes: [(keyPath: [String], target: Target)]) {
        var tree = KeyTree()
        targets = Dictionary(
            routes.map { (tree.claim($0.keyPath), $0.target) }, uniquingKeysWith: { first, _ in first })
        self.tree = tree
    }

    /// Upper bound in bytes on the memory of a route in a tree: its nodes, with room to grow, and its parameters.
    static func memory(_ keyPath: [String], _ parameters: PathParameters?) -> Int {
        let entry = MemoryLayout<(Int, Target)>.stride
        return keyPath.reduce((parameters?.memory ?? 0) + 2 * entry) {
            $0 + 2 * MemoryLayout<KeyTree.Node>.stride + 64 + $1.utf8.count
        }
    }

    private func hasChildren(_ node: Int) -> Bool { !tree.nodes[node].children.isEmpty }

    /// Returns the members of an object at the node's keys, in the order of the text. The last of duplicate keys wins.
    private func children(of node: Int, in object: JSONValue) -> [(node: Int, value: JSONValue)] {
        var found: [(node: Int, value: JSONValue)] = []
        for (key, value) in object.members {
            guard let child = tree.child(of: node, key.bytes) else { continue }
            found.removeAll { $0.node == child }
            found.append((child, value))
        }
        return found
    }

    /// Calls `body` with each value that a route leads to, in the order of the text, and with its route.
    func forEachPart<Failure: Error>(
        of payload: JSONValue, _ node: Int = 0, _ body: (JSONValue, Target) throws(Failure) -> Void
    ) throws(Failure) {
        switch payload.kind {
        case .array:
            for element in payload.elements { try forEachPart(of: element, node, body) }
        case .object:
            for (child, value) in children(of: node, in: payload) {
                if let target = targets[child], target.mapping != nil, !value.isNull { try body(value, target) }
                if hasChildren(child) { try forEachPart(of: value, child, body) }
            }
        default: break
        }
    }

    /// Returns the first value in the text at the end of a key path for which `isMeant` is true; nil when there is
    /// none. Searches the elements of arrays.
    func first(in payload: JSONValue, _ node: Int = 0, _ isMeant: (JSONValue) -> Bool) -> JSONValue? {
        switch payload.kind {
        case .array:
            for element in payload.elements {
                if let found = first(in: element, node, isMeant) { return found }
            }
        case .object:
            for (child, value) in children(of: node, in: payload) {
                if targets[child] != nil, isMeant(value) { return value }
                if hasChildren(child), let found = first(in: value, child, isMeant) { return found }
            }
        default: break
        }
        return nil
    }
}

/// The values of a route pattern's parameters in the path of a job. A record without a value of its own takes them.
///
/// Immutable; owns the text of its values.
package final class PathParameters: Sendable {
    private let document: JSONDocument
    private let names: [[UInt8]]
    /// Memory use in bytes.
    let memory: Int

    /// - Parameter values: few, in the order of the pattern.
    package init(_ values: [(name: String, value: String)]) {
        names = values.map { Array($0.name.utf8) }
        var writer = JSONWriter()
        writer.array(of: values) { $1.string($0.value) }
        do {
            document = try JSONDocument(parsing: JSONText(copying: writer.bytes))
        } catch {
            preconditionFailure("what was just written is JSON: \(error)")
        }
        memory = 256 + document.text.count + document.memory + names.reduce(0) { $0 + 48 + $1.count }
    }

    /// Returns the value of the parameter of that name; nil when there is none. Valid while this object lives.
    func value(of name: String) -> JSONValue? {
        guard let index = names.firstIndex(where: { $0.elementsEqual(name.utf8) }) else { return nil }
        var elements = document.root.elements
        for _ in 0..<index { _ = elements.next() }
        return elements.next()
    }
}
