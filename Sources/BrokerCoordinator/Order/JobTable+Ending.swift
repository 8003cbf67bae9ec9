internal import BrokerJournal
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore

/// Jobs that keep their tickets and are not merged, because they are cancelled.
extension JobTable {
    /// Cancels the jobs of that id before a ticket that the asker may see: all of them, or none if the merge of one has begun. A
    /// cancelled job keeps its ticket, and fails when its turn comes.
    ///
    /// - Parameter answer: answers the asker, before the observers and waiters of the jobs are called; with a log on the disk, when
    ///   the cancellation is in it.
    /// - Returns: nil when no such job is in flight; the asker is then not answered.
    mutating func cancel(
        _ id: JobID, before ticket: Int?, as asker: JobOwner, _ answer: @escaping @Sendable (Cancellation) -> Void
    ) -> Effects? {
        let found = running.find(id, before: ticket, as: asker)
        guard !found.isEmpty else { return nil }
        // A job that the log refused fails for that reason.
        let mayCancel = log.durable?.takesCancellations ?? true
        guard mayCancel, found.allSatisfy({ application.holds($0.ticket) && $0.skipReason != .refused }) else {
            return Effects(completions: [{ answer(.tooLate(nil)) }], notifies: hasWork)
        }
        guard log.durable != nil else {
            let completions = [{ answer(.cancelled) }] + found.flatMap { markCancelled($0) }
            return Effects(completions: completions, notifies: hasWork)
        }
        let fresh = found.filter { $0.skipReason == nil }
        guard let last = fresh.last else {
            return Effects(completions: [{ answer(.cancelled) }], notifies: hasWork)
        }
        for job in fresh { log(job, as: asker, answer: job.ticket == last.ticket ? answer : nil) }
        return Effects(notifies: hasWork)
    }

    /// Has the log store the cancellation, as soon as it has the job.
    private mutating func log(
        _ job: AcceptedJob, as asker: JobOwner, answer: (@Sendable (Cancellation) -> Void)?
    ) {
        let entry = { (place: LogPlace) in
            PendingEntry(
                ticket: job.ticket,
                entry: LogEntry(
                    .cancellation, position: place.position ?? 0, id: job.id, isPrivileged: asker.isPrivileged,
                    user: asker.user, time: wallClockMilliseconds()))
        }
        cancellations.add(Cancellations.Request(job: job, answer: answer, entry: entry))
        if let place = application.place(of: job.ticket) { log.durable?.append(entry(place)) }
    }

    private mutating func markCancelled(_ job: AcceptedJob) -> [@Sendable () -> Void] {
        guard job.skipReason == nil else { return [] }
        job.withdraw(.cancelled, .cancelled)
        let sequence = application.place(of: job.ticket)?.position
        let completion = JobCompletion.failed(.cancelled, id: job.id, owner: job.owner, sequence: sequence)
        let waiters = running.cancelled(job.key, at: job.ticket, completion)
        return [
            {
                job.observer(.ended(completion))
                for waiter in waiters { waiter.notify(completion) }
            }
        ]
    }

    mutating func decideCancellation(_ entry: PendingEntry) -> [Effects.Call] {
        guard let request = cancellations.take(entry.ticket) else { return [] }
        let calls = markCancelled(request.job)
        guard let answer = request.answer else { return calls }
        return [{ answer(.cancelled) }] + calls
    }

    mutating func failCancellation(_ entry: PendingEntry, _ error: StoreError) -> [Effects.Call] {
        guard let answer = cancellations.take(entry.ticket)?.answer else { return [] }
        return [{ answer(.failed(error)) }]
    }
}

extension Fault {
    static let cancelled = Fault(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")
}

/// Jobs that the writer takes, and their ends.
extension JobTable {
    /// The writer's next work: nil when nothing is ready. The inner nil means that no more will come.
    mutating func takeTurn() -> WriterTurn?? {
        var turn = WriterTurn()
        swap(&turn.tasks, &requests.tasks)
        turn.refused = takeRefused()
        while let next = takeNext(after: turn.jobs) { turn.jobs.append(next) }
        if turn.jobs.isEmpty { swap(&turn.reopening, &requests.reopening) }
        if turn.jobs.isEmpty, turn.refused.isEmpty, turn.tasks.isEmpty, turn.reopening == nil, !log.memory.isStarved {
            return service.isStopped ? .some(nil) : nil
        }
        turn.reservation = log.memory.reservationDue
        return turn
    }

    /// The ends of a transaction's jobs.
    struct Settlement {
        /// The completions of tickets that got sequences of the reservation; they precede those of ``effects``.
        var reserved: [Effects.Call] = []
        var effects = Effects()
        var hasUnrecordedFailures = false
        var hasWork = false
    }

