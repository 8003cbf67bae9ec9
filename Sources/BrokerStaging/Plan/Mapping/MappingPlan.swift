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

/// A record, with the plan that reads it.
struct MappedRecord {
    let value: JSONValue
    let entity: EntityPlan
    /// The dictionary key of the record, where that key is one of its values.
    var nestedKey: JSONValue?
}

extension StagingContext {
    /// Returns the plan that reads a value; a `select` chooses it by the value.
    ///
    /// - Returns: nil for a record that the mapping declines.
    /// - Throws: `unmappable` when no case fits and the mapping has no `otherwise`.
    mutating func plan(of mapping: Int, for value: JSONValue) throws(StagingFault) -> EntityPlan? {
        var mapping = mapping
        var choices = 0
        while true {
            // The model's mappings always end in a record; a hook may send the value around a circle.
            let chosen = choices < plan.mappings.count ? try chosen(by: mapping, for: value) : nil
            choices += 1
            switch chosen {
            case .mapping(let other)? where other != mapping:
                mapping = other
                continue
            case .decline?: return nil
            default: break
            }
            switch plan.mappings[mapping] {
            case .record(let entity): return entity
            case .select(let select):
                let selector = select.value(in: value)
                if let chosen = selector.flatMap(select.mapping) {
                    mapping = chosen
                    continue
                }
                switch select.otherwise {
                case .mapping(let other): mapping = other
                case .decline: return nil
                case .refuse: throw refusal(of: select, value, selector)
                }
            }
        }
    }

    private func refusal(of select: SelectPlan, _ value: JSONValue, _ selector: JSONValue?) -> StagingFault {
        let key = "\"\(select.key.joined(separator: "."))\""
        let saw =
            switch selector?.kind {
            case nil where value.kind != .object: "This is \(value.kind.phrase) and no record"
            case nil: "The record has no value at \(key)"
            case .object, .array: "\(key) is \(selector!.kind.phrase)"
            default: "\(key) is \(selector!.quotedBriefly)"
            }
        let message =
            "\(saw), by which the mapping \"\(select.name)\" chooses; its cases are \(select.summary). Send one of those, or "
            + "give the mapping an \"otherwise\" (null declines such records)."
        return .invalid(Fault(.unmappable, rejections.isListing ? message : ""), offset: textOffset(of: value))
    }
}
