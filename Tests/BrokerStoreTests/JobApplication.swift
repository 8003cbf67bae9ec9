/// A job as it is applied to an object graph, in the order and the words of `records.md`.
struct JobApplication {
    typealias Node = ObjectGraph.Node
    typealias Fault = JobReading.Fault

    /// A value of a relationship with bare keys that name no object yet.
    private struct WaitingValue {
        enum Element {
            case object(Node)
            case key(identity: [String], Fault)
        }

        let node: Node
        let relationship: RandomModel.Relationship
        let elements: [Element]
    }

    /// A value that only one object may have, and the record that brought it.
    private struct BroughtValue {
        let value: ObjectGraph.UniqueValue
        let node: Node
        let fault: Fault
    }

    /// The effect of a record or a key.
    private enum Result {
        case object(Node)
        /// A tombstone.
        case nothing
        /// The object of its identity, if there is one.
        case rejected(Node?)
        /// A key that names no object yet.
        case waiting(identity: [String], Fault)
    }

    private let model: RandomModel
    private let before: ObjectGraph
    private let skips: Bool
    var graph: ObjectGraph
    private(set) var rejections: [Fault] = []
    private var named: Set<Node> = []
    /// The names of the newest `sync`: identities, which may get an object later, and the objects of its records.
    private var syncNames: Set<ObjectGraph.Key> = []
    private var syncObjects: Set<Node> = []
    private var (waiting, brought): ([WaitingValue], [BroughtValue]) = ([], [])
    /// The objects whose records have values for relationships with link tables.
    private var speakers: Set<Node> = []

    init(_ job: RandomJob, to graph: ObjectGraph) throws(Fault) {
        model = graph.model
        before = graph
        skips = job.skips
        self.graph = graph
        self.graph.beginJob()
        let reading = JobReading(job, graph.model)
        if !skips, let fault = reading.faults.min(by: { $0.offset < $1.offset }) { throw fault }
        for (index, operation) in reading.operations.enumerated() {
            try judge(operation)
            try apply(operation)
            let isLast = index + 1 == reading.operations.count
            if !operation.isMerging || isLast || !reading.operations[index + 1].joinsStep { try settleKeys() }
            if case .sync(_, let condition) = operation.action { try deleteUnnamed(operation, condition) }
        }
        try judgeUniqueValues()
        rejections.sort { $0.offset < $1.offset }
    }

    // MARK: - Operations

    /// The job names the object.
    mutating func note(_ node: Node) { named.insert(node) }

    private mutating func apply(_ operation: JobReading.Operation) throws(Fault) {
        switch operation.action {
        case .process(let elements), .sync(let elements, _):
            (syncNames, syncObjects) = ([], [])
            for element in elements { _ = try take(element) }
        case .change(let key, let fault, let element):
            if !operation.changes.isEmpty {
                guard let node = try object(operation.entity, key) else { throw fault }
                try adjust(node, operation, fault)
            }
            guard let element else { return }
            guard let node = try object(operation.entity, key, mayBecome: true) else { return try reject(fault) }
            _ = try take(element, target: (node, fault))
        case .relate(let key, let fault, let value):
            guard let node = try object(operation.entity, key) else { return try reject(fault) }
            named.insert(node)
            if graph.hasLinkTable(value.relationship) { speakers.insert(node) }
            guard operation.links != .remove else { return remove(value, of: node) }
            try apply(value, of: node, fault)
        case .delete(let keys):
            var nodes: Set<Node> = []
            for key in keys { if let node = try object(operation.entity, key) { nodes.insert(node) } }
            try delete(nodes, operation)
        case .deleteMatching(let condition):
            try delete(Set(matching(operation.entity, condition)), operation)
        }
    }

    private func judge(_ operation: JobReading.Operation) throws(Fault) {
        guard let expectation = operation.expectation else { return }
        let node: Node?
        switch operation.action {
        case .change(let key, _, _), .relate(let key, _, _): node = try self.node(operation.entity, key)
        case .delete(let keys):
            node = try keys.first.flatMap { key throws(Fault) in try self.node(operation.entity, key) }
        case .process(let elements):
            guard case .record(let record)? = elements.first else { return }
            node = record.identity.flatMap { graph.nodes[graph.key(record.entity, $0)] }
        case .sync, .deleteMatching: return
        }
        let object = node.flatMap { graph.objects[$0] }
        let isThere = object.map { model.isKind($0.entity, of: operation.entity) } ?? false
        let isMet =
            switch expectation {
            case .absent: node == nil
            case .present: isThere
            case .matching(let condition): isThere && condition.isMet(object!.values)
            }
        guard isMet else {
            throw Fault(code: "conflict", path: "\(operation.path)/expect", offset: 0, entity: operation.entity)
        }
    }