    /// Ends the jobs of a transaction that is durable, and has reserved sequences up to that one. `report` returns the call that
    /// reports the jobs' ends, in their order, to the observers and the waiters.
    mutating func settle(
        _ applied: [AcceptedJob], reservation: Int64?, at committedAt: Int64,
        report: ([(AcceptedJob, [RunningJobs.Waiter])]) -> Effects.Call
    ) -> Settlement {
        var settlement = Settlement()
        if let reservation {
            log.memory.extend(through: reservation)
            settlement.reserved = deliverReserved()
        }
        var ended: [(AcceptedJob, [RunningJobs.Waiter])] = []
        ended.reserveCapacity(applied.count)
        for job in applied {
            ended.append((job, self.ended(job, at: committedAt)))
            guard job.isUnwritten, case .failed(let fault) = job.end, let sequence = job.sequence else { continue }
            // Without its rows, which are not needed any more.
            let failed = StoreJob(
                job.facts, sequence: sequence, work: .refused(fault), now: job.place.time)
            unrecorded.keep(failed, job.completion(committedAt))
        }
        // The waiters for these ends follow the ends themselves.
        let completions = (ended.isEmpty ? [] : [report(ended)]) + ends.takeReady()
        settlement.hasUnrecordedFailures = !unrecorded.isEmpty
        settlement.hasWork = hasWork
        settlement.effects = effects(
            completions, notifies: service.isDraining || log.isReaderWaiting || load.count == 0)
        return settlement
    }

    /// Drops jobs without an answer, because the store has failed. Waiters for these jobs learn that from the observers.
    mutating func drop(_ jobs: [AcceptedJob], at now: Int64) -> Effects {
        for job in jobs {
            job.dropped()
            _ = ended(job, at: now)
        }
        return effects(ends.takeReady(), notifies: true)
    }
}

/// The calls that follow a change of the job table.
struct Effects {
    typealias Call = @Sendable () -> Void

    /// Calls of observers and waiters, for the thread of completions, in this order.
    var completions: [Call] = []
    /// Callers that waited for room, and frames whose turn has come.
    var wakeUps: [Call] = []
    /// The threads that wait for the table look again.
    var notifies = false
}

extension Monitor<JobTable> {
    /// Changes the table, and makes the calls that follow.
    ///
    /// Completions are passed on under the lock, so that those of several changes keep the order of the changes. The
    /// woken callers are called without the lock: they may use the table.
    func change(_ completions: SerialThread, _ body: (inout JobTable) -> Effects) {
        var wakeUps: [Effects.Call] = []
        broadcast { jobTable in
            let effects = body(&jobTable)
            completions.run(effects.completions)
            wakeUps = effects.wakeUps
            return effects.notifies
        }
        for call in wakeUps { call() }
    }
}

/// The cancellations that wait until the log has them; their jobs are not merged meanwhile. A pure value.
struct Cancellations {
    struct Request {
        let job: AcceptedJob
        /// Answers the asker; nil for all but one of several jobs.
        let answer: (@Sendable (Cancellation) -> Void)?
        /// Its entry, which is appended when the log has the job.
        let entry: (LogPlace) -> PendingEntry
    }

    /// By ticket, in the order of their entries.
    private var requests: [Int: [Request]] = [:]

    var areLogged: Bool { !requests.isEmpty }

    func holds(_ ticket: Int) -> Bool { !requests.isEmpty && requests[ticket] != nil }

    mutating func add(_ request: Request) { requests[request.job.ticket, default: []].append(request) }

    func entries(of ticket: Int, at place: LogPlace) -> [PendingEntry] {
        requests.isEmpty ? [] : (requests[ticket] ?? []).map { $0.entry(place) }
    }

    /// The first cancellation of that ticket has been decided.
    mutating func take(_ ticket: Int) -> Request? {
        guard var known = requests.removeValue(forKey: ticket) else { return nil }
        let first = known.removeFirst()
        if !known.isEmpty { requests[ticket] = known }
        return first
    }

    /// All cancellations of that ticket have been decided.
    mutating func takeAll(_ ticket: Int) -> [Request] {
        requests.isEmpty ? [] : requests.removeValue(forKey: ticket) ?? []
    }
}

/// The writer's next work. Its jobs are applied all together, and, if the store does not accept them, each alone. A pure value.
///
/// ```
/// together ─▶ applied: the rest together (answers of its jobs may need several transactions)
///    └─ failed ─▶ alone, alone, …          without jobs: the jobs without sequences fail
/// ```
struct WriterTurn {
    enum Step {
        /// One transaction of all jobs in ``WriterTurn/jobs``, or of as many as it has room for.
        case together
        case alone(AcceptedJob)
        /// No more sequences can be reserved: the jobs that wait for one fail.
        case failStarved(StoreError)
    }

    var reopening: StoreReopening?
    var tasks: [@Sendable (Store) -> Void] = []
    /// Jobs that the log refused: they end without a transaction.
    var refused: [AcceptedJob] = []
    /// The jobs that have not been applied, in order.
    var jobs: [AcceptedJob] = []
    /// The last sequence of the block to reserve. A turn may have no jobs but a reservation for those without sequences.
    var reservation: Int64?
    private var isApart = false
    private(set) var shortage: StoreError?

    /// The next step; nil when the turn is done.
    var next: Step? {
        if let shortage { return .failStarved(shortage) }
        guard isApart else { return jobs.isEmpty && reservation == nil ? nil : .together }
        return jobs.first.map { .alone($0) }
    }

    /// The first jobs are durable, in one transaction or alone.
    mutating func applied(_ count: Int) {
        jobs.removeFirst(count)
        reservation = nil
    }

    /// The transaction of all jobs was undone. When the store has made room for the reservation, the next turn repeats it.
    mutating func failed(_ error: StoreError, hasMadeRoom: Bool) {
        isApart = true
        if jobs.isEmpty, !hasMadeRoom { shortage = error }
    }

    /// The jobs without sequences have failed.
    mutating func starvedFailed() { shortage = nil }
}

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
