internal import BrokerJSON
internal import BrokerModel

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
        var value = record
        for name in key {
            guard let next = value[name] else { return nil }
            value = next
        }
        return value.isNull ? nil : value
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
