internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// What the coordinator knows of the jobs between admission and their end. A value behind the coordinator's lock.
struct JobTable {
    var order: MergeOrder<ReadyJob>
    /// Weights of everything admitted and not ended.
    var bytes = 0
    var count = 0
    /// Of these, the frames that are not opened yet.
    private(set) var unopened = 0
    /// Of these, the jobs.
    private(set) var jobCount = 0
    var isDraining = false
    /// Why new jobs are refused; nil while they are taken.
    var refusal: Fault?
    /// Nothing will come any more: the writer may end.
    var isStopped = false
    /// The log keeps nothing any more: what is on its way there has no end.
    var isLogLost = false
    /// Nothing is merged until it goes on.
    var isPaused = false
    /// While the model is changed: jobs and questions behind that place wait for the new one.
    var holdsBehind: Int?
    /// In the order of their coming; they are opened anew when it is there.
    var heldFrames: [AdmittedFrame] = []
    /// The writer is to open the store with another model.
    var reload: WriterLoop.Reload?
    /// What is to be done on the writer's thread, between two transactions.
    var writerTasks: [@Sendable (Store) -> Void] = []
    /// Places of the jobs that were taken back and have not come to their turn.
    var cancelled: Set<Int> = []
    var logging = JournalProgress()
    /// Called once, when there is room again.
    private var roomWaiters: [@Sendable () -> Void] = []
    /// A frame that waits for its turn, to be given its new place; gives back what is to be done when the lock is free.
    typealias WaitingFrame = @Sendable (_ place: Int) -> @Sendable () -> Void
    private var turns = ScanScheduler<WaitingFrame>()
    /// By source: called when nothing of it waits any longer, and there is room.
    private var turnWaiters: [Int: [@Sendable () -> Void]] = [:]
    /// Frames that are called, and have their places.
    private var called: [@Sendable () -> Void] = []
    /// By place: what to do when it is settled, with the sequence of a job.
    private var whenSettled: [Int: @Sendable (Int64?) -> Void] = [:]
    var running = RunningJobs()
    var ends = CompletionBarrier()
    var kept = UnrecordedFailures()
    /// When jobs are no longer kept for a store that another program has locked, in microseconds of the monotonic clock;
    /// nil for never.
    var lockDeadline: Int64?

    /// - Parameters:
    ///   - sequence: the newest that was told before.
    ///   - reservedThrough: the last one that is set aside for this flight.
    init(after sequence: Int64, reservedThrough: Int64) {
        order = MergeOrder(after: sequence, reservedThrough: reservedThrough)
    }

    /// The writer can go on.
    var hasWork: Bool { order.hasReady && mayTake || order.isStarved || !writerTasks.isEmpty || reload != nil }

    /// What the log has not taken yet is not merged. What was taken back is none that a pause could hold.
    private var mayTake: Bool {
        guard isPaused || logging.isOn else { return true }
        guard let (sequence, job) = order.next else { return false }
        if job.skipReason == .unjournaled { return true }
        return logging.has(sequence, job.place) && (!isPaused || job.skipReason != nil)
    }

    /// The next job is a search that may take long: those before it should not wait for its transaction.
    var isNextLong: Bool { turns.hasLong && order.nextReady.map { turns.isSearching($0.accepted.arrival) } ?? false }

