extension OperationGraph {
    enum Expectation {
        /// Code and path.
        case failed(String)
        case completed(Effect)
        /// It names by a `_pk` what it may have made itself, and the contract does not say which numbers those get.
        case unknown
    }

    /// By entity, what became of which object.
    struct Effect {
        struct Keys {
            var inserted: [String] = []
            var updated: [String] = []
            /// A link of theirs went and came again, or came and went: the contract leaves open whether that changes them.
            var perhapsUpdated: [String] = []
            var unchanged: [String] = []
            var deleted: [String] = []
        }

        var keys: [String: Keys] = [:]
    }

    /// What is kept in mind from a job's beginning to its end.
    private struct Job {
        var touched: Set<Node> = []
        /// Links in link tables that an object's own record changed.
        var changedLinks: [Node: Set<Link>] = [:]
        /// Objects that are gone, by the key that they had: who comes again with it is the same one.
        var gone: [String: [[String]: Node]] = [:]
        var lastKeys: [Node: [String]] = [:]
    }

    private struct Failure: Error { let code: String }

    /// Applies a job, whole or not at all.
    mutating func apply(_ operations: [RandomOperation]) -> Expectation {
        var graph = self
        var job = Job()
        for (index, operation) in operations.enumerated() {
            guard !graph.isUnknown(operation) else { return .unknown }
            do throws(Failure) {
                try graph.apply(operation, &job)
            } catch {
                return .failed(error.code.replacing("OP", with: "/operations/\(index)"))
            }
        }
        let effect = graph.effect(job, since: self)
        self = graph
        return .completed(effect)
    }

    private func isUnknown(_ operation: RandomOperation) -> Bool {
        guard operation.entity.identity.isEmpty, nodes(operation.entity).contains(where: { objects[$0]!.rowKey == nil })
        else { return false }
        return switch operation.action {
        case .process(let object?), .relate(let object): find(operation.entity, object) == nil
        case .delete(let keys): keys.contains { find(operation.entity, $0) == nil }
        default: false
        }
    }

    private mutating func apply(_ operation: RandomOperation, _ job: inout Job) throws(Failure) {
        let entity = operation.entity
        switch operation.action {
        case .process(nil): process(operation.records, nil, &job)
        case .process(let object?):
            let subject = try settle(entity, object, operation.records[0].identity)
            process(operation.records, subject, &job)
        case .relate(let object):
            let subject = try settle(entity, object, nil)
            process(operation.records, subject, &job)
        case .delete(let keys): try delete(Set(keys.compactMap { find(entity, $0) }), &job)
        case .deleteMatching(let condition):
            try delete(Set(nodes(entity).filter { matches(condition, $0) }), &job)
        case .sync(let condition, let deletes, let part):
            try sync(operation, condition, deletes: deletes, part, &job)
        }
    }

    private mutating func sync(
        _ operation: RandomOperation, _ condition: GraphCondition?, deletes: Bool,
        _ part: (id: String, isLast: Bool)?, _ job: inout Job
    ) throws(Failure) {
        let definition = operation.entity.name + (condition?.json ?? "")
        var known = part.flatMap { parts[$0.id] } ?? Part(definition: definition)
        guard known.definition == definition else { throw Failure(code: "idConflict OP/part") }
        let named = process(operation.records, nil, &job).filter { objects[$0]!.entity.name == operation.entity.name }
        known.named.formUnion(named.map(key))
        if let part { parts[part.id] = part.isLast ? nil : known }
        guard deletes, part?.isLast ?? true else { return }
        let unnamed = nodes(operation.entity).filter { !known.named.contains(key($0)) && matches(condition, $0) }
        try delete(Set(unnamed), &job)
    }

    // MARK: - Records

    /// What the text names, in the order in which it does: a record, or a bare key.
    private struct Name {
        let entity: GraphModel.Entity
        let identity: [String]?
        var values: [(attribute: String, value: String?)] = []
        var words: [(relationship: GraphModel.Relationship, elements: [Int]?)] = []
    }

    private func read(_ record: GraphRecord, _ names: inout [Name]) -> Int {
        let place = names.count
        names.append(Name(entity: record.entity, identity: record.identity, values: record.values))
        for (relationship, value) in record.links {
            let elements = read(value, &names)
            names[place].words.append((relationship, elements))
        }
        return place
    }

    /// - Returns: the places of a value's elements; nil for null.
    private func read(_ value: GraphValue, _ names: inout [Name]) -> [Int]? {
        switch value {
        case .null: return nil
        case .record(let record): return [read(record, &names)]
        case .key(let entity, let key):
            names.append(Name(entity: entity, identity: key))
            return [names.count - 1]
        case .list(let values):
            var places: [Int] = []
            for value in values { places += read(value, &names) ?? [] }
            return places
        }
    }

    /// - Returns: the objects that the records name, at any depth.
    @discardableResult
    private mutating func process(_ records: [GraphRecord], _ subject: Node?, _ job: inout Job) -> Set<Node> {
        var names: [Name] = []
        for record in records { _ = read(record, &names) }
        var nodes: [Node] = []
        for (place, name) in names.enumerated() {
            nodes.append(place == 0 ? subject ?? findOrMake(name, &job) : findOrMake(name, &job))
        }
        let before = links
        var united: [Node: [String: Set<Node>]] = [:]
        for (name, node) in zip(names, nodes) {
            for (attribute, value) in name.values { objects[node]!.values[attribute] = value }
            for (relationship, elements) in name.words {
                say(relationship, elements?.map { nodes[$0] }, of: node, &united)
            }
        }
        for (name, node) in zip(names, nodes) {
            for (relationship, elements) in name.words where relationship.hasLinkTable {
                let named = Set((elements ?? []).map { link(relationship, node, nodes[$0]) })
                var changed = links.subtracting(before).intersection(named)
                if elements == nil || relationship.replaces {
                    let reading = Set(linkSet(relationship, of: node))
                    changed.formUnion(before.filter { isOf($0, relationship, node) }.subtracting(reading))
                }
                job.changedLinks[node, default: []].formUnion(changed)
            }
        }
        job.touched.formUnion(nodes)
        return Set(nodes)
    }

