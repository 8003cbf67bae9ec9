internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The resources that the steps of one job share while they are merged.
final class MergeResources {
    let parked: ParkedValues
    private let allowance: (any MemoryAllowance)?
    /// The memory of rows that were staged again, until the job's end.
    private var retained: [MergeMemory] = []

    init(parked: ParkedValues) {
        allowance = parked.memory.allowance
        self.parked = parked
    }

    func memory() -> MergeMemory { MergeMemory(allowance) }

    var retainedCount: Int { retained.count }

    /// Releases the memory of all rows that were staged again after the first `count`.
    func release(after count: Int) { retained.removeLast(retained.count - count) }

    func retain(_ memory: MergeMemory) { retained.append(memory) }

    // MARK: - Stagings on the writer's thread

    /// Stagings of each step that do not count.
    private static let freeStagings = 4
    /// The maximum number of stagings of one step.
    private static let mostStagings = 100
    /// Units of ``StagedRows/stagingWork`` for all further stagings of the job's steps: a tenth of a second or two.
    private static let mostStagingWork = 16 << 20

    private var stagingWork = 0

    /// Limits how often the rows of a job's steps are staged again on the writer's thread, so that no job occupies the
    /// thread for much longer than its own bytes need. It counts work and not time: a job ends the same way on every
    /// machine.
    ///
    /// - Parameter count: how often the step was staged again before.
    func chargeStaging(_ rows: StagedRows, after count: Int) throws(MergeFailure) {
        guard count >= Self.freeStagings else { return }
        stagingWork += rows.stagingWork
        guard count >= Self.mostStagings || stagingWork > Self.mostStagingWork else { return }
        throw .fault(
            Fault(
                .constraintViolation,
                "Skipping the records that cannot be stored makes ever more of them impossible (\(count) times over). "
                    + "Send the job in smaller pieces to find them."))
    }
}
