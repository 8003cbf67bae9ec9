internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// What a job does, its names looked up in the model.
struct JobSteps {
    /// In the order in which they take effect; consecutive records are one step.
    private(set) var plans: [StepPlan] = []
    private let model: Model
    private let document: JSONDocument

    /// - Throws: the first operation's fault that cannot be understood beside the model.
    init(_ job: Job, _ model: Model) throws(Fault) {
        self.model = model
        document = job.document
        for operation in job.operations {
            let (action, staging) = try step(operation)
            if let staging, case .merge = action, plans.last?.pointer != nil {
                var last = plans.removeLast()
                let isAdded = last.add(staging)
                plans.append(last)
                if isAdded { continue }
            }
            plans.append(StepPlan(action, staging.map { [$0] } ?? [], at: operation.pointer))
        }
    }

    private func step(_ operation: Job.Operation) throws(Fault) -> (StepAction, StagingOperation?) {
        if case .map(let mapping, let path) = operation.action {
            return (.merge, try map(operation, mapping: mapping, path: path))
        }
        let entity = try entity(operation)
        func staging(_ action: StagingOperation.Action = .process) -> StagingOperation {
            StagingOperation(entity: entity, json: operation.json, action)
        }
        switch operation.action {
        case .process(nil): return (.merge, staging())
        case .process(let object?): return (.merge, staging(.change(object: object)))
        case .relate(let object, let name):
            let relationship = try relationship(name, of: entity, operation)
            return (.merge, staging(.relate(object: object, relationship: relationship)))
        case .sync(let predicate, let arguments, let actions, let part):
            var sync = StagedSync(
                try selection(entity, predicate, arguments, operation),
                part: part.map {
                    SyncPart(
                        id: $0.id, isLast: $0.isLast, definition: Self.definition(operation, predicate, arguments))
                })
            (sync.inserts, sync.updates, sync.deletes) = actions
            return (.sync(sync), staging())
        case .map: preconditionFailure("what a payload is, is found by its mapping")
        case .delete: return (.delete(entity: entity), staging(.name))
        case .deleteMatching(let predicate, let arguments):
            return (.deleteMatching(try selection(entity, predicate, arguments, operation)), nil)
        }
    }

    private func map(
        _ operation: Job.Operation, mapping: JSONValue?, path: JSONValue?
    ) throws(Fault) -> StagingOperation {
        let router = PayloadRouter(model, in: document)
        guard let mapping else { return try router.operation(operation.json, path: path?.string) }
        do throws(Fault) {
            return try router.operation(operation.json, mapping: mapping.string ?? "")
        } catch {
            var fault = error
            fault.path = "\(operation.pointer)/mapping"
            throw fault
        }
    }

    /// What the parts of one sync must agree on.
    private static func definition(
        _ operation: Job.Operation, _ predicate: String?, _ arguments: JSONValue?
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.array { writer in
            writer.string(operation.entity)
            if let predicate { writer.string(predicate) } else { writer.null() }
            if let arguments { writer.value(arguments) } else { writer.null() }
        }
        return writer.bytes
    }

    private func entity(_ operation: Job.Operation) throws(Fault) -> Int {
        if let entity = model.index(ofEntity: operation.entity) { return entity }
        let known = model.entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
        throw Fault(
            .unknownEntity, "The model has no entity \(operation.entity.quotedBriefly). It has: \(known).",
            path: operation.entityPointer, entity: operation.entity.briefly)
    }

    private func relationship(
        _ name: JSONValue, of entity: Int, _ operation: Job.Operation
    ) throws(Fault) -> Int {
        let entity = model.entities[entity]
        let known = entity.relationships.firstIndex { relationship in
            var own = relationship.name
            return own.withUTF8 { name.hasBytes($0) }
        }
        if let known { return known }
        let names = entity.relationships.map(\.name).sorted().prefix(20).joined(separator: ", ")
        throw Fault(
            .unknownRelationship,
            "\(entity.name) has no relationship \(name.quotedBriefly). "
                + (names.isEmpty ? "It has none." : "It has: \(names)."),
            path: "\(operation.pointer)/relationship", entity: entity.name)
    }

    private func selection(
        _ entity: Int, _ predicate: String?, _ arguments: JSONValue?, _ operation: Job.Operation
    ) throws(Fault) -> StagedSelection {
        guard let predicate else { return StagedSelection(entity: entity, nil) }
        do throws(Fault) {
            return StagedSelection(
                entity: entity, try model.predicate(predicate, arguments: arguments, ofEntity: entity))
        } catch {
            var fault = error
            fault.path = "\(operation.pointer)/where"
            fault.entity = model.entities[entity].name
            throw fault
        }
    }
}

/// What the steps of a job do, apart from what was parsed for them, so that it may go from thread to thread.
struct StepActions: Sendable {
    private let actions: [(action: StepAction, pointer: String)]

    init(_ plans: [StepPlan]) { actions = plans.map { ($0.action, $0.pointer) } }

    /// The steps with their rows.
    ///
    /// - Parameters:
    ///   - parts: of all steps, one after the other.
    ///   - counts: by step, how many of them are its own.
    func united(
        _ parts: [Result<StagedPart, StagingRefusal>], _ counts: [Int], _ plan: StagingPlan
    ) throws(StagingRefusal) -> [StagedStep] {
        var steps: [StagedStep] = []
        var rest = parts[...]
        for (step, count) in zip(actions, counts) {
            var own: [StagedPart] = []
            for part in rest.prefix(count) { own.append(try part.get()) }
            rest = rest.dropFirst(count)
            let rows = own.isEmpty ? nil : StagedJobRows.unite(own, plan)
            steps.append(StagedStep(action: step.action, rows: rows, pointer: step.pointer))
        }
        return steps
    }
}
