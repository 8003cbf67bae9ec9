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
            if let expectation = operation.expectation {
                guard allowance.take(Self.stepMemory) else { throw .noRoom }
                do throws(Fault) {
                    plans.append(try step(expectation, of: operation))
                } catch {
                    throw .fault(error)
                }
            }
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
            var sum = sum
            if case .matching(let predicate, let arguments)? = operation.expectation?.condition {
                sum += memory(of: predicate, arguments)
            }
            switch operation.action {
            case .sync(let predicate, let arguments, _, _): return sum + memory(of: predicate, arguments)
            case .deleteMatching(let predicate, let arguments): return sum + memory(of: predicate, arguments)
            default: return sum
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
        case .process(let object?):
            let adjusting = operation.adjustment.map { StagingOperation.Action.adjust(object: object, $0) }
            return (.merge, staging(adjusting ?? .change(object: object)))
        case .relate(let object, let name):
            let relationship = try relationship(name, of: entity, operation)
            var staging = staging(.relate(object: object, relationship: relationship))
            staging.links = operation.links
            try checkLinks(operation, model.entities[entity].relationships[relationship], entity)
            return (.merge, staging)
        case .sync(let predicate, let arguments, let actions, let part):
            var sync = StagedSync(
                try selection(entity, predicate, arguments, at: operation.pointer),
                part: part.map {
                    SyncPart(
                        id: $0.id, isLast: $0.isLast, definition: Self.definition(operation, predicate, arguments))
                })
            (sync.inserts, sync.updates, sync.deletes) = actions
            return (.sync(sync), StagingOperation(entity: entity, json: operation.json))
        case .map: preconditionFailure("a payload without a mapping is found by its path")
        case .delete: return (.delete(entity: entity), staging(.name))
        case .deleteMatching(let predicate, let arguments):
            return (.deleteMatching(try selection(entity, predicate, arguments, at: operation.pointer)), nil)
        }
    }

    /// The step that judges an expectation before the operation is applied.
    private mutating func step(
        _ expectation: JobExpectation, of operation: JobOperation
    ) throws(Fault) -> StepPlan {
        let (entity, pointer) = (try entity(operation), "\(operation.pointer)/expect")
        let condition: StagedExpectation.Condition =
            switch expectation.condition {
            case .absent: .absent
            case .present: .present
            case .version(let version): .version(version)
            case .matching(let predicate, let arguments):
                .matching(try selection(entity, predicate, arguments, at: pointer))
            }
        let naming =
            switch operation.action {
            case .process(let object?), .relate(let object, _):
                StagingOperation(entity: entity, json: object, .identify(isRecord: false))
            case .delete: StagingOperation(entity: entity, json: operation.json, .name)
            default: StagingOperation(entity: entity, json: operation.json, .identify(isRecord: true))
            }
        return StepPlan(.expect(StagedExpectation(condition, of: entity)), ShortList(naming), at: pointer)
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
        try model.entity(named: operation.entity, at: operation.entityPointer)
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

    private func checkLinks(_ operation: JobOperation, _ relationship: Relationship, _ entity: Int) throws(Fault) {
        guard let links = operation.links else { return }
        let name = "\(model.entities[entity].name).\(relationship.name)"
        func fault(_ message: String) -> Fault {
            Fault(.invalidValue, message, path: "\(operation.pointer)/links", entity: model.entities[entity].name)
        }
        guard relationship.isToMany else {
            throw fault("\(name) leads to one object, and `links` is about many. Omit it.")
        }
        guard links != .remove || !relationship.isOwned else {
            throw fault("The objects of \(name) live in their owner. Delete those that are to go.")
        }
        guard operation.json.isNull else { return }
        throw fault("With `links`, `json` is an object, a key, or an array of them. Without it, null ends all links.")
    }

    private mutating func selection(
        _ entity: Int, _ predicate: String?, _ arguments: JSONValue?, at pointer: String
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
            throw error.at("\(pointer)/where").of(entity: model.entities[entity].name)
        }
    }
}

/// The effect of a step on the store.
package enum StepAction: Sendable {
    /// Ends the job if the object that the rows name is not as expected.
    case expect(StagedExpectation)
    /// Inserts and updates objects, and links them.
    case merge
    /// Deletes the objects of that entity that the rows name.
    case delete(entity: Int)
    /// Deletes the selected objects.
    case deleteMatching(StagedSelection)
    /// Merges, then deletes the selected objects that the rows do not name.
    case sync(StagedSync)
}

