internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import Logging

/// The one thread that writes: it opens the store, and merges what is ready, in order, many jobs to a COMMIT.
///
/// It never waits for a timer: whatever is ready when it looks goes into one transaction, and while that is being made
/// durable the next jobs become ready.
final class Writer: Sendable {
    private let thread: Thread

    /// Opens the store on the new thread and waits for that.
    ///
    /// - Throws: ``StoreError``; the thread has then ended.
    init(
        plan: StagingPlan, options: CoordinatorOptions, flight: Monitor<Flight>, statistics: Statistics,
        completions: SerialThread, wakePool: @escaping @Sendable () -> Void, logger: Logger
    ) throws(StoreError) {
        let opened = Monitor<Result<Void, StoreError>?>(nil)
        thread = Thread(named: "writer") {
            do throws(StoreError) {
                let store = try Store(path: options.storePath, plan: plan, options: options.store)
                let sequence = try store.lastSequence()
                flight.withLock { $0 = Flight(after: sequence) }
                opened.broadcast {
                    $0 = .success(())
                    return true
                }
                let loop = WriterLoop(
                    store: store, flight: flight, statistics: statistics, completions: completions,
                    limits: options.limits, wakePool: wakePool, logger: logger)
                loop.run()
            } catch {
                opened.broadcast {
                    $0 = .failure(error)
                    return true
                }
            }
        }
        do throws(StoreError) {
            try opened.wait { $0 }.get()
        } catch {
            thread.join()
            throw error
        }
    }

    /// Waits for the end of the thread, which comes after `Flight.isStopped`.
    func join() { thread.join() }
}

/// What the writer's thread does; all of it stays on that thread.
private struct WriterLoop {
    typealias Batch = [(sequence: Int64, job: ReadyJob)]

    /// A job that the store has applied, or could not.
    struct Applied {
        let sequence: Int64
        let job: ReadyJob
        let end: JobEnd
        let mergedMicroseconds: Int64
        let appliedAt: Int64
    }

    let store: Store
    let flight: Monitor<Flight>
    let statistics: Statistics
    let completions: SerialThread
    let limits: CoordinatorLimits
    let wakePool: @Sendable () -> Void
    let logger: Logger

    func run() {
        while let batch = takeBatch() {
            let applied: [Applied]
            do throws(StoreError) {
                applied = try apply(batch)
            } catch {
                logger.warning(
                    "A transaction was undone; its jobs are tried one by one.", metadata: ["cause": "\(error)"])
                applied = batch.map(applyAlone)
            }
            settle(applied)
        }
        do throws(StoreError) {
            try store.checkpoint()
        } catch {
            // The log beside the database is read at the next start, so nothing is lost.
            logger.warning("The log could not be emptied at the end.", metadata: ["cause": "\(error)"])
        }
    }

    /// Waits for jobs; nil when there will be no more.
    private func takeBatch() -> Batch? {
        flight.wait { flight -> Batch?? in
            var batch: Batch = []
            while batch.count < CoordinatorLimits.jobsPerCommit, let next = flight.order.takeReady() {
                batch.append((next.sequence, next.work))
            }
            if batch.isEmpty { return flight.isStopped ? .some(nil) : nil }
            return batch
        }
    }

    // MARK: - Transactions

    private func apply(_ batch: Batch) throws(StoreError) -> [Applied] {
        do throws(StoreError) {
            try store.begin()
            var applied: [Applied] = []
            for (sequence, job) in batch { applied.append(try apply(job, sequence)) }
            try store.commit()
            return applied
        } catch {
            store.rollback()
            throw error
        }
    }

    private func apply(_ job: ReadyJob, _ sequence: Int64) throws(StoreError) -> Applied {
        let start = monotonicMicroseconds()
        let end = try store.apply(job.storeJob(sequence))
        let now = monotonicMicroseconds()
        return Applied(sequence: sequence, job: job, end: end, mergedMicroseconds: now - start, appliedAt: now)
    }

