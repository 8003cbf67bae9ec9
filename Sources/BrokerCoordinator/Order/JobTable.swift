internal import BrokerJournal
internal import BrokerModel
internal import BrokerStore

/// The jobs between admission and their end, and the state of their order. A value protected by the coordinator's lock.
struct JobTable {
    /// A frame that waits for its turn to scan. Called with its new ticket; returns a task to run without the lock.
    typealias WaitingFrame = @Sendable (_ ticket: Int) -> @Sendable () -> Void

    var load: Load
    var admission = Admission<FrameEnd>()
    var application: Application<AcceptedJob>
    var log: Log
    var service = ServiceState()
    var refusals = Refusals()
    var reload = Reload()
    var requests = WriterRequests()
    var cancellations = Cancellations()
    /// Jobs that go to the log when they are staged, so that it has none for which there is no memory. They are large:
    /// a small one would be stored later than it must.
    private(set) var unstagedTickets: Set<Int> = []
    private(set) var turns = ScanScheduler<WaitingFrame>()
    private(set) var waiters = RoomWaiters()
    var running = RunningJobs()
    var ends = CompletionBarrier()
    var unrecorded = UnrecordedFailures()

    /// The newest sequence that an earlier run used, and the last one that the store has reserved for this run.
    init(after sequence: Int64, reservedThrough: Int64, _ limits: CoordinatorLimits) {
        load = Load(limits: limits)
        application = Application(after: sequence)
        log = Log(
            memory: MemoryLog(after: sequence, reservedThrough: reservedThrough, block: limits.sequenceBlock))
    }

    // MARK: - Its parts

    /// What is admitted and has not ended.
    struct Load {
        let limits: CoordinatorLimits
        var bytes = 0
        var count = 0
        /// Those of jobs that were read from the log: clients do not wait for their room, which the log's reader limits.
        var others = (bytes: 0, count: 0)
        /// Frames of clients that are not opened yet.
        var unopened = 0
        /// Bytes of the users that have a limit, or may get one; never 0.
        private var userBytes: [UInt32: Int] = [:]
        var userLimit = UserLimit()

        /// Whether another frame may be admitted that is read from the log.
        var hasRoomForOthers: Bool { hasRoom(for: others.count, others.bytes) }
        var hasRoomForOwn: Bool { hasRoom(for: count - others.count, bytes - others.bytes) }
        var hasFewUnopened: Bool { unopened < CoordinatorLimits.unopenedFrames }

        func hasRoom(of user: UInt32) -> Bool {
            userLimit.of(user).map { userBytes[user, default: 0] < $0 } ?? true
        }

        private func hasRoom(for count: Int, _ bytes: Int) -> Bool {
            count < limits.jobs && (bytes < limits.bytes || count < CoordinatorLimits.framesOfAnySize)
        }

        init(limits: CoordinatorLimits) { self.limits = limits }

        mutating func add(_ weight: Int, frames: Int, isFromLog: Bool, of user: UInt32) {
            bytes += weight
            count += frames
            if isFromLog {
                others.bytes += weight
                others.count += frames
            } else if !JobOwner(user: user).isPrivileged {
                let held = userBytes[user, default: 0] + weight
                userBytes[user] = held > 0 ? held : nil
            }
        }
    }

    /// Where the order of jobs is decided.
    struct Log {
        /// Nil for ``memory``, which has the reservation of sequences in any case.
        var durable: (any JobLog)?
        var memory: MemoryLog
        /// It has failed, or is not read any more: entries on their way to it get no answer.
        var isLost = false
        /// Entries that it delivers from now on are left for the next start.
        var isReadingEnded = false
        /// Its reader waits for the end of jobs.
        var isReaderWaiting = false
        /// Its reader makes a change, for which it waits for the writer.
        var isReaderChanging = false
    }

    struct ServiceState {
        /// New jobs are refused, because the server stops.
        var isDraining = false
        /// No more frames will be admitted: the writer may end.
        var isStopped = false
        /// No job is merged until `resume`.
        var isPaused = false
        /// When jobs stop waiting for a store that another program has locked, in microseconds of the monotonic clock; nil
        /// for never.
        var lockDeadline: Int64?
    }

    /// Why new jobs are refused. The causes come and go by themselves.
    struct Refusals {
        var stopping: Fault?
        var halt: Fault?
        var store: Fault?
        var log: Fault?

        /// Nil while new jobs are accepted.
        var current: Fault? { stopping ?? halt ?? store ?? log }
    }

