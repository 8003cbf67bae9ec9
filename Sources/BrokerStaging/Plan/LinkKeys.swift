internal import BrokerJSON
internal import BrokerModel

/// The keys of records at which a value may have consequences for very many objects: links of others end, owned objects are
/// deleted, or the positions of a list are looked at.
struct LinkKeys: Sendable {
    private var tree = KeyTree()
    /// By node of the tree, whether any value has consequences, and not only `null`.
    private var takesAnyValue: [Bool] = [false]
    /// Lengths of the keys, as bits: most other keys differ in their length already.
    private var lengths: UInt64 = 0
    /// Any record may have such consequences: that of an entity with a tombstone, or one that is itself the value.
    private var matchesAll: Bool
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
        for plan in entities + records {
            for relationship in plan.relationships {
                for node in relationship.nodes { add(plan.tree.nodes[node].key, of: relationship) }
            }
        }
        tree.indexChildren()
    }

    private mutating func add(_ key: [UInt8], of plan: EntityPlan.RelationshipPlan) {
        let relationship = plan.relationship
        guard plan.mayReachOthers else { return }
        guard !key.isEmpty else { return matchesAll = true }
        let node = tree.claim([String(decoding: key, as: UTF8.self)])
        if node == takesAnyValue.count { takesAnyValue.append(false) }
        lengths |= Self.bit(key.count)
        if !relationship.isToMany || relationship.assignment == .replace || relationship.isOrdered {
            takesAnyValue[node] = true
        }
    }

    private static func bit(_ length: Int) -> UInt64 { 1 << UInt64(min(length, 63)) }

    /// Whether a record in the value, at any depth, may have such consequences.
    func mayReachOthers(_ value: JSONValue) -> Bool { matchesAll || lengths != 0 && contains(value) }

    private func contains(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .array: return value.elements.contains { contains($0) }
        case .object: return value.members.contains { isOne($0.key, $0.value) || contains($0.value) }
        default: return false
        }
    }

    private func isOne(_ key: JSONValue, _ value: JSONValue) -> Bool {
        guard lengths & Self.bit(key.bytes.count) != 0, let node = tree.child(of: 0, key.bytes) else { return false }
        return takesAnyValue[node] || value.isNull
    }
}