    private mutating func delete(_ nodes: Set<Node>, _ operation: JobReading.Operation) throws(Fault) {
        guard graph.delete(nodes) else {
            throw Fault(code: "constraintViolation", path: operation.path, offset: 0, entity: operation.entity)
        }
    }

    private mutating func deleteUnnamed(
        _ operation: JobReading.Operation, _ condition: RandomJob.Condition?
    ) throws(Fault) {
        guard !rejections.contains(where: { $0.path.hasPrefix("\(operation.path)/") }) else { return }
        let spared = syncObjects.union(syncNames.compactMap { graph.nodes[$0] })
        try delete(Set(matching(operation.entity, condition)).subtracting(spared), operation)
    }

    /// The object that an operation names.
    ///
    /// - Parameter mayBecome: an object of an entity above is named, too, for it becomes one of the entity.
    private func object(_ entityName: String, _ key: String, mayBecome: Bool = false) throws(Fault) -> Node? {
        guard let node = try node(entityName, key) else { return nil }
        let own = graph.objects[node]!.entity
        let isFitting = model.isKind(own, of: entityName)
        return isFitting || mayBecome && !model.entity(entityName).isAbstract && model.isKind(entityName, of: own)
            ? node : nil
    }

    /// The object of the key, whichever entity of the hierarchy it is of.
    private func node(_ entityName: String, _ key: String) throws(Fault) -> Node? {
        let entity = model.entity(entityName)
        var node: Node?
        if entity.isNamedByRowKey {
            let all = graph.objects.filter { model.topmost($0.value.entity) == model.topmost(entityName) }
            node = all.first { $0.value.rowKey == key }?.key
            // The graph learns the keys of new objects after their job.
            if node == nil, all.contains(where: { $0.value.rowKey == nil }) { throw .unknownRowKey }
        } else {
            node = graph.nodes[graph.key(entityName, [entity.attribute(entity.identity[0]).type.stored(key)!])]
        }
        return node
    }

    private func matching(_ entity: String, _ condition: RandomJob.Condition?) -> [Node] {
        graph.objects.filter { model.isKind($0.value.entity, of: entity) && condition?.isMet($0.value.values) ?? true }
            .map(\.key)
    }

    // MARK: - Records

    private mutating func reject(_ fault: Fault) throws(Fault) {
        guard skips else { throw fault }
        rejections.append(fault)
    }

    /// "`skip`: the record is undone, with everything nested in it; its parent goes on without the link."
    private mutating func take(_ element: JobReading.Element, target: (Node, Fault)? = nil) throws(Fault) -> Result {
        switch element {
        case .fault(let fault):
            try reject(fault)
            return .rejected(nil)
        case .key(_, let path, _): preconditionFailure("A key has a relationship: \(path)")
        case .record(let record):
            let saved = self
            do throws(Fault) {
                if let fault = record.fault { throw fault }
                return try apply(record, target).map { .object($0) } ?? .nothing
            } catch {
                let listed = rejections
                self = saved
                rejections = listed
                try reject(error)
                return .rejected(record.identity.flatMap { graph.nodes[graph.key(record.entity, $0)] })
            }
        }
    }

    private mutating func apply(_ record: JobReading.Record, _ target: (node: Node, fault: Fault)?) throws(Fault)
        -> Node?
    {
        func fault(_ code: String) -> Fault {
            Fault(code: code, path: record.path, offset: record.offset, entity: record.entity)
        }
        let entity = model.entity(record.entity)
        let key = record.identity.map { graph.key(record.entity, $0) }
        if let key { syncNames.insert(key) }
        let known = target?.node ?? key.flatMap { graph.nodes[$0] }
        if let known { try check(known, entity, isTombstone: record.isTombstone, fault("constraintViolation")) }
        if let known, isOld(record, known) {
            named.insert(known)
            for value in record.relationships where !value.relationship.isOwned { try apply(value, of: nil, fault("")) }
            return known
        }
        if record.isTombstone {
            guard graph.delete(known.map { [$0] } ?? []) else {
                throw target?.fault.with(code: "constraintViolation") ?? fault("constraintViolation")
            }
            return nil
        }
        let valuesBefore = known.map { graph.uniqueValues(of: $0) } ?? []
        let node: Node
        if let known {
            node = known
            let own = graph.objects[node]!.entity
            turn(node, into: entity)
            if lacks(node, record, since: own) { throw fault("missingValue") }
            if let key, graph.nodes[key] != node {
                guard graph.nodes[key] == nil else {
                    var taken = target!.fault.with(code: "constraintViolation")
                    taken.entity = own
                    throw taken
                }
                graph.setIdentity(of: node, graph.entity(of: node).name, to: key.identity)
            }
        } else {
            guard !entity.isAbstract else { throw fault("unmappable") }
            node = graph.insert(entity, identity: key?.identity)
        }
        named.insert(node)
        syncObjects.insert(node)
        for (attribute, value) in record.values where !entity.identity.contains(attribute) {
            graph.set(attribute, of: node, to: value)
        }
        if graph.lacksRequired(node) { throw fault("missingValue") }
        let columns = Set(record.values.keys.map { model.column($0, of: graph.objects[node]!.entity) })
        let values = graph.uniqueValues(of: node)
            .filter { !valuesBefore.contains($0) || !columns.isDisjoint(with: $0.columns) }
        try bring(values, node, fault("constraintViolation"))
        var last: Node? = node
        for value in record.relationships where last != nil {
            last = try apply(value, of: last, fault("constraintViolation"), target == nil ? key : nil)
        }
        return last
    }