    /// A change of the model that waits for jobs, or is made: jobs and questions after its ticket wait for the new model.
    struct Reload {
        var ticket: Int?
        /// Frames that wait, in the order of arrival; a worker opens them again with the new model.
        var heldFrames: [AdmittedFrame] = []
    }

    /// What the writer is to do between two transactions.
    struct WriterRequests {
        var tasks: [@Sendable (Store) -> Void] = []
        var reopening: StoreReopening?

        var isEmpty: Bool { tasks.isEmpty && reopening == nil }
    }

    /// What a frame turned out to be, when it is opened.
    enum FrameEnd {
        /// No job, or one that the log has already.
        case nothing
        /// Asked when everything before it has been opened.
        case question(@Sendable (Int) -> Void)
        /// It goes to the log.
        case job(AdmittedFrame)
    }

    /// Callers that wait for room, and frames whose turn has come.
    struct RoomWaiters {
        var all: [(source: Int, user: UInt32, notify: @Sendable () -> Void)] = []
        /// Tasks of the frames whose turn has come and that have their new tickets.
        var called: [@Sendable () -> Void] = []
    }

    var jobCount: Int { ends.count }

    // MARK: - Room

    /// Jobs go to that log from now on. Called before any is admitted.
    ///
    /// - Parameter position: the newest that is applied.
    mutating func use(_ log: any JobLog, after position: Int64) {
        self.log.durable = log
        application = Application(after: position)
    }

    var hasWork: Bool {
        next != nil || isNextRefused || log.memory.isStarved || !requests.isEmpty
    }

    /// The next job, if it may be merged. Pausing does not apply to cancelled jobs.
    private var next: AcceptedJob? {
        guard let (place, job) = application.next, place.position != nil else { return nil }
        guard service.isPaused || cancellations.areLogged else { return job }
        return cancellations.holds(job.ticket) || service.isPaused && job.skipReason == nil ? nil : job
    }

    private var isNextRefused: Bool { application.next.map { $0.place.position == nil } ?? false }

    /// The next job is a scan that may take long: the jobs before it should not wait for its transaction.
    private func isLong(_ next: AcceptedJob) -> Bool { turns.hasLong && turns.isSearching(next.arrival) }

    var hasNoOwn: Bool { load.count == load.others.count && reload.ticket == nil }

    /// Takes the next job of a transaction; nil when none is ready, or it should go into another transaction.
    ///
    /// A large job does not join small ones: their COMMIT would wait for its merge, and a COMMIT of its own costs it little.
    mutating func takeNext(after batch: [AcceptedJob]) -> AcceptedJob? {
        guard let next else { return nil }
        if let last = batch.last {
            guard batch.count < CoordinatorLimits.jobsPerCommit, !isLong(next) else { return nil }
            let isFull = { batch.reduce(0) { $0 + $1.weight } >= CoordinatorLimits.transactionBytes }
            if next.isLarge, !last.isLarge || isFull() { return nil }
        }
        return takeNext()
    }

    private mutating func takeNext() -> AcceptedJob? {
        guard let (place, job) = application.takeNext() else { return nil }
        job.place = place
        return job
    }

    /// Takes the next jobs, if the log has refused them. They end without a transaction.
    mutating func takeRefused() -> [AcceptedJob] {
        var refused: [AcceptedJob] = []
        while isNextRefused, let job = takeNext() {
            job.failedAsRefused()
            refused.append(job)
        }
        return refused
    }

    func hasRoom(for source: Int, of user: UInt32 = 0) -> Bool {
        hasRoom && load.hasRoom(of: user) && !turns.isWaiting(source)
    }

    var hasRoom: Bool {
        // Jobs that a server which has halted leaves in the order must not keep it from reading. New ones are refused.
        reload.ticket == nil && load.hasFewUnopened && (refusals.halt != nil || load.hasRoomForOwn)
    }

    mutating func waitForRoom(_ source: Int, of user: UInt32 = 0, _ notify: @escaping @Sendable () -> Void) {
        waiters.all.append((source, user, notify))
    }

    /// The limits of users' bytes in flight have changed.
    mutating func use(_ limit: UserLimit) -> Effects {
        load.userLimit = limit
        return effects([], notifies: false)
    }

    mutating func admit(_ weight: Int, from source: Int, of user: UInt32 = 0) -> Int {
        let ticket = reserve(weight, of: user)
        load.unopened += 1
        turns.admit(ticket, from: source)
        return ticket
    }

    /// Gives a frame that was read from the log its ticket: the job keeps its place.
    mutating func admit(_ weight: Int, _ logged: LogEntry) throws(StoreError) -> Int {
        let ticket = reserve(weight, isFromLog: true, of: logged.user)
        try application.deliver(other: ticket, at: logged.place)
        log.memory.note(logged.position)
        return ticket
    }

