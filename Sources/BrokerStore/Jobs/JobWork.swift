internal import BrokerModel
internal import BrokerStaging

/// The work budget of a job: all work that the job causes in the writer is charged, and a job that exceeds the budget
/// is rolled back.
///
/// The charges are SQLite's instructions (with triggers, foreign-key actions and rows that follow a renaming), the
/// bytes that Broker's own SQL functions read, and a constant for each operation. The rows of the job itself pay for
/// part of it, so that a job may be as large as its memory allows.
///
/// Instructions count, not time: a replayed job must end as it did before. The instructions are the same for the same
/// version of SQLite, statement and data.
enum JobWork {
    /// A unit takes 10 to 25 ns, so this is about a second at most.
    static let maximum = 50_000_000
    /// The units that a staged row or link pays for: the cost of merging it, with some indexes.
    static let unitsPerRow = 200
    /// An operation takes 20 us.
    static let unitsPerStep = 1_000
    /// SQLite compiles a statement for each predicate, which takes 300 us.
    static let unitsPerSelection = 15_000

    /// Runs a step, and charges its constant parts.
    ///
    /// - Throws: `busy`, with the operation's path, when the job has exceeded its budget.
    static func counting(
        _ step: StagedStep, on meter: WorkMeter, _ body: () throws(MergeFailure) -> Void
    ) throws(MergeFailure) {
        if let rows = step.rows {
            meter.budget.raise(by: rows.links.reduce(rows.rowCount) { $0 + $1.count } * unitsPerRow)
        }
        meter.budget.charge(constant(step.action))
        do throws(MergeFailure) {
            try meter.judging(body)
        } catch {
            // SQLite reports an error of Broker's function, and an interrupt, as plain errors.
            guard case .store(let failure) = error, [.defect, .overworked].contains(failure.code), meter.mustEnd
            else { throw error }
        }
        try judge(meter, at: step.pointer)
    }

    /// - Throws: when the job must end.
    static func judge(_ meter: WorkMeter, at pointer: String) throws(MergeFailure) {
        if var refusal = meter.refusal {
            refusal.path = refusal.path ?? pointer
            throw .fault(refusal)
        }
        if meter.budget.isSpent { throw .fault(tooMuch(at: pointer)) }
    }

    private static func constant(_ action: StepAction) -> Int {
        switch action {
        case .merge, .delete: unitsPerStep
        case .sync(let sync): constant(sync.selection)
        case .deleteMatching(let selection): constant(selection)
        }
    }

    private static func constant(_ selection: StagedSelection) -> Int {
        let instructions = selection.predicate?.instructions ?? 0
        return unitsPerSelection + instructions * WorkBudget.unitsPerCompiledInstruction
    }

    private static func tooMuch(at pointer: String) -> Fault {
        .busy(
            "The operations of this job make the server do more work than one job may, and no other job can be stored "
                + "meanwhile. Send the operations in several jobs. Of a single operation with `where`, compare fewer or "
                + "shorter values, follow fewer links, or select part of the objects at a time.", path: pointer)
    }
}
