internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// The jobs between admission and their end, and the state of their order. A value protected by the coordinator's lock.
struct JobTable {
    let limits: CoordinatorLimits
    var order: MergeOrder<ReadyJob>
    /// Bytes of everything that is admitted and has not ended, as weighed.
    var bytes = 0
    var count = 0
    /// Frames of ``count`` that are not opened yet.
    private(set) var unopened = 0
    /// Jobs of ``count``.
    private(set) var jobCount = 0
    var isDraining = false
    /// Why new jobs are refused; nil while they are accepted.
    var refusal: Fault?
    /// No more frames will be admitted: the writer may end.
    var isStopped = false
    /// The journal has failed: entries on their way to it get no answer.
    var isJournalLost = false
    /// No job is merged until `resume`.
    var isPaused = false
    /// During a reload of the model: jobs and questions after this ticket wait for the new model.
    var reloadTicket: Int?
    /// Frames that wait for the new model, in the order of arrival; a worker opens them again with it.
    var heldFrames: [AdmittedFrame] = []
    /// A request that the writer open the store with another model.
    var reload: ModelReload?
    /// Tasks for the writer's thread, run between two transactions.
    var writerTasks: [@Sendable (Store) -> Void] = []
    /// Tickets of the cancelled jobs whose turn has not come.
    var cancelled: Set<Int> = []
    var journal = JournalProgress()
    /// Callers that wait for room; each is called once.
    private var roomWaiters: [@Sendable () -> Void] = []
    /// A frame that waits for its turn to scan. Called with its new ticket; returns a task to run without the lock.
    typealias WaitingFrame = @Sendable (_ ticket: Int) -> @Sendable () -> Void
    private(set) var turns = ScanScheduler<WaitingFrame>()
    /// By source: callers that wait until no frame of the source waits for its turn, and there is room.
    private var turnWaiters: [Int: [@Sendable () -> Void]] = [:]
    /// Tasks of the frames whose turn has come and that have their new tickets.
    private var called: [@Sendable () -> Void] = []
    /// By ticket: called when it is settled, with the sequence of a job.
    private var whenSettled: [Int: @Sendable (Int64?) -> Void] = [:]
    var running = RunningJobs()
    var ends = CompletionBarrier()
    var unrecorded = UnrecordedFailures()
    /// When jobs stop waiting for a store that another program has locked, in microseconds of the monotonic clock; nil for
    /// never.
    var lockDeadline: Int64?

    /// - Parameters:
    ///   - sequence: the newest that an earlier run used.
    ///   - reservedThrough: the last one that the store has reserved for this run.
    init(after sequence: Int64, reservedThrough: Int64, _ limits: CoordinatorLimits) {
        self.limits = limits
        order = MergeOrder(after: sequence, reservedThrough: reservedThrough)
    }

    /// There is work for the writer.
    var hasWork: Bool { order.hasReady && mayTake || order.isStarved || !writerTasks.isEmpty || reload != nil }

    /// A job is merged only when the journal has it. Pausing does not apply to cancelled jobs.
    private var mayTake: Bool {
        guard isPaused || journal.isOn else { return true }
        guard let (sequence, job) = order.next else { return false }
        if job.skipReason == .unjournaled { return true }
        if journal.isOn, !journal.has(sequence, job.ticket) { return false }
        return !isPaused || job.skipReason != nil
    }

    /// The next job is a scan that may take long: the jobs before it should not wait for its transaction.
    var isNextLong: Bool { turns.hasLong && order.nextReady.map { turns.isSearching($0.accepted.arrival) } ?? false }

    /// Takes the next job of a transaction; nil when none is ready, or it should go into another transaction.
    ///
    /// A large job does not join small ones: their COMMIT would wait for its merge, and a COMMIT of its own costs it little.
    mutating func takeNext(after batch: JobBatch) -> (sequence: Int64, job: ReadyJob)? {
        guard mayTake else { return nil }
        if let last = batch.last {
            guard batch.count < CoordinatorLimits.jobsPerCommit, !isNextLong, let next = order.nextReady else {
                return nil
            }
            let isFull = { batch.reduce(0) { $0 + $1.job.accepted.weight } >= CoordinatorLimits.transactionBytes }
            if next.isLarge, !last.job.isLarge || isFull() { return nil }
        }
        return order.takeReady().map { ($0.sequence, $0.work) }
    }

    /// Whether another frame of the source may be admitted.
    func hasRoom(for source: Int) -> Bool { hasRoom && !turns.isWaiting(source) }

    var hasRoomWaiters: Bool { !roomWaiters.isEmpty }

    var hasRoom: Bool {
        reloadTicket == nil && count < limits.jobs && unopened < CoordinatorLimits.unopenedFrames
            && (bytes < limits.bytes || count < CoordinatorLimits.framesOfAnySize)
    }

    /// Calls `notify` once when there is room for the source.
    mutating func waitForRoom(_ source: Int, _ notify: @escaping @Sendable () -> Void) {
        if turns.isWaiting(source) {
            turnWaiters[source, default: []].append(notify)
        } else {
            roomWaiters.append(notify)
        }
    }

    /// Gives a frame its ticket.
    ///
    /// - Parameter logged: the frame was read from the journal, and keeps its sequence.
    mutating func admit(_ weight: Int, from source: Int, _ logged: JournaledJob? = nil) -> Int {
        bytes += weight
        count += 1
        unopened += 1
        let ticket = order.reserve(sequence: logged?.sequence)
        if logged == nil { turns.admit(ticket, from: source) }
        if logged?.isCancelled == true { cancelled.insert(ticket) }
        return ticket
    }

