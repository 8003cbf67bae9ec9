/// A job's operations as they are read, without the store: records with their values and faults.
///
/// "Every record of the job is read and converted alone. A fault here is one of the record itself."
struct JobReading {
    struct Fault: Error {
        let code: String
        let path: String
        let offset: Int
        var entity = ""
        /// The paths of other records that brought the same unique value.
        var others: Set<String> = []
    }

    struct Record {
        let path: String
        let offset: Int
        let entity: String
        /// Nil: a new object, or none at all because of a fault.
        var identity: [String]?
        /// Nil clears.
        var values: [String: String?] = [:]
        /// In the order of their keys.
        var relationships: [Value] = []
        var isTombstone = false
        /// The first in its text.
        var fault: Fault?
    }

    /// A record's value for one relationship; nil is `null`.
    struct Value {
        let relationship: RandomModel.Relationship
        let elements: [Element]?
    }

    enum Element {
        case record(Record)
        case key(identity: [String], path: String, offset: Int)
        case fault(Fault)
    }

    enum Action {
        case process([Element])
        case change(key: String, at: Fault, Element)
        case relate(key: String, at: Fault, Value)
        case sync([Element], RandomJob.Condition?)
        case delete(keys: [String])
        case deleteMatching(RandomJob.Condition)
    }

    struct Operation {
        let entity: String
        let action: Action
        let path: String
        /// One step with the one before.
        var isMerging: Bool {
            switch action {
            case .process: true
            case .change, .relate, .sync, .delete, .deleteMatching: false
            }
        }
    }

    /// The identity of a record, as what is nested in it sees it, and the position there.
    fileprivate struct Owner {
        let identity: [String: String]
        var index = 0
    }

    let model: RandomModel
    private(set) var operations: [Operation] = []
    /// In the order in which they were found.
    private(set) var faults: [Fault] = []

    init(_ job: RandomJob, _ model: RandomModel) {
        self.model = model
        var text = ""
        guard case .array(let trees) = PlacedTree(job.tree, writing: &text).form else { return }
        for (number, (operation, tree)) in zip(job.operations, trees).enumerated() {
            operations.append(
                Operation(entity: operation.entity, action: read(operation, tree, "/\(number)"), path: "/\(number)"))
        }
    }

    private mutating func read(_ operation: RandomJob.Operation, _ tree: PlacedTree, _ path: String) -> Action {
        let object = Fault(
            code: "objectNotFound", path: "\(path)/object", offset: tree["object"]?.offset ?? 0,
            entity: operation.entity)
        switch operation.action {
        case .process: return .process(records(tree["json"]!, operation.entity, "\(path)/json"))
        case .sync(_, let condition):
            return .sync(records(tree["json"]!, operation.entity, "\(path)/json"), condition)
        case .change(let key, _):
            let entity = model.entity(operation.entity)
            let record = record(
                tree["json"]!, entity.name, "\(path)/json", isTarget: true, target: identity(key, entity))
            return .change(key: key, at: object, record)
        case .relate(let key, let name, _):
            let entity = model.entity(operation.entity)
            let owner = Owner(entity, identity(key, entity))
            let value = value(tree["json"]!, entity.relationship(name), "\(path)/json", owner)
            return .relate(key: key, at: object, value)
        case .delete(let keys): return .delete(keys: keys)
        case .deleteMatching(let condition): return .deleteMatching(condition)
        }
    }

    private func identity(_ key: String, _ entity: RandomModel.Entity) -> [String]? {
        entity.isNamedByRowKey ? nil : [entity.attribute(entity.identity[0]).type.stored(key)!]
    }

    private mutating func records(_ tree: PlacedTree, _ entity: String, _ path: String) -> [Element] {
        guard case .array(let elements) = tree.form else { return [record(tree, entity, path)] }
        return elements.enumerated().map { record($1, entity, "\(path)/\($0)") }
    }

    // MARK: - Records

    /// - Parameters:
    ///   - owner: the identity of the record around it, and its position there.
    ///   - target: the identity of the operation's object, which the record has if it names none.
    private mutating func record(
        _ tree: PlacedTree, _ entityName: String, _ path: String, owner: Owner? = nil, isTarget: Bool = false,
        target: [String]? = nil
    ) -> Element {
        let entity = model.entity(entityName)
        guard case .object = tree.form else {
            return .fault(note(Fault(code: "invalidValue", path: path, offset: tree.offset, entity: entityName)))
        }
        var record = Record(path: path, offset: tree.offset, entity: entityName)
        let found = readValues(tree, entity, owner, &record)
        var faults = found.faults
        if record.identity == nil, let target { record.identity = target }
        if record.identity == nil, entity.needsIdentity, found.lacksIdentity {
            faults.append((Fault(code: "missingIdentity", path: path, offset: tree.offset, entity: entityName), true))
        }
        if faults.isEmpty, record.identity == nil, entity.isAbstract, target == nil, !isTarget {
            faults.append((Fault(code: "unmappable", path: path, offset: tree.offset, entity: entityName), false))
        }
        if faults.isEmpty, case .object(let members) = tree.form, !members.isEmpty,
            !members.contains(where: { entity.isKnown(key: $0.key) })
        {
            faults.append((Fault(code: "noKnownKey", path: path, offset: tree.offset, entity: entityName), false))
        }
        record.isTombstone = entity.hasTombstone && record.values["gone"] == .some("1")
        if record.isTombstone { faults.removeAll { !$0.isOfIdentity } }
        if let fault = faults.map(\.fault).min(by: { $0.offset < $1.offset }) {
            record.fault = note(fault)
        }
        if record.isTombstone { return .record(record) }
        let values = entity.relationships.compactMap { relationship in
            tree[relationship.name].map { (relationship, $0) }
        }
        for (relationship, json) in values.sorted(by: { $0.1.offset < $1.1.offset }) {
            // Whose they are is not known.
            if relationship.isOwned, record.fault != nil, record.identity == nil { continue }
            let owner = Owner(entity, record.identity)
            record.relationships.append(value(json, relationship, "\(path)/\(relationship.name)", owner))
        }
        return .record(record)
    }