/// Selects objects of an entity.
package struct StagedSelection: Sendable {
    package let entity: Int
    /// Nil selects all.
    package let predicate: Predicate?

    package init(entity: Int, _ predicate: Predicate?) {
        self.entity = entity
        self.predicate = predicate
    }
}

/// A step of a job before it is staged.
package struct StepPlan {
    package let action: StepAction
    /// Position of the step in the message: a JSON Pointer.
    package let pointer: String
    package private(set) var operations: ShortList<StagingOperation>

    package init(_ action: StepAction, _ operations: ShortList<StagingOperation>, at pointer: String) {
        self.action = action
        self.operations = operations
        self.pointer = pointer
    }

    /// Adds an operation to a merge step; consecutive records are merged together.
    ///
    /// - Returns: false when the operation needs a step of its own.
    package mutating func add(_ operation: StagingOperation) -> Bool {
        guard case .merge = action, operation.isMerged, operations.last?.isMerged ?? false else { return false }
        operations.append(operation)
        return true
    }

    /// Merges the records of a job that is one operation itself.
    package var isOfWholeJob: Bool {
        guard case .merge = action else { return false }
        return pointer.isEmpty
    }
}

/// The selection of a sync, and the changes that it may make.
package struct StagedSync: Sendable {
    package let selection: StagedSelection
    package var inserts = true
    package var updates = true
    package var deletes = true
    /// Set for one part of a sync that several jobs make up; nil for a sync in one job.
    package let part: SyncPart?

    package init(_ selection: StagedSelection, part: SyncPart?) {
        self.selection = selection
        self.part = part
    }

    /// The sync may ignore records of the entity.
    package var ignoresRecords: Bool { !inserts || !updates }
}

/// A part of a sync that several jobs make up. The last part deletes.
package struct SyncPart: Sendable {
    /// The client's name for the whole sync.
    package let id: String
    /// After this part, the sync deletes the selected objects that no part has named.
    package let isLast: Bool
    /// The entity, the predicate and its arguments as JSON text: equal for all parts.
    package let definition: [UInt8]

    package init(id: String, isLast: Bool, definition: [UInt8]) {
        self.id = id
        self.isLast = isLast
        self.definition = definition
    }
}

/// One operation of a job with records or keys; the model knows its names.
package struct StagingOperation {
    package enum Action {
        /// `json` is a record, or an array of records.
        case process
        /// `json` is read by that mapping: a record, an array of records, or a dictionary of records.
        case map(mapping: Int, PathParameters?)
        /// `json` is a payload; the routes say where its objects are.
        case route(RouteTree)
        /// `json` is a record for the object of that key.
        case change(object: JSONValue)
        /// As `change`, if there is a record, after attributes of the object were changed by their values. `json` is the record,
        /// or the key.
        case adjust(object: JSONValue, JobAdjustment)
        /// `json` is the value of that relationship for the object of that key.
        case relate(object: JSONValue, relationship: Int)
        /// `json` is an array of keys, which only name objects.
        case name
        /// `json` is a record or a key, which only names its object.
        case identify(isRecord: Bool)
    }

    package let entity: Int
    /// A value in the job's document.
    package let json: JSONValue
    package let action: Action
    /// Of a `relate`: what it does instead of what the model says.
    package var links: LinkChange?

    package init(entity: Int, json: JSONValue, _ action: Action = .process) {
        self.entity = entity
        self.json = json
        self.action = action
    }

    var isMerged: Bool {
        switch action {
        case .process, .map, .route: true
        case .change, .adjust, .relate, .name, .identify: false
        }
    }
}

