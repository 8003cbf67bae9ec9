internal import BrokerModel
internal import BrokerStaging

/// Limits how often the rows of a job's steps are staged again on the writer's thread, so that no job occupies the
/// thread for much longer than its own bytes need. It counts work and not time: a job ends the same way on every
/// machine.
final class RestagingBudget {
    /// Stagings of each step that do not count.
    private static let free = 4
    /// The maximum number of stagings of one step.
    private static let maximum = 100
    /// Units of ``StagedRows/stagingWork`` for all further stagings of the job's steps: some tenths of a second.
    private static let maximumWork = 64 << 20

    private var work = 0

    /// - Parameter count: how often the step was staged again before.
    func charge(_ rows: StagedRows, after count: Int) throws(MergeFailure) {
        guard count >= Self.free else { return }
        work += rows.stagingWork
        guard count >= Self.maximum || work > Self.maximumWork else { return }
        throw .fault(
            Fault(
                .constraintViolation,
                "Skipping the records that cannot be stored makes ever more of them impossible (\(count) times over). "
                    + "Send the job in smaller pieces to find them."))
    }
}