    private mutating func note(_ fault: Fault) -> Fault {
        faults.append(fault)
        return fault
    }

    private func readValues(
        _ tree: PlacedTree, _ entity: RandomModel.Entity, _ owner: Owner?,
        _ record: inout Record
    ) -> (faults: [(fault: Fault, isOfIdentity: Bool)], lacksIdentity: Bool) {
        var faults: [(fault: Fault, isOfIdentity: Bool)] = []
        for attribute in entity.attributes {
            let isIdentity = entity.identity.contains(attribute.name)
            switch attribute.source {
            case .owner(let name): if let value = owner?.identity[name] { record.values[attribute.name] = value }
            case .index: if let owner { record.values[attribute.name] = "\(owner.index)" }
            case .key:
                guard let (json, path) = json(attribute, tree, record.path) else { continue }
                switch convert(json, attribute) {
                case .value(let value): record.values[attribute.name] = .some(value)
                case .missing: break
                case .null where attribute.isRequired:
                    faults.append(
                        (Fault(code: "missingValue", path: path, offset: json.offset, entity: entity.name), false))
                case .null: if !isIdentity { record.values[attribute.name] = .some(nil) }
                case .fault(let code):
                    faults.append((Fault(code: code, path: path, offset: json.offset, entity: entity.name), isIdentity))
                }
            }
        }
        let identity = entity.identity.compactMap { record.values[$0] ?? nil }
        if identity.count == entity.identity.count, !identity.isEmpty { record.identity = identity }
        let wrongParts = faults.filter(\.isOfIdentity).count
        return (faults, identity.count + wrongParts < entity.identity.count)
    }

    /// The most preferred value that is not null, else a null that was there.
    private func json(
        _ attribute: RandomModel.Attribute, _ record: PlacedTree, _ path: String
    ) -> (PlacedTree, path: String)? {
        var found = record[attribute.name].map { ($0, "\(path)/\(attribute.name)") }
        guard attribute.hasFallback, found?.0.isNull ?? true, let around = record["\(attribute.name)Of"] else {
            return found
        }
        // A null in the place of an object clears what is below it.
        if around.isNull, found == nil { found = (around, "\(path)/\(attribute.name)Of") }
        if let below = around["it"], found == nil || !below.isNull { found = (below, "\(path)/\(attribute.name)Of/it") }
        return found
    }

    // MARK: - Values

    private enum Conversion {
        case value(String), null, missing
        case fault(code: String)
    }

    private func convert(_ json: PlacedTree, _ attribute: RandomModel.Attribute) -> Conversion {
        if json.isNull { return .null }
        let conversion = convertUnforgiven(json, attribute)
        guard case .fault = conversion else { return conversion }
        switch attribute.onInvalid {
        case "skip": return .missing
        case "null": return .null
        default: return conversion
        }
    }

    private func convertUnforgiven(_ json: PlacedTree, _ attribute: RandomModel.Attribute) -> Conversion {
        guard case .literal(let literal) = json.form else { return .fault(code: "invalidValue") }
        if ["mark", "at"].contains(attribute.name) { return .value(literal) }
        guard let stored = attribute.type.stored(literal) else { return .fault(code: "invalidValue") }
        return attribute.limit?.allows(stored) ?? true ? .value(stored) : .fault(code: "validationFailed")
    }

    // MARK: - Relationships

    private mutating func value(
        _ json: PlacedTree, _ relationship: RandomModel.Relationship, _ path: String, _ owner: Owner
    ) -> Value {
        if json.isNull { return Value(relationship: relationship, elements: nil) }
        guard relationship.isToMany, case .array(let array) = json.form else {
            return Value(relationship: relationship, elements: [element(json, relationship, path, owner)])
        }
        return Value(
            relationship: relationship,
            elements: array.enumerated().map { index, json in
                element(json, relationship, "\(path)/\(index)", Owner(identity: owner.identity, index: index))
            })
    }

    private mutating func element(
        _ json: PlacedTree, _ relationship: RandomModel.Relationship, _ path: String,
        _ owner: Owner
    ) -> Element {
        let entity = model.entity(relationship.destination)
        if case .object = json.form { return record(json, entity.name, path, owner: owner) }
        // Null among the elements of an array is no key of anything; an entity without a single identity has no bare keys.
        var code = "invalidValue"
        if !json.isNull, entity.identity.count == 1, !entity.isOwned {
            switch convertUnforgiven(json, entity.attribute(entity.identity[0])) {
            case .value(let value): return .key(identity: [value], path: path, offset: json.offset)
            case .fault(let other): code = other
            case .null, .missing: break
            }
        }
        return .fault(note(Fault(code: code, path: path, offset: json.offset, entity: entity.name)))
    }
}

extension JobReading.Owner {
    fileprivate init(_ entity: RandomModel.Entity, _ identity: [String]?) {
        self.init(identity: Dictionary(uniqueKeysWithValues: zip(entity.identity, identity ?? [])))
    }
}
