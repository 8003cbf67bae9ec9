internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore

/// A request to open the store with another model.
struct ModelReload: Sendable {
    let plan: StagingPlan
    let path: String
    let options: StoreOptions
    /// Called once on the writer's thread, with what has changed and the index of the ledger from now on.
    let notify: @Sendable (Result<(StoreMigration, JobIndex), StoreError>) -> Void
}