    /// A frame was opened at its first ticket, so that its content is known.
    ///
    /// - Parameter again: makes the call for a frame that must wait.
    /// - Returns: whether the frame continues with its ticket now.
    mutating func opened(
        _ ticket: Int, from source: Int, _ content: ScanScheduler<WaitingFrame>.Content, _ again: () -> WaitingFrame
    ) -> (goesOn: Bool, Effects) {
        let goesOn = turns.opened(ticket, from: source, content, again)
        if !goesOn { unopened -= 1 }
        let completions = goesOn ? [] : notify(order.open(ticket, isJob: false))
        take(turns.call(source, from: order.nextTicket), of: source)
        callNext()
        return (goesOn, effects(completions, notifies: !goesOn && hasWork))
    }

    private mutating func take(_ frames: [WaitingFrame], of source: Int) {
        guard !frames.isEmpty else { return }
        for frame in frames {
            unopened += 1
            called.append(frame(order.reserve()))
        }
        guard !turns.isWaiting(source), let waiters = turnWaiters.removeValue(forKey: source) else { return }
        roomWaiters += waiters
    }

    private mutating func callNext() {
        while let source = turns.next() { take(turns.call(source, from: order.nextTicket), of: source) }
    }

    /// The frame held a job.
    mutating func began(
        _ run: StagingRun, addedWeight: Int, _ acceptance: (@Sendable (Int64?) -> Void)?
    ) -> Effects {
        let job = run.accepted
        let ticket = job.ticket
        bytes += addedWeight
        unopened -= 1
        running.began(job.id, ticket, of: job.owner, job.observer)
        ends.began(ticket, from: job.source, job)
        jobCount += 1
        whenSettled[ticket] = acceptance
        if journal.isOn, run.frame.logged == nil { journal.willAppend(run.journalEntry) }
        let completions = notify(order.open(ticket, isJob: true))
        return effects(completions, notifies: hasWork)
    }

    /// The frame held no job, or a job that was refused.
    ///
    /// - Parameter question: called with the frame's ticket when everything before it has been opened.
    mutating func skipped(
        _ frame: AdmittedFrame, _ question: (@Sendable (Int) -> Void)?
    ) -> Effects {
        let ticket = frame.ticket
        turns.ended(frame.arrival)
        callNext()
        bytes -= frame.weight
        count -= 1
        unopened -= 1
        if let question { whenSettled[ticket] = { _ in question(ticket) } }
        let completions = notify(order.open(ticket, isJob: false))
        // The writer may go on; a caller that drains waits for the last ticket.
        return effects(completions, notifies: hasWork || isDraining || count == 0)
    }

    /// The effects of a change, with the frames whose turn has come and, when there is room, the callers that wait for
    /// it.
    mutating func effects(_ completions: [Effects.Call], notifies: Bool) -> Effects {
        var effects = Effects(completions: completions, notifies: notifies)
        swap(&effects.wakeUps, &called)
        guard !roomWaiters.isEmpty, hasRoom else { return effects }
        effects.wakeUps += roomWaiters
        roomWaiters = []
        return effects
    }

    /// The job has ended. Returns the waiters to call with this end, or with that of the committed job of its id.
    ///
    /// - Parameters:
    ///   - isCommitted: a job of its id is committed: this one, or one before it.
    ///   - owner: the owner of the committed job.
    ///   - microseconds: the writer's time for the job.
    ///   - now: the time of the monotonic clock, in microseconds.
    mutating func ended(
        _ job: AcceptedJob, isCommitted: Bool, owner: JobOwner?, took microseconds: Int64, at now: Int64
    ) -> [RunningJobs.Waiter] {
        turns.note(job.arrival, took: microseconds, at: now)
        bytes -= job.weight
        count -= 1
        jobCount -= 1
        ends.ended(job.ticket, from: job.source)
        turns.ended(job.arrival)
        callNext()
        if !cancelled.isEmpty { cancelled.remove(job.ticket) }
        journal.ended(job.ticket)
        return running.ended(job.id, isCommitted: isCommitted, owner: owner)
    }

    /// The job is staged, or its staging has failed.
    mutating func finish(_ job: ReadyJob) -> Effects {
        if let fault = journal.fault(at: job.ticket) {
            order.finish(job.ticket, job.unjournaled(fault))
        } else {
            order.finish(job.ticket, cancelled.contains(job.ticket) ? job.cancelled() : job)
        }
        return Effects(notifies: hasWork)
    }

    /// Takes the jobs that can get no sequence, and the completions of the tickets that this settled.
    mutating func takeStarved() -> (jobs: [ReadyJob], completions: [Effects.Call]) {
        var jobs: [ReadyJob] = []
        var tasks: [@Sendable () -> Void] = []
        while let (job, settled) = order.takeStarved() {
            jobs.append(job)
            tasks += notify(settled)
        }
        return (jobs, tasks)
    }

    mutating func notify(_ settled: [MergeOrder<ReadyJob>.Settled]) -> [@Sendable () -> Void] {
        guard !whenSettled.isEmpty || journal.isOn else { return [] }
        var tasks: [@Sendable () -> Void] = []
        for ticket in settled {
            let notify = whenSettled.removeValue(forKey: ticket.ticket)
            let sequence = ticket.sequence
            // A question is asked at once; `accepted` is sent when the journal has the job.
            if let sequence, journal.append(ticket.ticket, sequence, notify) { continue }
            if let notify { tasks.append { notify(sequence) } }
        }
        return tasks
    }
}
