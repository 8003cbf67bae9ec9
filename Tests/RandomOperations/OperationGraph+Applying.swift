extension OperationGraph {
    /// How a job should end.
    public enum Expectation {
        /// Code and path.
        case failed(String)
        case completed(Effect)
        /// The contract does not say what comes of it.
        case unknown
    }

    /// The state between a job's beginning and its end.
    struct Job {
        let skips: Bool
        let linksBefore: Set<Link>
        var touched: Set<Node> = []
        /// Links in link tables that an object's own record changed.
        var changedLinks: [Node: Set<Link>] = [:]
        /// Objects with a set that is ordered, that one of their records replaced or cleared, or from which another operation
        /// removed links; and objects whose record names a link that an earlier operation of the job made or ended.
        var reordered: Set<Node> = []
        /// Deleted objects, by their keys: a new object with such a key is the same node.
        var gone: [String: [[String]: Node]] = [:]
        var lastKeys: [Node: [String]] = [:]
        /// Objects that differed from their first state at some time.
        var wavering: Set<Node> = []
        var rejections: [OperationReading.Fault] = []
        /// How often, by code and entity.
        var warnings: [String: Int] = [:]
    }

    enum Stop: Error {
        case failed(String)
        case unknown
    }

    /// Operations that are one step by the contract: objects must be complete after all of them.
    private static func steps(_ readings: [OperationReading]) -> [[OperationReading]] {
        var steps: [[OperationReading]] = []
        for reading in readings {
            if case .process(nil) = reading.operation.action, case .process(nil)? = steps.last?.last?.operation.action {
                steps[steps.count - 1].append(reading)
            } else {
                steps.append([reading])
            }
        }
        return steps
    }

    /// Applies a job, whole or not at all.
    public mutating func apply(_ sent: RandomOperationJob) -> Expectation {
        let readings = sent.operations.enumerated().map { OperationReading($1, path: "/operations/\($0)") }
        if !sent.skips, let fault = readings.flatMap(\.faults).first { return .failed("\(fault.code) \(fault.path)") }
        var graph = self
        graph.moved = []
        var job = Job(skips: sent.skips, linksBefore: links)
        do throws(Stop) {
            var later = readings
            for step in Self.steps(readings) {
                later.removeFirst(step.count)
                try graph.apply(step, later, &job)
                if !later.isEmpty { job.wavering.formUnion(graph.differing(from: self)) }
            }
            try graph.checkLinks()
        } catch {
            if case .failed(let text) = error { return .failed(text) }
            return .unknown
        }
        let effect = graph.effect(job, since: self)
        self = graph
        return .completed(effect)
    }

    private mutating func apply(
        _ step: [OperationReading], _ later: [OperationReading], _ job: inout Job
    ) throws(Stop) {
        let operation = step[0].operation
        let entity = operation.entity
        let path = step[0].path
        guard !isUnknown(operation) else { throw .unknown }
        switch operation.action {
        case .process(nil): _ = try process(step, nil, later, nil, &job)
        case .process(let object?):
            // A rejected record asserts nothing about the object.
            if step[0].keyFaults.isEmpty, let fault = step[0].names[0].fault { return job.rejections.append(fault) }
            let identity = operation.records[0].identity
            guard let subject = try settle(entity, object, identity, step[0], &job) else { return }
            _ = try process(step, subject, later, nil, &job)
        case .relate(let object):
            guard let subject = try settle(entity, object, nil, step[0], &job) else { return }
            _ = try process(step, subject, later, nil, &job)
        case .delete(let keys):
            job.rejections += step[0].keyFaults
            let right = Set(keys.filter { !$0.contains(GraphModel.Entity.wrong) })
            let nodes = right.compactMap { find(entity, $0) }
            if nodes.count < right.count {
                job.warnings["objectNotFound \(entity.name)", default: 0] += right.count - nodes.count
            }
            try delete(Set(nodes), path, &job)
        case .deleteMatching(let condition):
            try delete(Set(nodes(entity).filter { matches(condition, $0) }), path, &job)
        case .sync(let condition, let actions, let part):
            try sync(step, later, condition, actions, part, &job)
        }
    }

    /// It names by a `_pk` what it may have made itself, and the contract does not say which numbers those get.
    private func isUnknown(_ operation: RandomOperation) -> Bool {
        guard operation.entity.identity.isEmpty, nodes(operation.entity).contains(where: { objects[$0]!.rowKey == nil })
        else { return false }
        return switch operation.action {
        case .process(let object?), .relate(let object): find(operation.entity, object) == nil
        case .delete(let keys): keys.contains { find(operation.entity, $0) == nil }
        default: false
        }
    }

    /// The object that an operation names; it gets the identity that the record brings. Nil when the operation is left
    /// out.
    private mutating func settle(
        _ entity: GraphModel.Entity, _ object: [String], _ identity: [String]?, _ reading: OperationReading,
        _ job: inout Job
    ) throws(Stop) -> Node? {
        var code = reading.keyFaults.first?.code
        let node = code == nil ? find(entity, object) : nil
        if let node {
            guard let identity, identity != object else { return node }
            if find(entity, identity) == nil {
                try inherit(job.gone[entity.name]?[identity], node)
                set(identity, of: node)
                return node
            }
            code = "constraintViolation"
        }
        let fault = OperationReading.Fault(
            code: code ?? "objectNotFound", path: "\(reading.path)/object", entity: entity.name)
        guard job.skips else { throw .failed("\(fault.code) \(fault.path)") }
        job.rejections.append(fault)
        return nil
    }

    private mutating func sync(
        _ step: [OperationReading], _ later: [OperationReading], _ condition: GraphCondition?, _ actions: Set<String>,
        _ part: (id: String, isLast: Bool)?, _ job: inout Job
    ) throws(Stop) {
        let entity = step[0].operation.entity
        let definition = entity.name + (condition?.json ?? "")
        var known = part.flatMap { parts[$0.id] } ?? Part(definition: definition)
        guard known.definition == definition else { throw .failed("idConflict \(step[0].path)/part") }
        let rejections = job.rejections.count
        let named = try process(step, nil, later, (entity, actions), &job)
        let own = named.filter { objects[$0]!.entity.name == entity.name }
        known.named.formUnion(own.map(key))
        // The number that the store has given it may not be known yet.
        if entity.identity.isEmpty { known.nameless.formUnion(own) }
        known.named.formUnion(step[0].names.filter { $0.entity.name == entity.name }.compactMap(\.identity))
        if job.rejections.count > rejections { known.isIncomplete = true }
        if let part { parts[part.id] = part.isLast ? nil : known }
        guard actions.contains("delete"), part?.isLast ?? true else { return }
        guard !known.isIncomplete else {
            job.warnings["deletionSkipped \(entity.name)", default: 0] += 1
            return
        }
        let unnamed = nodes(entity).filter {
            !known.named.contains(key($0)) && !known.nameless.contains($0) && matches(condition, $0)
        }
        try delete(Set(unnamed), step[0].path, &job)
    }

    private func matches(_ condition: GraphCondition?, _ node: Node) -> Bool {
        guard let condition else { return true }
        var last: Node? = node
        for name in condition.path.dropLast() {
            last = last.flatMap {
                objects[$0] == nil ? nil : destinations(objects[$0]!.entity.relationship(name), of: $0).first
            }
        }
        let value = last.flatMap { objects[$0]?.values[condition.path.last!] }
        switch condition.comparison {
        case "==": return value == condition.value
        case "!=": return value != condition.value
        default: return value.map { Int($0)! < Int(condition.value!)! } ?? false
        }
    }
}
