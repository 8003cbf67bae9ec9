/// The operations of a job without their parsed content, so that they may go from thread to thread.
package struct StepActions: Sendable {
    private let actions: [(action: StepAction, pointer: String)]

    package init(_ plans: some Sequence<StepPlan>) { actions = plans.map { ($0.action, $0.pointer) } }

    /// The steps with their rows.
    ///
    /// - Parameters:
    ///   - parts: those of all steps, one after the other.
    ///   - counts: the number of parts of each step.
    package func united(
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