    /// "From another branch: `constraintViolation`."
    private func check(
        _ node: Node, _ entity: RandomModel.Entity, isTombstone: Bool, _ fault: Fault
    ) throws(Fault) {
        let own = graph.objects[node]!.entity
        if model.isKind(own, of: entity.name) { return }
        guard model.isKind(entity.name, of: own) else { throw fault }
        guard isTombstone || !entity.isAbstract else { throw fault.with(code: "unmappable") }
    }

    /// "In a hierarchy an object becomes of the record's entity if that is below its own."
    private mutating func turn(_ node: Node, into entity: RandomModel.Entity) {
        if !model.isKind(graph.objects[node]!.entity, of: entity.name) { graph.turn(node, into: entity) }
    }

    /// It has a value of `modified` that is not greater than its object's.
    private func isOld(_ record: JobReading.Record, _ node: Node) -> Bool {
        guard let new = (record.values["at"] ?? nil).flatMap({ Int($0) }),
            let old = graph.objects[node]!.values["at"].flatMap({ Int($0) })
        else { return false }
        return new <= old
    }

    // MARK: - Unique values

    /// "Under `skip` a record that brings a value which another object has at that moment is skipped."
    mutating func bring(_ values: Set<ObjectGraph.UniqueValue>, _ node: Node, _ fault: Fault) throws(Fault) {
        let fault = Fault(
            code: "constraintViolation", path: fault.path, offset: fault.offset, entity: graph.objects[node]!.entity)
        if skips, values.contains(where: { graph.isTaken($0, from: node) }) { throw fault }
        brought += values.map { BroughtValue(value: $0, node: node, fault: fault) }
    }

    /// "The job fails at the record that brought the value that is still taken."
    private func judgeUniqueValues() throws(Fault) {
        let taken = brought.filter { one in
            graph.uniqueValues(of: one.node).contains(one.value) && graph.isTaken(one.value, from: one.node)
        }
        guard var fault = taken.first?.fault else { return }
        let values = Set(taken.map(\.value))
        fault.others = Set(brought.filter { values.contains($0.value) }.map(\.fault.path))
        throw fault
    }

    // MARK: - Relationships

    /// - Parameter node: nil for those of a record that is not newer than its object: what is nested in it is applied.
    /// - Returns: the object that now has the identity.
    @discardableResult private mutating func apply(
        _ value: JobReading.Value, of node: Node?, _ fault: Fault, _ key: ObjectGraph.Key? = nil
    ) throws(Fault) -> Node? {
        let relationship = value.relationship
        let old = node.map { graph.destinations(relationship, of: $0) } ?? []
        if let node, graph.hasLinkTable(relationship) { speakers.insert(node) }
        let isSet = !relationship.isToMany || relationship.replaces || value.elements == nil
        var results: [Result] = []
        for element in value.elements ?? [] { results.append(try take(element, isLinked: node != nil, relationship)) }
        guard let node = node.flatMap({ graph.objects[$0] == nil ? key.flatMap { graph.nodes[$0] } : $0 }) else {
            return nil
        }
        var (linked, retained): ([Node], [Node]) = ([], [])
        var elements: [WaitingValue.Element] = []
        for result in results {
            switch result {
            case .object(let other):
                guard let object = graph.objects[other], model.isKind(object.entity, of: relationship.destination)
                else { continue }
                graph.link(relationship, from: node, to: other)
                if !linked.contains(other) { linked.append(other) }
                elements.append(.object(other))
            case .rejected(let other): if let other { retained.append(other) }
            case .waiting(let identity, let fault): elements.append(.key(identity: identity, fault))
            case .nothing: break
            }
        }
        if isSet, relationship.isToMany || value.elements == nil || relationship.isOwned && !linked.isEmpty {
            try end(relationship, of: node, old, except: linked + retained, fault)
        }
        if isSet { number(relationship, of: node, linked) }
        if isSet, relationship.isToMany || value.elements == nil || !elements.isEmpty {
            waiting.removeAll { $0.node == node && $0.relationship.name == relationship.name }
        }
        if elements.contains(where: { if case .key = $0 { true } else { false } }) {
            waiting.append(WaitingValue(node: node, relationship: relationship, elements: elements))
        }
        return node
    }