    private mutating func findOrMake(_ name: Name, _ job: inout Job) -> Node {
        guard let identity = name.identity else { return make(name.entity, newNode()) }
        if let known = find(name.entity, identity) { return known }
        let node = make(name.entity, job.gone[name.entity.name]?.removeValue(forKey: identity) ?? newNode())
        set(identity, of: node)
        return node
    }

    private mutating func make(_ entity: GraphModel.Entity, _ node: Node) -> Node {
        objects[node] = Object(entity: entity)
        return node
    }

    private mutating func set(_ identity: [String], of node: Node) {
        for (attribute, value) in zip(objects[node]!.entity.identity, identity) {
            objects[node]!.values[attribute] = value
        }
    }

    private mutating func say(
        _ relationship: GraphModel.Relationship, _ said: [Node]?, of node: Node,
        _ united: inout [Node: [String: Set<Node>]]
    ) {
        guard let said else {
            links.subtract(linkSet(relationship, of: node))
            united[node, default: [:]][relationship.name] = []
            return
        }
        // A link that the other side's record says is one of the operation's set, too; the contract does not say.
        if let name = relationship.inverse {
            for other in said where objects[other]!.entity.relationship(name).replaces {
                united[other, default: [:]][name, default: []].insert(node)
            }
        }
        if relationship.replaces {
            united[node, default: [:]][relationship.name, default: []].formUnion(said)
            let kept = united[node]![relationship.name]!
            for other in destinations(relationship, of: node) where !kept.contains(other) {
                links.remove(link(relationship, node, other))
            }
        }
        for other in said { insert(relationship, from: node, to: other) }
    }

    private func isOf(_ link: Link, _ relationship: GraphModel.Relationship, _ node: Node) -> Bool {
        [link.from, link.to].contains { $0 != node && self.link(relationship, node, $0) == link }
    }

    /// The object that an operation names; it gets the identity that the record brings.
    private mutating func settle(
        _ entity: GraphModel.Entity, _ object: [String], _ identity: [String]?
    ) throws(Failure) -> Node {
        guard let node = find(entity, object) else { throw Failure(code: "objectNotFound OP/object") }
        guard let identity, identity != object else { return node }
        guard find(entity, identity) == nil else { throw Failure(code: "constraintViolation OP/object") }
        set(identity, of: node)
        return node
    }

    // MARK: - Deleting

    private mutating func delete(_ seeds: Set<Node>, _ job: inout Job) throws(Failure) {
        var doomed = seeds
        var new = seeds
        while !new.isEmpty {
            new = Set(new.flatMap { linked($0, by: "cascade") }).subtracting(doomed)
            doomed.formUnion(new)
        }
        guard doomed.allSatisfy({ linked($0, by: "deny").isSubset(of: doomed) }) else {
            throw Failure(code: "constraintViolation OP")
        }
        for node in doomed {
            let key = key(node)
            job.lastKeys[node] = key
            job.gone[objects[node]!.entity.name, default: [:]][key] = node
        }
        for node in doomed { objects[node] = nil }
        links = links.filter { !doomed.contains($0.from) && !doomed.contains($0.to) }
    }

    private func linked(_ node: Node, by rule: String) -> Set<Node> {
        Set(objects[node]!.entity.relationships.filter { $0.rule == rule }.flatMap { destinations($0, of: node) })
    }

    private func matches(_ condition: GraphCondition?, _ node: Node) -> Bool {
        guard let condition else { return true }
        var last: Node? = node
        for name in condition.path.dropLast() {
            last = last.flatMap { destinations(objects[$0]!.entity.relationship(name), of: $0).first }
        }
        let value = last.flatMap { objects[$0]!.values[condition.path.last!] }
        switch condition.comparison {
        case "==": return value == condition.value
        case "!=": return value != condition.value
        default: return value.map { Int($0)! < Int(condition.value!)! } ?? false
        }
    }

    // MARK: - What became of it

    private func effect(_ job: Job, since before: OperationGraph) -> Effect {
        var effect = Effect()
        for node in Set(objects.keys).union(before.objects.keys) {
            let entity = (objects[node] ?? before.objects[node])!.entity
            let key = entity.json(key: objects[node] == nil ? job.lastKeys[node]! : key(node))
            let word: WritableKeyPath<Effect.Keys, [String]>
            if objects[node] == nil {
                word = \.deleted
            } else if before.objects[node] == nil {
                word = \.inserted
            } else if row(node) != before.row(node) {
                word = \.updated
            } else if let changed = job.changedLinks[node], !changed.isEmpty {
                let isSure = changed.contains { links.contains($0) != before.links.contains($0) }
                word = isSure ? \.updated : \.perhapsUpdated
            } else if job.touched.contains(node) {
                word = \.unchanged
            } else {
                continue
            }
            effect.keys[entity.name, default: .init()][keyPath: word].append(key)
        }
        return effect
    }
}
