public import BrokerJSON
public import BrokerModel
public import BrokerStaging
public import BrokerStore
public import Logging

/// Takes jobs, gives them tickets, has them staged, and lets one writer merge them in ticket order.
///
/// ```
/// admit ─▶ place ─▶ worker: open ─▶ ticket ─▶ worker: stage ─▶ merge order ─▶ writer: merge, COMMIT ─▶ observers
/// ```
///
/// Embeddable: it knows neither sockets nor frames. All its methods may be called from any thread and none blocks,
/// but ``finishAdmitted()`` and ``stop()``.
///
/// Ordering: places are given in the order of ``admit(payloadBytes:open:)``, and jobs take effect, and end, in the order
/// of their places. Observers are called one after the other, on one thread.
public final class Coordinator: Sendable {
    public let model: Model
    public let limits: CoordinatorLimits
    public let retention: LedgerRetention
    let plan: StagingPlan
    let flight: Monitor<Flight>
    let statistics: Statistics
    let completions: SerialThread
    private let ledger: LedgerThread
    private let pool: WorkerPool
    private let writer: Writer
    /// Tells the ids that this run of the server made from those of earlier runs.
    private let run = String(UInt64.random(in: .min ... .max), radix: 16)

    /// Opens the store and starts the threads.
    ///
    /// - Throws: `StoreError`.
    public init(plan: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        let limits = options.limits
        let flight = Monitor(Flight(after: 0, reservedThrough: 0))
        let statistics = Statistics()
        let completions = SerialThread(named: "completions")
        let pool = WorkerPool(count: limits.workers) { flight.withLock { $0.bytes < limits.bytes } }
        do throws(StoreError) {
            writer = try Writer(
                plan: plan, options: options, flight: flight, statistics: statistics, completions: completions,
                wakePool: { pool.wake() }, logger: logger)
        } catch {
            pool.stop()
            completions.stop()
            throw error
        }
        self.plan = plan
        self.limits = limits
        self.flight = flight
        self.statistics = statistics
        model = plan.model
        retention = options.store.retention
        ledger = LedgerThread(path: options.storePath)
        self.pool = pool
        self.completions = completions
    }

    // MARK: - Admission

    /// A whole frame has arrived: it takes its place in the order, and a worker opens it.
    ///
    /// - Parameters:
    ///   - payloadBytes: bytes of the frame.
    ///   - open: called once, on a worker: decodes the frame, answers it when it is no job. Must not call back here.
    public func admit(payloadBytes: Int, open: @escaping @Sendable () -> Opened) {
        let (place, isDraining) = flight.withLock { ($0.admit(payloadBytes), $0.isDraining) }
        let admittedAt = monotonicMicroseconds()
        pool.open(isSmall: payloadBytes <= CoordinatorLimits.smallPayloadBytes) { [self] in
            let openedAt = monotonicMicroseconds()
            switch open() {
            case .nothing: skip(place, payloadBytes)
            case .question(let ask): skip(place, payloadBytes, ask)
            case .job(let job) where isDraining:
                refuse(job, Self.draining)
                skip(place, payloadBytes)
            case .job(let job):
                begin(job, place, payloadBytes, Timeline(admittedAt: admittedAt, openedAt: openedAt))
            }
        }
    }

    /// More may be admitted.
    public var hasRoom: Bool { flight.withLock { $0.hasRoom(limits) } }

    /// Calls `tell` once when there is room: at once, or on a thread of the coordinator's later.
    public func whenRoom(_ tell: @escaping @Sendable () -> Void) {
        let hasRoom = flight.withLock { flight in
            if flight.hasRoom(limits) { return true }
            flight.roomWaiters.append(tell)
            return false
        }
        if hasRoom { tell() }
    }

    private static let draining = Fault(
        .draining, "The server is stopping and takes no new jobs. Send it again when the server is back.")

