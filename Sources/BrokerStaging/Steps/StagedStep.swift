package import BrokerModel

/// The effect of a step on the store.
package enum StepAction: Sendable {
    /// Inserts and updates objects, and links them.
    case merge
    /// Deletes the objects of that entity that the rows name.
    case delete(entity: Int)
    /// Deletes the selected objects.
    case deleteMatching(StagedSelection)
    /// Merges, then deletes the selected objects that the rows do not name.
    case sync(StagedSync)
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
    package private(set) var operations: [StagingOperation]

    package init(_ action: StepAction, _ operations: [StagingOperation], at pointer: String) {
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

    package func staged(_ rows: StagedRows?) -> StagedStep { StagedStep(action: action, rows: rows, pointer: pointer) }
}

/// One step of a job, staged. Steps are applied in order. A value, so that any store can apply it.
package struct StagedStep: Sendable {
    package let action: StepAction
    /// Nil when the step has no rows.
    package let rows: StagedRows?
    /// Position of the step in the message: a JSON Pointer.
    package let pointer: String

    package init(action: StepAction, rows: StagedRows?, pointer: String = "") {
        self.action = action
        self.rows = rows
        self.pointer = pointer
    }
}
