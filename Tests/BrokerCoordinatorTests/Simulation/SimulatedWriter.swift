import BrokerJournal
import BrokerModel
import BrokerStore

@testable import BrokerCoordinator

/// The writer between two of its steps: the run of the real writer, with a simulated transaction.
struct SimulatedWriter {
    struct Transaction {
        var applied: [AppliedJob]
        var reservation: Int64?
        var isDurable = false
        /// The planted bug has settled it already.
        var isSettled = false
    }

    /// There may be something to do.
    var isAwake = true
    var run: WriterRun?
    var transaction: Transaction?

    var isIdle: Bool { transaction == nil && run == nil }

    /// The next step is a job in a transaction of its own.
    var isAlone: Bool { if case .alone = run?.next { true } else { false } }
}

/// The steps of `WriterLoop`; a crash may follow each of them.
extension SimulatedServer {
    /// Takes the ready jobs, and applies them in a transaction that is not durable yet.
    ///
    /// - Parameter check: called before each job is applied.
    mutating func takeBatch(
        _ store: inout SimulatedStore, _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) {
        guard var turn = jobTable.takeTurn()?.turn else { return writer.isAwake = false }
        if let reservation = turn.reservation { store.reserve(through: reservation) }
        if bug == .cancelLosesPlace { turn.batch.removeAll { $0.job.skipReason == .cancelled } }
        settle(turn.refused.map { AppliedJob(refused: $0.job, at: $0.place) }, nil)
        let run = WriterRun(turn)
        writer.run = run
        guard run.next != nil else { return endRun() }
        let applied = run.rest.map { apply($0.job, $0.place, &store, check) }
        writer.transaction = SimulatedWriter.Transaction(applied: applied, reservation: turn.reservation)
        if bug == .reportBeforeCommit {
            settle(applied, turn.reservation)
            writer.transaction?.isSettled = true
        }
    }

    private func apply(
        _ job: ReadyJob, _ place: LogPlace, _ store: inout SimulatedStore,
        _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) -> AppliedJob {
        check(job, place.position!, store)
        return AppliedJob(
            place: place, job: job, end: store.apply(job.storeJob(at: place, isLogged: true)), appliedAt: 0)
    }

    /// The transaction becomes durable, or the store refuses it.
    mutating func commit(_ store: inout SimulatedStore, fails: Bool) {
        guard fails else {
            store.commit()
            writer.transaction?.isDurable = true
            return
        }
        store.rollback()
        writer.transaction = nil
        writer.run?.failed(Self.full, hasMadeRoom: false)
        if case .failStarved = writer.run?.next { failStarved() }
    }

    private static let full = StoreError(.full, "the simulated store is full")

    /// After the COMMIT: settles the jobs.
    mutating func settleTransaction(took microseconds: Int64) {
        guard let transaction = writer.transaction else { return }
        writer.transaction = nil
        writer.run?.applied(transaction.applied.count)
        if !transaction.isSettled {
            let applied = transaction.applied.map { applied in
                AppliedJob(
                    place: applied.place, job: applied.job, end: applied.end, isUnwritten: applied.isUnwritten,
                    mergedMicroseconds: microseconds, appliedAt: applied.appliedAt)
            }
            settle(applied, transaction.reservation)
        }
        endRun()
    }

    /// The next job in a transaction of its own. With a journal, a job that the store refuses is tried again.
    mutating func applyAlone(
        _ store: inout SimulatedStore, fails: Bool, _ check: (ReadyJob, Int64, SimulatedStore) -> Void
    ) {
        guard case .alone(let place, let job) = writer.run?.next else { return }
        let applied = apply(job, place, &store, check)
        if fails {
            store.rollback()
            guard log == nil else { return }
            let fault = Fault(.storeFull, Self.full.message)
            settle(
                [AppliedJob(place: place, job: job, end: .failed(fault), isUnwritten: true, appliedAt: 0)], nil)
        } else {
            store.commit()
            settle([applied], nil)
        }
        writer.run?.applied(1)
        endRun()
    }

    private mutating func failStarved() {
        completions += jobTable.refuseStarved(Fault(.storeFull, Self.full.message))
        writer.run?.starvedFailed()
        endRun()
    }

    private mutating func endRun() {
        guard writer.run?.next == nil else { return }
        writer.run = nil
        writer.isAwake = true
    }

    private mutating func settle(_ applied: [AppliedJob], _ reservation: Int64?) {
        for applied in applied { begun.remove(applied.job.ticket) }
        let settlement = jobTable.settle(applied, reservation: reservation, at: time) { ended in
            { for (applied, waiters) in ended { applied.notify(waiters, 0) } }
        }
        completions += settlement.reserved
        perform(settlement.effects)
    }

    /// Failures that the store did not take before.
    mutating func recordFailures(_ store: inout SimulatedStore) {
        let unrecorded = jobTable.unrecorded.jobs
        for job in unrecorded { _ = store.apply(job) }
        store.commit()
        jobTable.unrecorded.remove(unrecorded)
    }

    /// After a commit, the log need not keep what is durable in the store.
    func notifyLog(_ store: SimulatedStore) { log?.applied(through: store.durable.applied) }

    // MARK: - The log's thread

    mutating func gather() {
        var place = newest
        syncing = (log?.takeWaiting() ?? []).map { entry in
            guard entry.kind == .job else { return (entry, nil) }
            place = LogPlace(position: place.position! + 1, time: max(place.time, entry.time))
            return (entry, place)
        }
        areSynced = false
    }

    /// The entries that the log's thread is writing, as the disk has them.
    var stored: [JournalEntry] { syncing.map { $0.entry.stored(at: $0.place) } }

    /// The report of the log's thread, when the disk has stored the entries or had no room for them.
    mutating func reportSynced(isFull: Bool) throws(LogViolation) {
        let entries = syncing
        syncing = []
        areSynced = false
        if !isFull { newest = entries.compactMap(\.place).last ?? newest }
        var effects = Effects()
        _ = try jobTable.deliver(
            entries.map { entry, place in
                if isFull { return .refused(entry, StoreError(.full, "the simulated disk is full")) }
                return place.map { .job(ticket: entry.ticket, $0) } ?? .cancellation(entry)
            }, &effects)
        perform(effects)
    }
}
