/// A mistake in the simulated glue that the simulation must find: what finds nothing proves nothing.
enum PlantedBug: String, CaseIterable, Sendable {
    /// A job is applied though its id is committed.
    case skipDedupe
    /// Ends are sent before the transaction is durable.
    case reportBeforeCommit
    /// A job that could not be staged never reaches the merge order.
    case failedJobStalls
    /// A cancelled job is skipped at its turn, and does not end.
    case cancelLosesPlace
    /// The replay after a crash skips the first job that the store has not applied.
    case replayOneTooLate
    /// A job for which there is no memory goes to the log.
    case logsWithoutMemory
}
