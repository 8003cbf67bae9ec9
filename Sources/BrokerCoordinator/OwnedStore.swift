public import BrokerStaging
public import BrokerStore
public import Logging

/// A coordinator together with the locks that make its store nobody else's.
///
/// The store is another's again after ``stop()``, or when this object goes, which must be after ``Coordinator/stop()``.
public final class OwnedStore: Sendable {
    public let coordinator: Coordinator
    /// Nil when it is given up.
    private let lock: Monitor<StoreLock?>

    /// Looks whether the store can be had before anything is touched, takes it, opens it and starts the threads. Blocks.
    ///
    /// - Throws: `StoreError`, saying which process owns the store if that is it; files that were made are gone again.
    public init(plan: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        let logger = logger.escaping
        try Store.check(path: options.storePath, plan: plan, removal: options.store.removal)
        let lock = try StoreLock(storePath: options.storePath, mode: options.store.fileMode)
        do throws(StoreError) {
            coordinator = try Coordinator(plan: plan, options: options, logger: logger)
        } catch {
            lock.abandon()
            throw error
        }
        do throws(StoreError) {
            if let mode = options.store.fileMode { try lock.setMode(mode) }
        } catch {
            coordinator.stop()
            lock.abandon()
            throw error
        }
        self.lock = Monitor(lock)
        for line in coordinator.migration.lines { logger.notice("\(line)") }
    }

    /// The same, for a task that must not block.
    public static func open(
        plan: StagingPlan, options: CoordinatorOptions, logger: Logger
    ) async throws(StoreError) -> OwnedStore {
        let opened = await Thread.run(named: "opening") {
            Result { () throws(StoreError) in try OwnedStore(plan: plan, options: options, logger: logger) }
        }
        return try opened.get()
    }

    /// Stops the coordinator and gives up the store, for a task that must not block. Called once.
    public func stop() async {
        await Thread.run(named: "stopping") { [self] in stopAndGiveUp() }
    }

    /// Begins to ``stop()``, for whoever cannot wait.
    public func stopSoon() {
        Thread(named: "stopping") { [self] in stopAndGiveUp() }.detach()
    }

    private func stopAndGiveUp() {
        coordinator.stop()
        lock.withLock { $0 = nil }
    }

    /// The start has failed behind the store: stops the coordinator, and takes away the files that were made, when there
    /// was no store before. Blocks; only if no job was taken.
    public func abandon() {
        coordinator.stop()
        lock.withLock { lock in
            lock?.abandon()
            lock = nil
        }
    }
}
