package import BrokerStaging
package import BrokerStore
package import Logging

/// A coordinator together with the locks that reserve its store for this process.
///
/// Another process can have the store after ``stop()``, or when this object is freed, which must be after
/// ``Coordinator/stop()``.
package final class OwnedStore: Sendable {
    package let coordinator: Coordinator
    /// Nil after the store was given up.
    private let lock: Monitor<StoreLock?>

    /// Checks that the store can be had before anything is touched, takes it, opens it and starts the threads. Blocks.
    ///
    /// - Throws: `StoreError`, which names the process that owns the store if there is one; files that were made are
    ///   deleted again.
    package init(plan: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        let logger = logger.escaping
        options.store.activity?.begin()
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
    package static func open(
        plan: StagingPlan, options: CoordinatorOptions, logger: Logger
    ) async throws(StoreError) -> OwnedStore {
        let opened = await Thread.run(named: "opening") {
            Result { () throws(StoreError) in try OwnedStore(plan: plan, options: options, logger: logger) }
        }
        return try opened.get()
    }

    /// Stops the coordinator and gives up the store, for a task that must not block. Called once.
    package func stop() async {
        await Thread.run(named: "stopping") { [self] in stopAndGiveUp() }
    }

    /// Begins to ``stop()``, for a caller that cannot wait.
    ///
    /// - Parameter end: called when the store was given up.
    package func stopSoon(_ end: @escaping @Sendable () -> Void) {
        Thread(named: "stopping") { [self] in
            stopAndGiveUp()
            end()
        }.detach()
    }

    private func stopAndGiveUp() {
        coordinator.stop()
        lock.withLock { $0 = nil }
    }

    /// The start has failed after the store was opened: stops the coordinator, and deletes the files that were made,
    /// when there was no store before. Blocks; only if no job was accepted.
    package func abandon() {
        coordinator.stop()
        lock.withLock { lock in
            lock?.abandon()
            lock = nil
        }
    }
}
