/// A mistake in the simulated glue that the simulation must find: what finds nothing proves nothing.
enum PlantedBug: String, CaseIterable, Sendable {
    /// A job is applied though its id is committed.
    case skipDedupe
    /// Ends are told before the transaction is durable.
    case tellBeforeCommit
    /// A job that could not be staged never reaches the merge order.
    case failedJobStalls
    /// A job that was taken back is left out at its turn, and does not end.
    case cancelLosesPlace
    /// The replay after a crash leaves out the first job that the store has not applied.
    case replayOneTooLate
}
