internal import BrokerModel

/// The links of one relationship of one object.
struct LinkSet: Hashable {
    let object: AppliedObject
    let relationship: Int
}

/// A bare key of an object that did not exist when its record was applied.
struct PendingKey {
    let entity: EntityPlan
    /// The value of the identity.
    let key: OwnedCell
    let offset: Int
    /// The fault if the object does not exist at the end of the operation; nil ends no job.
    let fault: Fault?
}

/// Values of relationships with keys whose objects did not exist: they are looked up at the end of the operation.
struct PendingKeys {
    struct Value {
        let set: LinkSet
        /// The entity of the record that has the value.
        let source: Int
        let plan: EntityPlan.RelationshipPlan
        /// All elements of the value, in their order.
        let elements: [LinkedElement]
    }

    private enum Entry {
        case value(Value)
        /// A later value took the place of all earlier ones.
        case replaced(LinkSet)
    }

    private var entries: [Entry] = []

    mutating func add(
        _ set: LinkSet, _ plan: EntityPlan.RelationshipPlan, _ elements: [LinkedElement], of source: Int
    ) {
        entries.append(.value(Value(set: set, source: source, plan: plan, elements: elements)))
    }

    /// Notes that a value takes the place of all earlier ones.
    mutating func replace(_ set: LinkSet) {
        if !entries.isEmpty { entries.append(.replaced(set)) }
    }

    func mark() -> Int { entries.count }

    mutating func undo(to mark: Int) { entries.removeLast(entries.count - mark) }

    /// The values that count, in their order. None is left.
    mutating func takeAll() -> [Value] {
        guard !entries.isEmpty else { return [] }
        defer { entries = [] }
        var replaced: Set<LinkSet> = []
        var values: [Value] = []
        for entry in entries.reversed() {
            switch entry {
            case .value(let value): if !replaced.contains(value.set) { values.append(value) }
            case .replaced(let set): replaced.insert(set)
            }
        }
        return values.reversed()
    }
}