    private mutating func end(
        _ relationship: RandomModel.Relationship, of node: Node, _ old: [Node], except spared: [Node], _ fault: Fault
    ) throws(Fault) {
        let all = old + graph.destinations(relationship, of: node)
        let ending = Set(all).subtracting(spared).filter { graph.objects[$0] != nil }
        guard !ending.isEmpty else { return }
        if relationship.isOwned {
            guard graph.delete(ending) else { throw fault }
        } else {
            for other in ending { graph.unlink(relationship, node, other) }
        }
    }

    /// Positions from 0; a skipped element that stays linked keeps its own.
    private mutating func number(_ relationship: RandomModel.Relationship, of node: Node, _ linked: [Node]) {
        guard relationship.isOrdered else { return }
        let all = graph.destinations(relationship, of: node)
        var taken = Set(all.filter { !linked.contains($0) }.map { graph.position(relationship, node, $0)! })
        for (index, other) in linked.enumerated() where !linked[..<index].contains(other) {
            guard graph.position(relationship, node, other) != nil else { continue }
            let position = (0...).first { !taken.contains($0) }!
            taken.insert(position)
            graph.link(relationship, from: node, to: other, at: position)
        }
    }

    private mutating func take(
        _ element: JobReading.Element, isLinked: Bool, _ relationship: RandomModel.Relationship
    ) throws(Fault) -> Result {
        guard case .key(let identity, let path, let offset) = element else { return try take(element) }
        let fault = Fault(code: "", path: path, offset: offset, entity: relationship.destination)
        syncNames.insert(graph.key(relationship.destination, identity))
        guard isLinked else { return .nothing }
        let saved = self
        do throws(Fault) {
            if let other = try object(identity, relationship, fault) { return .object(other) }
        } catch {
            self = saved
            try reject(error)
            return .rejected(graph.nodes[graph.key(relationship.destination, identity)])
        }
        self = saved
        return .waiting(identity: identity, fault)
    }

    // MARK: - Bare keys

    /// The object of a bare key, which may be a stub; nil if there is none yet.
    private mutating func object(
        _ identity: [String], _ relationship: RandomModel.Relationship, _ fault: Fault
    ) throws(Fault) -> Node? {
        let entity = model.entity(relationship.destination)
        let key = graph.key(entity.name, identity)
        let known = graph.nodes[key]
        if let known, model.isKind(graph.objects[known]!.entity, of: entity.name) {
            named.insert(known)
            return known
        }
        guard relationship.missing == .stub, !entity.isAbstract else { return nil }
        let fault = fault.with(code: "constraintViolation")
        let values = known.map { graph.uniqueValues(of: $0) } ?? []
        if let known {
            try check(known, entity, isTombstone: false, fault)
            turn(known, into: entity)
        }
        let node = known ?? graph.insert(entity, identity: key.identity)
        if graph.lacksRequired(node) { return nil }
        try bring(graph.uniqueValues(of: node).subtracting(values), node, fault)
        named.insert(node)
        return node
    }

    /// "It is looked up when the operation has been applied. What is still missing is `objectNotFound`, or no link."
    private mutating func settleKeys() throws(Fault) {
        let values = waiting
        waiting = []
        for value in values where graph.objects[value.node] != nil {
            var all: [Node] = []
            let relationship = value.relationship
            for element in value.elements {
                switch element {
                case .object(let node): all.append(node)
                case .key(let identity, let fault):
                    guard let other = try settle(identity, relationship, fault) else { continue }
                    all.append(other)
                    graph.link(relationship, from: value.node, to: other)
                }
            }
            if relationship.replaces { number(relationship, of: value.node, all) }
        }
    }

    private mutating func settle(
        _ identity: [String], _ relationship: RandomModel.Relationship, _ fault: Fault
    ) throws(Fault) -> Node? {
        let node = graph.nodes[graph.key(relationship.destination, identity)]
        if let node, model.isKind(graph.objects[node]!.entity, of: relationship.destination) {
            named.insert(node)
            return node
        }
        if relationship.missing != .ignore {
            let makes = relationship.missing == .stub && !model.entity(relationship.destination).isAbstract
            try reject(fault.with(code: makes ? "missingValue" : "objectNotFound"))
        }
        return nil
    }