    /// The job in a transaction of its own, so that the fault is its own, too.
    private func applyAlone(_ sequence: Int64, _ job: ReadyJob) -> Applied {
        do throws(StoreError) {
            return try apply([(sequence, job)])[0]
        } catch {
            logger.error("A job could not be stored.", metadata: ["id": "\(job.id)", "cause": "\(error)"])
            let end = JobEnd.failed(Fault(error.faultCode, error.message))
            return Applied(
                sequence: sequence, job: job, end: end, mergedMicroseconds: 0, appliedAt: monotonicMicroseconds())
        }
    }

    // MARK: - After COMMIT

    /// Tells the ends in order, frees the room, and counts.
    private func settle(_ applied: [Applied]) {
        let committedAt = monotonicMicroseconds()
        let endings = applied.map { $0.ending(committedAt) }
        var roomWaiters: [@Sendable () -> Void] = []
        var tasks: [@Sendable () -> Void] = []
        tasks.reserveCapacity(applied.count)
        flight.broadcast { flight in
            for (applied, ending) in zip(applied, endings) {
                let observer = applied.job.observer
                tasks.append { observer(.ended(ending)) }
                for waiter in flight.ended(applied.job.id, applied.job.weight) { tasks.append { waiter(ending) } }
            }
            roomWaiters = flight.takeRoomWaiters(limits)
            return flight.isDraining || flight.count == 0
        }
        // The rows are freed there, too, while the next ones are merged here.
        tasks.append { withExtendedLifetime(applied) {} }
        completions.run(tasks)
        for tell in roomWaiters { tell() }
        wakePool()
        statistics.count { $0.note(applied, committedAt) }
    }
}

extension WriterLoop.Applied {
    fileprivate func ending(_ committedAt: Int64) -> JobEnding {
        var timing = job.timing
        timing.merged = mergedMicroseconds
        timing.committed = committedAt - appliedAt
        switch end {
        case .failed(let fault): return .failed(fault, id: job.id, sequence: sequence)
        case .duplicate(let outcome):
            // What happened is of the first time; how long it took is this message's own.
            return JobEnding(stored: outcome, id: job.id, isDuplicate: true, timing: timing)
        case .completed(_, let members):
            return JobEnding(
                id: job.id, sequence: sequence,
                result: .completed(members: timing.appended(toMembers: members), isDuplicate: false))
        }
    }
}

extension Statistics.Counters {
    /// One transaction has become durable.
    fileprivate mutating func note(_ applied: [WriterLoop.Applied], _ committedAt: Int64) {
        commits += 1
        for applied in applied {
            switch applied.end {
            case .failed: failed += 1
            case .duplicate: duplicates += 1
            case .completed(let outcome, _):
                completed += 1
                for (_, counts) in outcome.changes { objects.add(counts) }
            }
            let timing = applied.job.timing
            latencies.record(
                queued: timing.queued, staged: timing.staged, merged: applied.mergedMicroseconds,
                committed: committedAt - applied.appliedAt, total: committedAt - applied.job.admittedAt)
        }
    }
}

extension JobEnding {
    /// As the ledger remembers it.
    ///
    /// - Parameter timing: of the message that is answered; nil when it is no job.
    init(stored outcome: StoredOutcome, id: String, isDuplicate: Bool, timing: Timing?) {
        // The ledger's object without its braces.
        let members = Array(outcome.body.dropFirst().dropLast())
        self.init(
            id: id, sequence: outcome.sequence,
            result: outcome.isFailure
                ? .failed(error: outcome.body)
                : .completed(members: timing?.appended(toMembers: members) ?? members, isDuplicate: isDuplicate))
    }
}

extension StoreError {
    var faultCode: FaultCode {
        switch code {
        case .full: .storeFull
        case .unavailable, .incompatible: .storeUnavailable
        case .constraint: .constraintViolation
        case .defect: .internal
        }
    }
}