    private func refuse(_ job: Job, _ fault: Fault) {
        let ending = JobEnding.failed(fault, id: job.id ?? "", sequence: nil)
        completions.run { job.observer(.ended(ending)) }
        statistics.count { $0.noteFailure(fault.code) }
    }

    private func skip(_ place: Int, _ weight: Int, _ question: (@Sendable (Int) -> Void)? = nil) {
        var roomWaiters: [@Sendable () -> Void] = []
        flight.broadcast { flight in
            completions.run(flight.skipped(place, weight, question))
            roomWaiters = flight.takeRoomWaiters(limits)
            // The writer may go on; one who drains waits for the last place to go.
            return flight.hasWork || flight.isDraining || flight.count == 0
        }
        for tell in roomWaiters { tell() }
    }

    // MARK: - Staging

    private func begin(_ job: Job, _ place: Int, _ payloadBytes: Int, _ timeline: Timeline) {
        let id = JobID(job.id ?? "broker-\(run)-\(place)")
        let added = job.content.count
        flight.broadcast { flight in
            var acceptance: (@Sendable (Int64?) -> Void)?
            if job.wantsAcceptance {
                acceptance = { if let sequence = $0 { job.observer(.accepted(id: id.text, sequence: sequence)) } }
            }
            completions.run(flight.began(id, place, addedWeight: added, acceptance))
            return flight.hasWork
        }
        statistics.count { $0.accepted += 1 }
        let run = StagingRun(job, id, place, weight: payloadBytes + added, timeline)
        do throws(Fault) {
            let collections = JobCollection.collections(of: try operations(of: job), in: job.document)
            if collections.count == 1 {
                finish(run, StagedJobRows.unite([try staged(collections[0], job.policy)], plan))
            } else {
                stage(collections, run)
            }
        } catch {
            finish(run, .refused(error))
        }
    }

    private func operations(of job: Job) throws(Fault) -> [StagingOperation] {
        var operations: [StagingOperation] = []
        for operation in job.operations {
            guard let entity = model.index(ofEntity: operation.entity) else {
                let known = model.entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
                throw Fault(
                    .unknownEntity, "The model has no entity \"\(operation.entity)\". It has: \(known).",
                    path: operation.entityPointer, entity: operation.entity)
            }
            operations.append(StagingOperation(entity: entity, json: operation.json))
        }
        return operations
    }

    /// Stages each collection on whichever worker is free; the last one done unites them.
    private func stage(_ collections: [JobCollection], _ run: StagingRun) {
        let results = Monitor([Result<StagedPart, Fault>?](repeating: nil, count: collections.count))
        for (number, collection) in collections.enumerated() {
            pool.stage { [self] in
                let result = Result { () throws(Fault) in try staged(collection, run.job.policy) }
                let all = results.withLock { results -> [Result<StagedPart, Fault>]? in
                    results[number] = result
                    let done = results.compactMap { $0 }
                    return done.count == results.count ? done : nil
                }
                guard let all else { return }
                do throws(Fault) {
                    var parts: [StagedPart] = []
                    for result in all { parts.append(try result.get()) }
                    finish(run, StagedJobRows.unite(parts, plan))
                } catch {
                    finish(run, .refused(error))
                }
            }
        }
    }

    private func staged(_ collection: JobCollection, _ policy: InvalidRecordPolicy) throws(Fault) -> StagedPart {
        do throws(StagingRefusal) {
            return try collection.stage(plan, policy)
        } catch {
            switch error {
            case .fault(let fault): throw fault
            case .noRoom: preconditionFailure("no allowance was given, so none can be refused")
            }
        }
    }

    private func finish(_ run: StagingRun, _ rows: StagedRows) { finish(run, .rows(rows)) }

    private func finish(_ run: StagingRun, _ work: StoreJob.Work) {
        let ready = run.ready(work)
        flight.broadcast { flight in
            flight.order.finish(run.place, ready)
            return flight.hasWork
        }
    }

    // MARK: - Awaiting, stopping

