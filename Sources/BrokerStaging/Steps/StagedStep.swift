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
