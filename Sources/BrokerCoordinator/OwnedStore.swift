internal import BrokerJournal
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

    /// Checks that the store can be had before anything is touched, takes it, opens it and starts the threads. Blocks. The error
    /// names the process that owns the store, if there is one; files that were made are deleted again then.
    package init(plan: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        let logger = logger.escaping
        options.store.activity?.begin()
        // A store that a shared log feeds keeps the model of the log.
        if options.sharedLog == nil {
            try SharedLogSource.refuse(Store.journal(path: options.storePath).identity, at: options.storePath)
            try Store.check(path: options.storePath, plan: plan, removal: options.store.removal)
        }
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

    /// Takes an existing store with the model and the journal that it has, so that a reload can change the model. Blocks. Fails
    /// when the journal has jobs that the store has not applied: they need the model that they were accepted with.
    package static func unchanged(path: String, logger: Logger) throws(StoreError) -> OwnedStore {
        guard let plan = try Store.planInForce(path: path) else {
            throw StoreError(
                .incompatible,
                "There is no store \(path), or it has no model yet: a server gives it one. Check the path.")
        }
        var options = CoordinatorOptions(storePath: path, limits: CoordinatorLimits())
        options.keepsJournal = try Store.hasJournal(path: path)
        if let limits = try Store.limitsInForce(path: path) { limits.set(in: &options.store) }
        let owned = try OwnedStore(plan: plan, options: options, logger: logger)
        let pending = owned.coordinator.writer.opened.log?.backlog ?? 0
        guard pending > 0 else {
            do throws(StoreError) {
                // A reload is an entry of the journal, which must be read. No job waits, so none is opened.
                try owned.coordinator.start(logger) { _, _ in
                    .unreadable("a command that changes the model applies no jobs.")
                }
                return owned
            } catch {
                owned.stopAndGiveUp()
                throw error
            }
        }
        owned.stopAndGiveUp()
        throw StoreError(
            .incompatible,
            "The journal of \(path) holds entries (\(pending)) that the store has not applied. Start "
                + "brokerd --journal with the model before, which applies them, then migrate. Nothing was changed.")
    }

    /// Stops the coordinator and gives up the store, for a task that must not block. Called once.
    package func stop() async {
        await Thread.run(named: "stopping") { [self] in stopAndGiveUp() }
    }

    /// Begins to ``stop()``, for a caller that cannot wait; `end` is called when the store was given up.
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