/// One operation of a job. Names are as the client wrote them, and the model may not have them.
package struct JobOperation {
    /// Raised by a change of Broker after which a job may end in another way, write other rows, or have another hash.
    package static let rules = 7

    /// The operation; names are as the client wrote them, and the model may not have them.
    package enum Action {
        case process(object: JSONValue?)
        case relate(object: JSONValue, relationship: JSONValue)
        /// - Parameters:
        ///   - actions: whether it may insert, update and delete.
        ///   - part: the name of the sync that this is a part of, and whether it is the last one.
        case sync(
            where: String?, arguments: JSONValue?, actions: (inserts: Bool, updates: Bool, deletes: Bool),
            part: (id: String, isLast: Bool)?)
        /// `json` is a whole payload, read by the mapping of that name, by the routes for that path, or by the
        /// routes without a path.
        case map(mapping: JSONValue?, path: JSONValue?)
        /// `json` is an array of keys.
        case delete
        case deleteMatching(where: String?, arguments: JSONValue?)
    }

    /// As the client wrote it; the model may not have it. Empty for a `map`.
    package var entity: String
    package var json: JSONValue
    package var action: Action
    package var expectation: JobExpectation?
    /// Of a `process` with an object.
    package var adjustment: JobAdjustment?
    /// Of a `relate`.
    package var links: LinkChange?
    /// A JSON Pointer (RFC 6901) to the entity's name in the message.
    package var entityPointer: String
    /// A JSON Pointer to the object with the operation's fields.
    package var pointer: String

    package init(
        entity: String, json: JSONValue, _ action: Action = .process(object: nil), entityPointer: String,
        pointer: String = ""
    ) {
        self.entity = entity
        self.json = json
        self.action = action
        self.entityPointer = entityPointer
        self.pointer = pointer
    }

    /// Whether the operation may, any number of times, read all objects of its entity, delete or unlink all objects that are
    /// linked to one, or rename an object to which all objects of another entity refer, however few bytes it has.
    package func isSearch(in model: Model) -> Bool {
        // Its key paths may lead to all objects that are linked to one.
        if case .matching? = expectation?.condition { return true }
        switch action {
        case .sync(_, _, let actions, let part): return actions.deletes && part?.isLast ?? true
        case .deleteMatching: return true
        case .process(let object): return object != nil && adjustment?.hasRecord != false
        case .delete: return model.index(ofEntity: entity).map(model.deletionReachesOthers) ?? false
        case .relate, .map: return false
        }
    }

    /// Whether its records may end very many links, or delete very many objects: to do it again, a job must make them first.
    package func mayReachOthers(under plan: StagingPlan) -> Bool {
        switch action {
        case .process, .sync: plan.linkKeys.mayReachOthers(json, of: plan.model.index(ofEntity: entity))
        case .map: plan.linkKeys.mayReachOthers(json, of: nil)
        case .relate(_, let relationship):
            plan.model.index(ofEntity: entity).map { entity in
                plan.entities[entity].ownRelationships.contains {
                    $0.mayReachOthers && $0.relationship.name == relationship.string
                }
            } ?? false
        case .delete, .deleteMatching: false
        }
    }
}

/// What a client expects of the object that its operation names. Valid as long as the document of the job.
package struct JobExpectation {
    package enum Condition {
        case absent
        case present
        case version(String)
        case matching(where: String, arguments: JSONValue?)
    }

    package let condition: Condition
    /// As the client wrote it.
    package let json: JSONValue

    package init(_ condition: Condition, json: JSONValue) {
        self.condition = condition
        self.json = json
    }
}

/// An expectation whose names the model has. The rows of its step name the object, if that has a key.
package struct StagedExpectation: Sendable {
    package enum Condition: Sendable {
        case absent
        case present
        case version(String)
        case matching(StagedSelection)
    }

    package let condition: Condition
    /// The operation's entity.
    package let entity: Int

    package init(_ condition: Condition, of entity: Int) {
        self.condition = condition
        self.entity = entity
    }
}

/// Changes of attributes by their stored values: objects by the names of attributes. Valid as long as the document of the job.
package struct JobAdjustment {
    package let increment: JSONValue?
    package let append: JSONValue?
    /// The operation has a record, too, which is applied after it.
    package let hasRecord: Bool

    package init(increment: JSONValue?, append: JSONValue?, hasRecord: Bool) {
        self.increment = increment
        self.append = append
        self.hasRecord = hasRecord
    }

    /// The attributes' names and what they are changed by, in the order of the text.
    var changes: [(name: JSONValue, value: JSONValue, appends: Bool)] {
        let increments = increment?.members.map { ($0.key, $0.value, false) } ?? []
        return increments + (append?.members.map { ($0.key, $0.value, true) } ?? [])
    }
}

/// What a `relate` does with the links of a to-many relationship, instead of what the model says.
package enum LinkChange: String, Sendable, CaseIterable {
    case add
    case replace
    case remove
}

extension Model {
    /// - Throws: `unknownEntity`.
    package func entity(named name: String, at path: String) throws(Fault) -> Int {
        if let entity = index(ofEntity: name) { return entity }
        let known = entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
        let ending = NearMiss.ending(name, among: entities.lazy.map(\.name))
        throw Fault(
            .unknownEntity, "The model has no entity \(name.quotedBriefly)\(ending) It has: \(known).", path: path,
            entity: name.briefly)
    }
}
