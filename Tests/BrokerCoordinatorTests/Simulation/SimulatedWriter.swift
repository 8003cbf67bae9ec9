import BrokerModel
import BrokerStore

@testable import BrokerCoordinator

/// What the writer is at, between two of its steps.
struct SimulatedWriter {
    struct Transaction {
        var applied: [WriterLoop.Applied]
        var reservation: Int64?
        var isDurable = false
        /// With the bug that tells too early.
        var isTold = false
    }

    /// It has been told that there may be something to do.
    var isAwake = true
    var transaction: Transaction?
    /// What it took, when the store did not take all of it: these are tried one by one.
    var alone: JobBatch = []
    /// The batch of the transaction in progress.
    var batch: JobBatch = []

    var isIdle: Bool { transaction == nil && alone.isEmpty }
}

/// The steps of `WriterLoop`, of which each may be the last one before a crash.
extension SimulatedServer {
    /// Takes what is ready, and applies it in a transaction that is not durable yet.
    ///
    /// - Parameter check: looks at each job that is applied, before it is.
    mutating func takeBatch(
        _ store: inout SimulatedStore, _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) {
        var batch: JobBatch = []
        while let next = jobTable.takeNext(after: batch) { batch.append(next) }
        guard !batch.isEmpty || jobTable.order.isStarved else { return writer.isAwake = false }
        let reservation = jobTable.order.reservationDue(block: limits.sequenceBlock)
        if let reservation { store.reserve(through: reservation) }
        if bug == .cancelLosesPlace { batch.removeAll { $0.job.skipReason == .cancelled } }
        let applied = batch.map { apply($0.job, $0.sequence, &store, check) }
        writer.batch = batch
        writer.transaction = SimulatedWriter.Transaction(applied: applied, reservation: reservation)
        if bug == .tellBeforeCommit {
            settle(applied, reservation)
            writer.transaction?.isTold = true
        }
    }

    private func apply(
        _ job: ReadyJob, _ sequence: Int64, _ store: inout SimulatedStore,
        _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) -> WriterLoop.Applied {
        if job.skipReason == .unjournaled, case .refused(let fault) = job.work {
            return WriterLoop.Applied(sequence: nil, job: job, end: .failed(fault), appliedAt: 0)
        }
        check(job, sequence, store)
        return WriterLoop.Applied(
            sequence: sequence, job: job, end: store.apply(job.storeJob(sequence)), appliedAt: 0)
    }

    /// The transaction becomes durable, or the store does not take it.
    mutating func commit(_ store: inout SimulatedStore, fails: Bool) {
        guard fails else {
            store.commit()
            writer.transaction?.isDurable = true
            return
        }
        store.rollback()
        let isStarved = writer.transaction?.applied.isEmpty ?? false
        writer.transaction = nil
        if isStarved { failStarved() } else { writer.alone = writer.batch }
    }

    /// After the COMMIT: the ends are handed over to be told.
    mutating func settleTransaction(took microseconds: Int64) {
        guard var transaction = writer.transaction else { return }
        writer.transaction = nil
        writer.isAwake = true
        guard !transaction.isTold else { return }
        for position in transaction.applied.indices { transaction.applied[position].mergedMicroseconds = microseconds }
        settle(transaction.applied, transaction.reservation)
    }

    /// The next job in a transaction of its own. With a log, what the store does not take is tried again.
    mutating func applyAlone(
        _ store: inout SimulatedStore, fails: Bool, _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) {
        let (sequence, job) = writer.alone[0]
        let applied = apply(job, sequence, &store, check)
        writer.isAwake = true
        if fails, applied.sequence != nil {
            store.rollback()
            guard log == nil else { return }
            let fault = Fault(.storeFull, "the simulated store is full")
            settle(
                [WriterLoop.Applied(sequence: sequence, job: job, end: .failed(fault), unwritten: fault, appliedAt: 0)],
                nil)
        } else {
            store.commit()
            settle([applied], nil)
        }
        writer.alone.removeFirst()
    }

    private mutating func failStarved() {
        let (jobs, tasks) = jobTable.takeStarved()
        completions += tasks
        let fault = Fault(.storeFull, "the simulated store is full")
        settle(jobs.map { WriterLoop.Applied(sequence: nil, job: $0, end: .failed(fault), appliedAt: 0) }, nil)
        writer.isAwake = true
    }

    private mutating func settle(_ applied: [WriterLoop.Applied], _ reservation: Int64?) {
        if let reservation { completions += jobTable.reserved(through: reservation) }
        var tasks: [Task] = []
        for applied in applied {
            let waiters = jobTable.ended(
                applied.job.accepted, isCommitted: applied.isCommitted, owner: applied.committedOwner,
                took: applied.mergedMicroseconds, at: time)
            begun.remove(applied.job.place)
            tasks.append { applied.tell(waiters, 0) }
            guard let fault = applied.unwritten, let sequence = applied.sequence else { continue }
            jobTable.kept.keep(applied.job.failedStoreJob(sequence, fault), applied.toldOutcome(0))
        }
        tasks += jobTable.ends.takeReady()
        let woken = jobTable.takeWoken(limits)
        completions += tasks
        for tell in woken { tell() }
    }

    /// Failures that the store did not take before.
    mutating func writeKept(_ store: inout SimulatedStore) {
        let kept = jobTable.kept.jobs
        for job in kept { _ = store.apply(job) }
        store.commit()
        jobTable.kept.remove(kept)
    }

    /// After a commit, the log need not keep what is durable in the store.
    func tellLog(_ store: SimulatedStore) { log?.applied(through: store.durable.applied) }

    // MARK: - The log's thread

    mutating func gather() {
        syncing = log?.takeWaiting() ?? []
        areSynced = false
    }

    /// What the log's thread tells, when the disk has taken the entries or had no room for them.
    mutating func tellSynced(isFull: Bool) {
        let entries = syncing
        syncing = []
        areSynced = false
        change { server in
            server.completions +=
                isFull
                ? server.jobTable.unjournaled(entries, StoreError(.full, "the simulated disk is full"))
                : server.jobTable.logged(entries)
            return server.jobTable.hasWork
        }
    }
}