    // MARK: - What became of it

    /// "The object at the end beside the object before the job."
    ///
    /// - Parameter graph: after the job, with the row keys of new objects.
    func effect(_ graph: ObjectGraph) -> Effect {
        var counts: [String: [Int]] = [:]
        var effect = Effect()
        func count(_ entity: String, _ place: Int, _ key: String? = nil) {
            counts[entity, default: [0, 0, 0, 0, 0]][place] += 1
            guard let key else { return }
            effect.keys[["inserted", "updated", "", "deleted"][place], default: [:]][entity, default: []].append(key)
        }
        for (node, object) in graph.objects {
            guard let old = before.objects[node] else {
                count(object.entity, 0, graph.json(keyOf: node))
                continue
            }
            let isUpdated = old.entity != object.entity || before.row(node) != graph.row(node) || hasOtherLinks(node)
            if isUpdated {
                count(object.entity, 1, graph.json(keyOf: node))
            } else if named.contains(node) {
                count(object.entity, 2)
            }
        }
        for (node, object) in before.objects where graph.objects[node] == nil {
            count(object.entity, 3, graph.lastKeys[node])
        }
        for fault in rejections {
            count(fault.entity, 4)
            effect.rejections.append("\(fault.code) \(fault.path)")
        }
        effect.changes = counts.mapValues { zip("+~=-!", $0).map { "\($0)\($1)" }.joined(separator: " ") }
        return effect
    }

    /// One of its records has a value for a relationship with a link table, and other links are there.
    private func hasOtherLinks(_ node: Node) -> Bool {
        guard speakers.contains(node) else { return false }
        return graph.entity(of: node).relationships.contains { relationship in
            guard graph.hasLinkTable(relationship) else { return false }
            let (old, new) = (before.links(relationship, of: node), graph.links(relationship, of: node))
            // Another object may have the key of a former one.
            return old != new && before.keys(old) != graph.keys(new)
        }
    }
}

extension JobReading.Fault {
    /// An operation may name an object of its own job.
    static let unknownRowKey = Self(code: "unknown", path: "", offset: 0)

    fileprivate func with(code: String) -> Self { Self(code: code, path: path, offset: offset, entity: entity) }
}

/// A job's operations as they are read, without the store: records with their values and faults.
///
/// "Every record of the job is read and converted alone. A fault here is one of the record itself."
struct JobReading {
    struct Fault: Error {
        var code: String
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
        case change(key: String, at: Fault, Element?)
        case relate(key: String, at: Fault, Value)
        case sync([Element], RandomJob.Condition?)
        case delete(keys: [String])
        case deleteMatching(RandomJob.Condition)
    }

    struct Operation {
        let entity: String
        let action: Action
        let path: String
        let expectation: RandomJob.Expectation?
        let changes: [RandomJob.Change]
        let links: RandomJob.Links?
        /// One step with the one before.
        var joinsStep: Bool { isMerging && expectation == nil }
        /// One step with others.
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
                Operation(
                    entity: operation.entity, action: read(operation, tree, "/\(number)"), path: "/\(number)",
                    expectation: operation.expectation, changes: operation.changes, links: operation.links))
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
            let record = tree["json"].map {
                self.record($0, entity.name, "\(path)/json", isTarget: true, target: identity(key, entity))
            }
            return .change(key: key, at: object, record)
        case .relate(let key, let name, _):
            let entity = model.entity(operation.entity)
            let owner = Owner(entity, identity(key, entity))
            var relationship = entity.relationship(name)
            if let links = operation.links { relationship.replaces = links == .replace }
            let value =
                operation.links == .remove
                ? removed(tree["json"]!, relationship, "\(path)/json")
                : value(tree["json"]!, relationship, "\(path)/json", owner)
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

    mutating func note(_ fault: Fault) -> Fault {
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
        // An owned object may have its identity from its place alone.
        var record = Record(path: path, offset: json.offset, entity: entity.name)
        _ = readValues(json, entity, owner, &record)
        record.fault = note(Fault(code: code, path: path, offset: json.offset, entity: entity.name))
        return .record(record)
    }
}

extension JobReading.Owner {
    fileprivate init(_ entity: RandomModel.Entity, _ identity: [String]?) {
        self.init(identity: Dictionary(uniqueKeysWithValues: zip(entity.identity, identity ?? [])))
    }
}