    /// Gives a ticket to no frame, for its place in the order of memory.
    mutating func pass() -> Int {
        let ticket = admission.reserve()
        admission.open(ticket, .nothing)
        return ticket
    }

    private mutating func reserve(_ weight: Int, isFromLog: Bool = false, of user: UInt32) -> Int {
        load.add(weight, frames: 1, isFromLog: isFromLog, of: user)
        return admission.reserve()
    }

    /// A frame was opened at its first ticket, so that its content is known. `again` makes the call for a frame that must wait.
    ///
    /// - Returns: whether the frame continues with its ticket now.
    mutating func opened(
        _ ticket: Int, from source: Int, of user: UInt32 = 0, _ content: ScanScheduler<WaitingFrame>.Content,
        _ again: () -> WaitingFrame
    ) -> (goesOn: Bool, Effects) {
        let goesOn = turns.opened(ticket, from: source, of: user, content, again)
        if !goesOn { load.unopened -= 1 }
        let completions = goesOn ? [] : settle(ticket, .nothing)
        take(turns.call(source, from: admission.nextTicket))
        callNext()
        return (goesOn, effects(completions, notifies: !goesOn && hasWork))
    }

    private mutating func take(_ frames: [WaitingFrame]) {
        for frame in frames {
            load.unopened += 1
            waiters.called.append(frame(admission.reserve()))
        }
    }

    private mutating func callNext() {
        while let source = turns.next() {
            take(turns.call(source, from: admission.nextTicket, isItsTurn: true))
        }
    }

    /// The frame held a job.
    mutating func began(_ frame: AdmittedFrame) -> Effects {
        let job = frame.accepted
        let ticket = job.ticket
        let isLogged = frame.logged != nil
        load.add(job.weight - frame.weight, frames: 0, isFromLog: isLogged, of: job.owner.user)
        running.began(job)
        ends.began(ticket, from: job.source, job)
        if !isLogged {
            load.unopened -= 1
            application.began(ticket, job, under: frame.generation)
        }
        if log.durable != nil, !isLogged, job.weight > CoordinatorLimits.briefBytes {
            unstagedTickets.insert(ticket)
            return effects([], notifies: hasWork)
        }
        let completions = settle(ticket, isLogged ? .nothing : .job(frame))
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
        load.add(-frame.weight, frames: -1, isFromLog: false, of: frame.user)
        load.unopened -= 1
        let completions = settle(ticket, question.map { .question($0) } ?? .nothing)
        // The writer may go on; a caller that drains waits for the last ticket.
        return effects(completions, notifies: hasWork || service.isDraining || load.count == 0)
    }

    /// The job has ended. Returns the waiters to call with this end, or with that of the committed job of its id.
    mutating func ended(_ job: AcceptedJob, at now: Int64) -> [RunningJobs.Waiter] {
        turns.note(
            job.arrival, took: job.mergedMicroseconds,
            own: Int64(job.weight / CoordinatorLimits.bytesPerMicrosecond), at: now)
        load.add(-job.weight, frames: -1, isFromLog: job.isFromLog, of: job.owner.user)
        ends.ended(job.ticket, from: job.source)
        turns.ended(job.arrival)
        callNext()
        return running.ended(job.key, isCommitted: job.isCommitted, owner: job.committedOwner)
    }

    /// The job is staged, or its staging has failed.
    ///
    /// - Parameters:
    ///   - microseconds: the workers' time for it.
    ///   - fault: there will never be memory for the job. Unless the log has it, it fails without a sequence.
    mutating func finish(
        _ frame: AdmittedFrame, _ work: StoreJob.Work, took microseconds: Int64 = 0, outOfMemory fault: Fault? = nil
    ) -> Effects {
        let job = frame.accepted
        let isUnlogged = unstagedTickets.remove(job.ticket) != nil
        var calls: [Effects.Call] = []
        if isUnlogged, let fault {
            application.refuse(job.ticket)
            calls = noteRefusal(of: job, fault)
        }
        if application.finish(job.ticket, job, under: frame.generation) {
            job.staged(work, frame.memory, took: microseconds)
        }
        guard isUnlogged else { return Effects(notifies: hasWork) }
        calls += settle(job.ticket, fault == nil ? .job(frame) : .nothing)
        return effects(calls, notifies: hasWork)
    }

    // MARK: - The log

