internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore

/// A request to open the store with another model or other limits.
struct StoreReopening: Sendable {
    let plan: StagingPlan
    let path: String
    let options: StoreOptions
    /// The entry of the log that asks for it; nil without a log.
    let mark: LogMark?
    /// Called once on the writer's thread, with what has changed and the index of the ledger from now on.
    let notify: @Sendable (Result<(StoreMigration, JobIndex), StoreError>) -> Void
}