    /// Takes the next job of a transaction; nil when none is ready, or it should have another.
    ///
    /// A large job does not join small ones: their COMMIT would wait for its work, and costs it little.
    mutating func takeNext(behind batch: WriterLoop.Batch) -> (sequence: Int64, job: ReadyJob)? {
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

    /// More may be admitted from that source.
    func hasRoom(_ limits: CoordinatorLimits, for source: Int) -> Bool {
        hasRoom(limits) && !turns.isWaiting(source)
    }

    private func hasRoom(_ limits: CoordinatorLimits) -> Bool {
        holdsBehind == nil && count < limits.jobs && unopened < CoordinatorLimits.unopenedFrames
            && (bytes < limits.bytes || count < CoordinatorLimits.framesOfAnySize)
    }

    /// Calls `tell` once when there is room for the source.
    mutating func waitForRoom(_ source: Int, _ tell: @escaping @Sendable () -> Void) {
        if turns.isWaiting(source) {
            turnWaiters[source, default: []].append(tell)
        } else {
            roomWaiters.append(tell)
        }
    }

    /// A frame takes its place.
    ///
    /// - Parameter logged: it was read from the log, and keeps its sequence.
    mutating func admit(_ weight: Int, from source: Int, _ logged: JournaledJob? = nil) -> Int {
        bytes += weight
        count += 1
        unopened += 1
        let place = order.reserve(sequence: logged?.sequence)
        if logged == nil { turns.admit(place, from: source) }
        if logged?.isCancelled == true { cancelled.insert(place) }
        return place
    }

    /// A frame was opened at its first place, and it is known what it holds: does it go on? Gives back what is to be done
    /// about the places that this settled.
    mutating func opened(
        _ place: Int, from source: Int, _ content: ScanScheduler<WaitingFrame>.Content, _ again: @escaping WaitingFrame
    ) -> (goesOn: Bool, tasks: [@Sendable () -> Void]) {
        let goesOn = turns.opened(place, from: source, content, again)
        if !goesOn { unopened -= 1 }
        let tasks = goesOn ? [] : tell(order.open(place, isJob: false))
        take(turns.call(source, from: order.nextPlace), of: source)
        callNext()
        return (goesOn, tasks)
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
        while let source = turns.next() { take(turns.call(source, from: order.nextPlace), of: source) }
    }

    /// The frame held a job. Gives back what is to be done about the places that this settled.
    mutating func began(
        _ run: StagingRun, addedWeight: Int, _ acceptance: (@Sendable (Int64?) -> Void)?
    ) -> [@Sendable () -> Void] {
        let job = run.accepted
        let place = job.place
        bytes += addedWeight
        unopened -= 1
        running.began(job.id, place, of: job.owner, job.observer)
        ends.began(place, from: job.source)
        jobCount += 1
        whenSettled[place] = acceptance
        if logging.isOn, run.frame.logged == nil { logging.willLog(run.logEntry) }
        return tell(order.open(place, isJob: true))
    }

    /// The frame held no job, or one that was refused.
    ///
    /// - Parameter question: to be asked when everything before it has been opened, with its place.
    mutating func skipped(
        _ frame: AdmittedFrame, _ question: (@Sendable (Int) -> Void)?
    ) -> [@Sendable () -> Void] {
        let place = frame.place
        turns.ended(frame.arrival)
        callNext()
        bytes -= frame.weight
        count -= 1
        unopened -= 1
        if let question { whenSettled[place] = { _ in question(place) } }
        return tell(order.open(place, isJob: false))
    }

    /// Those who are called, and those who wait for room, when there is some: each is to be told once, without the lock.
    mutating func takeWoken(_ limits: CoordinatorLimits) -> [@Sendable () -> Void] {
        var woken: [@Sendable () -> Void] = []
        if !called.isEmpty { swap(&woken, &called) }
        guard !roomWaiters.isEmpty, hasRoom(limits) else { return woken }
        woken += roomWaiters
        roomWaiters = []
        return woken
    }

    /// Gives back who is to be told of that end, or of the committed job's.
    ///
    /// - Parameters:
    ///   - isCommitted: a job of its id is committed: this one, or one before it.
    ///   - owner: whose that one is.
    ///   - microseconds: that it took the writer.
    ///   - now: of the monotonic clock.
    mutating func ended(
        _ job: AcceptedJob, isCommitted: Bool, owner: JobOwner?, took microseconds: Int64, at now: Int64
    ) -> [RunningJobs.Waiter] {
        turns.note(job.arrival, took: microseconds, at: now)
        bytes -= job.weight
        count -= 1
        jobCount -= 1
        ends.ended(job.place, from: job.source)
        turns.ended(job.arrival)
        callNext()
        if !cancelled.isEmpty { cancelled.remove(job.place) }
        logging.ended(job.place)
        return running.ended(job.id, isCommitted: isCommitted, owner: owner)
    }

    /// It is staged, or has failed to be.
    mutating func finish(_ job: ReadyJob) {
        if let fault = logging.fault(at: job.place) { return order.finish(job.place, job.unjournaled(fault)) }
        order.finish(job.place, cancelled.contains(job.place) ? job.cancelled() : job)
    }

    /// More sequences are set aside. Gives back what is to be done about the places that this settled.
    mutating func reserved(through sequence: Int64) -> [@Sendable () -> Void] { tell(order.extend(through: sequence)) }

    /// Takes the jobs that can have no sequence, and what is to be done about the places that this settled.
    mutating func takeStarved() -> (jobs: [ReadyJob], tasks: [@Sendable () -> Void]) {
        var jobs: [ReadyJob] = []
        var tasks: [@Sendable () -> Void] = []
        while let (job, settled) = order.takeStarved() {
            jobs.append(job)
            tasks += tell(settled)
        }
        return (jobs, tasks)
    }

    private mutating func tell(_ settled: [MergeOrder<ReadyJob>.Settled]) -> [@Sendable () -> Void] {
        guard !whenSettled.isEmpty || logging.isOn else { return [] }
        var tasks: [@Sendable () -> Void] = []
        for place in settled {
            let tell = whenSettled.removeValue(forKey: place.place)
            let sequence = place.sequence
            // A question may be asked at once; that a job is accepted is told when the log has it.
            if let sequence, logging.log(place.place, sequence, tell) { continue }
            if let tell { tasks.append { tell(sequence) } }
        }
        return tasks
    }
}
