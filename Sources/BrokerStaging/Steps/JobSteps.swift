package import BrokerJSON
package import BrokerModel

/// The operations of a job, their names looked up in the model.
package struct JobSteps {
    /// In the order in which they take effect; consecutive records are one step.
    package private(set) var plans = ShortList<StepPlan>()
    private let model: Model
    private let document: JSONDocument
    /// The number of RE2 instructions of the regular expressions in all predicates.
    private var instructions = 0
    /// Compiling takes 5 us for each: a quarter of a second for a job.
    private static let mostInstructions = 50_000
    private let allowance: any StagingAllowance
    private var router: PayloadRouter

    /// Bytes of memory that a step takes beside its rows: the step, its operation, and the text of its pointer, each
    /// with room to grow.
    private static let stepMemory = 2 * (MemoryLayout<StepPlan>.stride + MemoryLayout<StagingOperation>.stride) + 128

    /// - Parameter allowance: asked for the memory of the steps.
    /// - Throws: the fault of the first operation that does not fit the model; `noRoom` when the allowance is refused.
    package init(
        _ operations: ShortList<JobOperation>, in document: JSONDocument, _ model: Model,
        _ allowance: any StagingAllowance
    ) throws(StagingRefusal) {
        self.model = model
        self.allowance = allowance
        self.document = document
        router = PayloadRouter(model, in: document, allowance)
        for operation in operations {
            guard allowance.take(Self.stepMemory) else { throw .noRoom }
            let (action, staging) = try step(operation)
            if let staging, case .merge = action, !plans.isEmpty, plans[plans.count - 1].add(staging) { continue }
            let operations = staging.map { ShortList($0) } ?? []
            plans.append(StepPlan(action, operations, at: operation.pointer))
        }
    }

    /// The maximum bytes that the predicates of a job's operations may take: the tree, the tests that the writer compiles from it (folding
    /// may make a text three times as long), and SQLite's copy of what is bound.
    package static func predicateMemory(_ operations: ShortList<JobOperation>) -> Int {
        operations.reduce(0) { sum, operation in
            switch operation.action {
            case .sync(let predicate, let arguments, _, _): sum + memory(of: predicate, arguments)
            case .deleteMatching(let predicate, let arguments): sum + memory(of: predicate, arguments)
            default: sum
            }
        }
    }

    private static func memory(of predicate: String?, _ arguments: JSONValue?) -> Int {
        // A token of two bytes becomes a value of 48 and more.
        let text = 24 * (predicate?.utf8.count ?? 0)
        guard let arguments else { return text }
        return text + 5 * arguments.bytes.count + 96 * arguments.elementCount
    }

    private mutating func step(
        _ operation: JobOperation
    ) throws(StagingRefusal) -> (StepAction, StagingOperation?) {
        switch operation.action {
        case .map(nil, let path): return (.merge, try router.operation(operation.json, path: path?.string))
        case .sync(let predicate, let arguments, _, let part?):
            // Copied into the definition; a text may take six bytes for one.
            let bytes = 6 * ((predicate?.utf8.count ?? 0) + operation.entity.utf8.count)
            guard allowance.take(bytes + (arguments?.bytes.count ?? 0) + 64 + part.id.utf8.count) else {
                throw .noRoom
            }
        default: break
        }
        do throws(Fault) {
            return try step(understood: operation)
        } catch {
            throw .fault(error)
        }
    }

    private mutating func step(understood operation: JobOperation) throws(Fault) -> (StepAction, StagingOperation?) {
        if case .map(let mapping?, _) = operation.action { return (.merge, try map(operation, mapping)) }
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
            return (.sync(sync), StagingOperation(entity: entity, json: operation.json, gathersNames: true))
        case .map: preconditionFailure("a payload without a mapping is found by its path")
        case .delete: return (.delete(entity: entity), staging(.name))
        case .deleteMatching(let predicate, let arguments):
            return (.deleteMatching(try selection(entity, predicate, arguments, operation)), nil)
        }
    }

    private func map(_ operation: JobOperation, _ mapping: JSONValue) throws(Fault) -> StagingOperation {
        do throws(Fault) {
            // A prefix is enough to see that a text is longer than any name.
            let name = String(decoding: mapping.bytes.prefix(ModelLimits.longestName + 1), as: UTF8.self)
            return try router.operation(operation.json, mapping: name)
        } catch {
            throw error.at("\(operation.pointer)/mapping")
        }
    }

    /// The definition on which the parts of one sync must agree.
    private static func definition(
        _ operation: JobOperation, _ predicate: String?, _ arguments: JSONValue?
    ) -> [UInt8] {
        // Reserved at its final size: a buffer that grows takes twice that.
        let bytes = operation.entity.utf8.count + (predicate?.utf8.count ?? 0) + (arguments?.bytes.count ?? 0)
        var writer = JSONWriter(capacity: bytes + 64)
        writer.array { writer in
            writer.string(operation.entity)
            if let predicate { writer.string(predicate) } else { writer.null() }
            if let arguments { writer.value(arguments) } else { writer.null() }
        }
        return writer.bytes
    }

    private func entity(_ operation: JobOperation) throws(Fault) -> Int {
        if let entity = model.index(ofEntity: operation.entity) { return entity }
        let known = model.entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
        let ending = NearMiss.ending(operation.entity, among: model.entities.lazy.map(\.name))
        throw Fault(
            .unknownEntity,
            "The model has no entity \(operation.entity.quotedBriefly)\(ending) It has: \(known).",
            path: operation.entityPointer, entity: operation.entity.briefly)
    }

    private func relationship(
        _ name: JSONValue, of entity: Int, _ operation: JobOperation
    ) throws(Fault) -> Int {
        let entity = model.entities[entity]
        let known = entity.relationshipIndices.first { index in
            var own = entity.relationships[index].name
            return own.withUTF8 { name.hasBytes($0) }
        }
        if let known { return known }
        let beginning = String(decoding: name.bytes.prefix(NearMiss.longestName + 1), as: UTF8.self)
        let ending = NearMiss.ending(beginning, among: entity.relationshipNames)
        let names = entity.relationshipNames.sorted().prefix(20).joined(separator: ", ")
        throw Fault(
            .unknownRelationship,
            "\(entity.name) has no relationship \(name.quotedBriefly)\(ending) "
                + (names.isEmpty ? "It has none." : "It has: \(names)."),
            path: "\(operation.pointer)/relationship", entity: entity.name)
    }

    private mutating func selection(
        _ entity: Int, _ predicate: String?, _ arguments: JSONValue?, _ operation: JobOperation
    ) throws(Fault) -> StagedSelection {
        guard let predicate else { return StagedSelection(entity: entity, nil) }
        do throws(Fault) {
            let checked = try model.predicate(predicate, arguments: arguments, ofEntity: entity)
            instructions += checked.instructions
            guard instructions <= Self.mostInstructions else {
                throw Fault.busy(
                    "The regular expressions of a job have at most \(Self.mostInstructions) instructions of RE2 "
                        + "together. Send the operations in several jobs.")
            }
            return StagedSelection(entity: entity, checked)
        } catch {
            throw error.at("\(operation.pointer)/where").of(entity: model.entities[entity].name)
        }
    }
}
