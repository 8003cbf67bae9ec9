public import BrokerStaging
public import BrokerStore
public import Logging

/// A coordinator together with the locks that make its store nobody else's.
///
/// The store is another's again when this object goes, which must be after ``Coordinator/stop()``.
public final class OwnedStore: Sendable {
    public let coordinator: Coordinator
    private let lock: StoreLock

    /// Looks whether the store can be had before anything is touched, takes it, opens it and starts the threads. Blocks.
    ///
    /// - Throws: `StoreError`, saying which process owns the store if that is it; files that were made are gone again.
    public init(plan: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        try Store.check(path: options.storePath, model: plan.model)
        let lock = try StoreLock(storePath: options.storePath)
        do throws(StoreError) {
            coordinator = try Coordinator(plan: plan, options: options, logger: logger)
        } catch {
            lock.abandon()
            throw error
        }
        self.lock = lock
    }

    /// The start has failed behind the store: stops the coordinator, and takes away the files that were made, when there
    /// was no store before. Blocks; only if no job was taken.
    public func abandon() {
        coordinator.stop()
        lock.abandon()
    }
}