    /// Tells how a job ended, now or when it ends; nil when nobody knows that id.
    ///
    /// What is committed under the id is told, whatever else comes under it. If nothing is, the newest job of that id before
    /// the question is meant; it is waited for, and its failure is told.
    ///
    /// - Parameters:
    ///   - place: of the question among the frames; nil asks after everything admitted so far.
    ///   - tell: called once, on a thread of the coordinator's.
    public func await(
        _ id: String, before place: Int? = nil, _ tell: @escaping @Sendable (Result<JobEnding?, StoreError>) -> Void
    ) {
        let key = JobID(id)
        let (ticket, kept) = flight.withLock { flight in
            (flight.running.await(key, before: place) { tell(.success($0)) }, flight.kept.ending(of: key))
        }
        // A job leaves the flight after its COMMIT, so what is not in flight is in the ledger, kept for it, or unknown.
        ledger.find(id) { [flight] result in
            guard case .success(let ending) = result else { return ticket == nil ? tell(result) : () }
            let isCommitted = ending?.isCommitted == true
            if let ticket {
                if isCommitted, flight.withLock({ $0.running.forget(ticket) }) { tell(result) }
            } else if let kept, !isCommitted, ending?.sequence ?? 0 < kept.sequence ?? 0 {
                tell(.success(kept))
            } else {
                tell(result)
            }
        }
    }

    /// From now on new jobs are refused; those admitted before still take effect. Any number of calls.
    ///
    /// - Parameter seconds: how long jobs still wait for a store that another program has locked; then they fail.
    public func refuseNewJobs(lockSeconds seconds: Int = CoordinatorLimits.defaultLockSecondsAtStop) {
        flight.withLock {
            $0.isDraining = true
            $0.lockDeadline = $0.lockDeadline ?? monotonicMicroseconds() + Int64(seconds) * 1_000_000
        }
    }

    /// Waits until everything admitted before has taken effect. Blocks; to be called after ``refuseNewJobs()``.
    public func finishAdmitted() { flight.wait { $0.count == 0 ? () : nil } }

    /// Refuses new jobs, finishes those admitted before, and ends the threads. Blocks; called once, and nothing may be
    /// admitted afterwards.
    public func stop() {
        refuseNewJobs()
        finishAdmitted()
        pool.stop()
        flight.broadcast {
            $0.isStopped = true
            return true
        }
        ledger.stop()
        writer.join()
        completions.stop()
    }

    /// Queue depths, for `stats`.
    public func writeStatistics(to writer: inout JSONWriter) {
        let depths = pool.depths
        let (jobs, bytes) = flight.withLock { ($0.jobCount, $0.bytes) }
        statistics.write(to: &writer, opening: depths.opening, staging: depths.staging, inFlight: jobs, bytes: bytes)
    }
}

/// When what happened to one job, in microseconds of the monotonic clock.
struct Timeline: Sendable {
    let admittedAt: Int64
    let openedAt: Int64
}

/// A job on its way through staging.
struct StagingRun: Sendable {
    let job: Job
    let id: JobID
    let place: Int
    let weight: Int
    private let timeline: Timeline

    init(_ job: Job, _ id: JobID, _ place: Int, weight: Int, _ timeline: Timeline) {
        self.job = job
        self.id = id
        self.place = place
        self.weight = weight
        self.timeline = timeline
    }

    func ready(_ work: StoreJob.Work) -> ReadyJob {
        var timing = Timing()
        timing.queued = timeline.openedAt - timeline.admittedAt
        timing.staged = monotonicMicroseconds() - timeline.openedAt
        return ReadyJob(
            id: id, place: place, contentHash: job.id == nil ? nil : ContentHash.hash(job.content.bytes),
            policy: job.policy, wantsKeys: job.wantsKeys, work: work, observer: job.observer, weight: weight,
            admittedAt: timeline.admittedAt, timing: timing)
    }
}
