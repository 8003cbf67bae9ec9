package import BrokerJSON

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

    package func staged(_ rows: StagedRows?) -> StagedStep { StagedStep(action: action, rows: rows, pointer: pointer) }
}