    /// The frame was opened: asks the questions, and passes the jobs to the log. Returns the calls that follow.
    private mutating func settle(_ ticket: Int, _ content: FrameEnd) -> [Effects.Call] {
        admission.open(ticket, content)
        var calls: [Effects.Call] = []
        while let (ticket, content) = admission.takeSettled() {
            switch content {
            case .nothing: break
            case .question(let ask): calls.append { ask(ticket) }
            case .job(let frame):
                if let log = log.durable {
                    log.append(frame.pendingEntry)
                } else {
                    log.memory.append(ticket, at: frame.accepted.acceptedAt)
                    calls += deliverReserved()
                }
            }
        }
        return calls
    }

    /// The log has no place for the job: it fails in its turn, without a sequence.
    mutating func refuse(_ ticket: Int, _ fault: Fault) throws(StoreError) -> [Effects.Call] {
        noteRefusal(of: try application.deliver(own: ticket, at: LogPlace(position: nil, time: 0)).job, fault)
    }

    private mutating func noteRefusal(of job: AcceptedJob, _ fault: Fault) -> [Effects.Call] {
        job.withdraw(.refused, fault)
        return cancellations.takeAll(job.ticket).compactMap(\.answer).map { answer in { answer(.tooLate(nil)) } }
    }

    /// No more sequences can be reserved: the jobs that wait for one fail. Returns the calls that follow.
    mutating func refuseStarved(_ fault: Fault) -> [Effects.Call] {
        var calls: [Effects.Call] = []
        for ticket in log.memory.refuse() {
            do throws(StoreError) {
                calls += try refuse(ticket, fault)
            } catch {
                preconditionFailure("jobs wait for sequences in the order of tickets: \(error)")
            }
        }
        return calls
    }

    /// The effects of a change, with the frames whose turn has come and the callers that wait for room and have it now.
    mutating func effects(_ completions: [Effects.Call], notifies: Bool) -> Effects {
        var effects = Effects(completions: completions, notifies: notifies)
        swap(&effects.wakeUps, &waiters.called)
        guard !waiters.all.isEmpty, hasRoom else { return effects }
        let waiting = waiters.all
        waiters.all = []
        for waiter in waiting {
            if hasRoom(for: waiter.source, of: waiter.user) {
                effects.wakeUps.append(waiter.notify)
            } else {
                waiters.all.append(waiter)
            }
        }
        return effects
    }
}

/// Entries that the log delivers.
extension JobTable {
    /// Delivers the jobs for which the store has reserved sequences. Returns the calls that report them as accepted.
    mutating func deliverReserved() -> [Effects.Call] {
        var calls: [Effects.Call] = []
        while let (ticket, place) = log.memory.read() {
            do throws(StoreError) {
                _ = try deliver(ticket, at: place, &calls)
            } catch {
                preconditionFailure("the log in memory gives rising positions in the order of tickets: \(error)")
            }
        }
        return calls
    }

    /// A job of this server that was staged under an earlier model than the one in force at its place in the log.
    struct StaleJob {
        let job: AcceptedJob
        let place: LogPlace
        let payload: [UInt8]
    }

    /// Delivers the next items of the log, in its order.
    ///
    /// - Returns: jobs that are to be staged again.
    /// - Throws: `StoreError` when they cannot be next. Those before the first of these are delivered.
    mutating func deliver(_ items: [LogItem], _ effects: inout Effects) throws(StoreError) -> [StaleJob] {
        defer { effects.notifies = hasWork }
        var stale: [StaleJob] = []
        for item in items {
            switch item {
            case .job(let ticket, let place, let payload):
                let (job, isStale) = try deliver(ticket, at: place, &effects.completions)
                log.memory.note(place.position ?? 0)
                guard isStale else { break }
                guard let payload else { throw .unexpectedJob }
                job.unstage()
                stale.append(StaleJob(job: job, place: place, payload: payload))
            case .cancellation(let entry): effects.completions += decideCancellation(entry)
            case .refused(let entry, let error) where entry.entry.kind == .cancellation:
                effects.completions += failCancellation(entry, error)
            case .refused(let entry, let error):
                effects.completions += try refuse(entry.ticket, Fault(error))
            case .other, .change, .note: preconditionFailure("these are no jobs of this server")
            }
        }
        return stale
    }

    private mutating func deliver(
        _ ticket: Int, at place: LogPlace, _ calls: inout [Effects.Call]
    ) throws(StoreError) -> (job: AcceptedJob, isStale: Bool) {
        let (job, isStale) = try application.deliver(own: ticket, at: place)
        for entry in cancellations.entries(of: ticket, at: place) { log.durable?.append(entry) }
        if job.wantsAcceptance, job.skipReason == nil, let position = place.position {
            calls.append { job.noteAccepted(at: position) }
        }
        return (job, isStale)
    }
}
