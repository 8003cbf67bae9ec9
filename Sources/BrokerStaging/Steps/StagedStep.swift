public import BrokerModel

/// What a step does to the store.
public enum StepAction: Sendable {
    /// Objects are found or made, and linked.
    case merge
    /// The objects of that entity that the rows name are deleted.
    case delete(entity: Int)
    /// The objects that are selected are deleted.
    case deleteMatching(StagedSelection)
    /// As `merge`; then, of those that are selected, what the rows do not name is deleted.
    case sync(StagedSync)
}

/// What a sync is about, and what it may do.
public struct StagedSync: Sendable {
    public let selection: StagedSelection
    public var inserts = true
    public var updates = true
    public var deletes = true
    /// Of several jobs; nil of a sync that is one job's.
    public let part: SyncPart?

    public init(_ selection: StagedSelection, part: SyncPart?) {
        self.selection = selection
        self.part = part
    }

    /// Some of the entity's records may be passed over.
    public var passesOver: Bool { !inserts || !updates }
}

/// A part of a sync that several jobs do together, in the end with one deletion.
public struct SyncPart: Sendable {
    /// The client's name for the whole.
    public let id: String
    /// What all named is kept by this one, and the rest deleted.
    public let isLast: Bool
    /// The entity, the predicate and its arguments as they were written: the same for all parts.
    public let definition: [UInt8]

    public init(id: String, isLast: Bool, definition: [UInt8]) {
        self.id = id
        self.isLast = isLast
        self.definition = definition
    }
}

/// Which objects of an entity are meant.
public struct StagedSelection: Sendable {
    public let entity: Int
    /// Nil selects all.
    public let predicate: Predicate?

    public init(entity: Int, _ predicate: Predicate?) {
        self.entity = entity
        self.predicate = predicate
    }
}

/// A step of a job before it is staged.
public struct StepPlan {
    public let action: StepAction
    /// Where the message says so: a JSON Pointer.
    public let pointer: String
    public private(set) var operations: [StagingOperation]

    public init(_ action: StepAction, _ operations: [StagingOperation], at pointer: String) {
        self.action = action
        self.operations = operations
        self.pointer = pointer
    }

    /// Adds an operation that is one step with those before it: consecutive records are merged together.
    ///
    /// - Returns: false when it is a step of its own.
    public mutating func add(_ operation: StagingOperation) -> Bool {
        guard case .merge = action, operation.isMerged, operations.last?.isMerged ?? false else { return false }
        operations.append(operation)
        return true
    }

    public func staged(_ rows: StagedRows?) -> StagedStep { StagedStep(action: action, rows: rows, pointer: pointer) }
}

/// One of the things that a job does, one after the other: a value, so that any store can take it.
public struct StagedStep: Sendable {
    public let action: StepAction
    /// Nil when it brings none.
    public let rows: StagedRows?
    /// Where the message says so: a JSON Pointer.
    public let pointer: String

    public init(action: StepAction, rows: StagedRows?, pointer: String = "") {
        self.action = action
        self.rows = rows
        self.pointer = pointer
    }
}
