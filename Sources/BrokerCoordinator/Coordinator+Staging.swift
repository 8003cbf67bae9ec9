internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// From a frame to staged rows, on the workers.
extension Coordinator {
    // MARK: - Opening

    func open(_ frame: AdmittedFrame) {
        if frame.payloadBytes <= CoordinatorLimits.briefBytes {
            let isShort = plan.isBrief && frame.contentBytesAtMost <= CoordinatorLimits.openedHereBytes
            pool.run(.opening, isShort ? .short : .brief, from: frame.source) { [self] in openBriefly(frame) }
        } else {
            pool.run(.opening, .long, from: frame.source) { [self] in openWhole(frame, granted: 0) }
        }
    }

    /// Opens a frame that is probably small, within the memory that every worker may take at any time. A frame that
    /// turns out to be larger takes its turn among the long tasks.
    func openBriefly(_ frame: AdmittedFrame) {
        frame.memory.beginBriefly(CoordinatorLimits.briefMemory)
        let openedAt = monotonicMicroseconds()
        let opened = frame.content.open(frame.memory)
        // A small job is staged within the same memory; what it used is retained then.
        if case .job(let job) = opened, job.content.count > CoordinatorLimits.openedBesideOthersBytes,
            !frame.memory.keepBrief()
        {
            return waitForRoom(frame)
        }
        if case .noRoom = opened {
            frame.memory.dropAll()
            return pool.run(.opening, .long, from: frame.source) { [self] in openWhole(frame, granted: 0) }
        }
        proceed(opened, frame, since: openedAt)
    }

    /// Opens a frame with all the memory that it may have.
    func openWhole(_ frame: AdmittedFrame, granted: Int) {
        let isLarge = frame.contentBytesAtMost > CoordinatorLimits.largeContentBytes
        if frame.job == nil, isLarge, !goesOn(frame, .large, of: .max) { return }
        frame.memory.begin(granted: granted)
        let openedAt = monotonicMicroseconds()
        proceed(frame.content.open(frame.memory), frame, since: openedAt)
    }

    private func proceed(_ opened: Opened, _ frame: AdmittedFrame, since openedAt: Int64) {
        switch opened {
        case .noRoom where frame.memory.canWait: waitForRoom(frame)
        // It could be opened before, and not be staged for want of room.
        case .noRoom where frame.job != nil: finish(frame, .failure(.noRoom))
        case .noRoom:
            let message = frame.memory.message
            // A job of the journal holds its ticket, so that no later job is applied before it. No other one waits while
            // the frame is searched for what its answer repeats.
            if frame.logged == nil { skip(frame) }
            frame.content.refuse(message)
        case .nothing where frame.logged != nil: break
        case .nothing: skip(frame)
        case .question where holds(frame), .job where holds(frame): frame.memory.dropAll()
        case .question(let ask):
            if goesOn(frame, .question) { skip(frame, ask) }
        case .job(let job) where frame.refusal != nil:
            refuse(job, frame.refusal!)
            skip(frame)
        case .job(let job):
            // After `holds`: no reload changes it before the job has ended.
            let (plan, generation) = planInForce.withLock { ($0.plan, $0.generation) }
            if frame.job == nil {
                guard goesOn(frame, job.content(under: plan), of: job.owner.user) else { return }
                begin(job, frame, since: openedAt, under: generation)
            }
            stage(job, frame, under: plan, since: openedAt)
        }
    }

    /// Whether the frame goes on with its ticket. If not, it gives up the ticket and all memory, and is opened again when its turn
    /// to scan has come, or that of an earlier frame of its source. The user of a frame that is not opened yet is unknown.
    func goesOn(_ frame: AdmittedFrame, _ content: ScanContent, of user: UInt32 = 0) -> Bool {
        guard !frame.isCalled else { return true }
        var goesOn = true
        jobTable.change(completions) { jobTable in
            let effects: Effects
            (goesOn, effects) = jobTable.opened(frame.ticket, from: frame.source, of: user, content) {
                { [self] ticket in
                    let again = frame.again(at: ticket, memory.admit(ticket, payloadBytes: frame.payloadBytes))
                    return { self.open(again) }
                }
            }
            return effects
        }
        if !goesOn { frame.memory.leave() }
        return goesOn
    }

    /// Ends the attempt and frees all its memory. It is made again when there is room.
    private func waitForRoom(_ frame: AdmittedFrame) {
        frame.memory.wait(contentBytes: frame.job?.contentBytes ?? frame.contentBytesAtMost) { [self] granted in
            pool.run(.opening, .long, from: frame.source) { self.openWhole(frame, granted: granted) }
        }
    }

    private func begin(_ job: Job, _ frame: AdmittedFrame, since openedAt: Int64, under generation: Int) {
        let id = frame.logged?.id ?? job.id ?? madeId(frame.ticket)
        let progress =
            job.wantsProgress
            ? JobProgress(JobID(id), waitsForAcceptance: job.wantsAcceptance, completions, job.observer) : nil
        let accepted = AcceptedJob(
            job, id: JobID(id), frame, openedAt: openedAt, progress: progress, isLogged: writer.opened.log != nil)
        frame.began(accepted, under: generation)
        jobTable.change(completions) { $0.began(frame) }
        statistics.count { $0.accepted += 1 }
    }

    // MARK: - Staging

    /// - Parameter openedAt: when this attempt began.
    private func stage(_ job: Job, _ frame: AdmittedFrame, under plan: StagingPlan, since openedAt: Int64) {
        let plan = plan.reading(job.terms.form.names)
        do throws(StagingRefusal) {
            guard frame.memory.take(JobSteps.predicateMemory(job.operations)) else { throw .noRoom }
            let steps = try JobSteps(job.operations, in: job.document, plan.model, frame.memory).plans
            guard job.content.count > CoordinatorLimits.briefMemory else {
                let staged = stagedHere(steps, of: job, frame, under: plan)
                return finish(frame, staged, took: monotonicMicroseconds() - openedAt)
            }
            stage(steps, of: job, frame, under: plan, since: openedAt)
        } catch {
            finish(frame, .failure(error))
        }
    }

    private func stagedHere(
        _ steps: ShortList<StepPlan>, of job: Job, _ frame: AdmittedFrame, under plan: StagingPlan
    ) -> Result<StoreJob.Work, StagingRefusal> {
        func rows(of step: StepPlan) throws(StagingRefusal) -> StagedRows? {
            guard !step.operations.isEmpty else { return nil }
            let whole = JobCollection(
                step.operations, in: job.document, keepsPayload: job.terms.wantsObjects,
                refusesUnknownKeys: job.terms.refusesUnknownKeys)
            return try whole.rows(plan, job.terms.policy, frame.memory)
        }
        return Result { () throws(StagingRefusal) in
            if steps.count == 1, steps[0].isOfWholeJob, let rows = try rows(of: steps[0]) { return .merge(rows) }
            var staged: [StagedStep] = []
            for step in steps { staged.append(step.staged(try rows(of: step))) }
            return .steps(staged)
        }
    }

    /// Stages each collection of each step on whichever worker is free; the last one to end unites them.
    private func stage(
        _ steps: ShortList<StepPlan>, of job: Job, _ frame: AdmittedFrame, under plan: StagingPlan,
        since openedAt: Int64
    ) {
        let collections = steps.map {
            $0.operations.isEmpty
                ? []
                : JobCollection.collections(
                    of: $0.operations, in: job.document, keepsPayload: job.terms.wantsObjects,
                    refusesUnknownKeys: job.terms.refusesUnknownKeys)
        }
        let all = collections.flatMap { $0 }
        guard !all.isEmpty else { return finish(frame, .success(.steps(steps.map { $0.staged(nil) }))) }
        let counts = collections.map(\.count)
        let actions = StepActions(steps)
        let parts = Monitor(StagedParts(count: all.count))
        let opening = monotonicMicroseconds() - openedAt
        for (number, collection) in all.enumerated() {
            pool.run(.staging, .long, from: frame.source) { [self] in
                let begun = monotonicMicroseconds()
                let part = Result { () throws(StagingRefusal) in
                    try collection.stage(plan, job.terms.policy, frame.memory)
                }
                let ended = monotonicMicroseconds()
                guard let all = parts.withLock({ $0.note(part, at: number, took: ended - begun) }) else { return }
                let work = Result { () throws(StagingRefusal) -> StoreJob.Work in
                    .steps(try actions.united(all.parts, counts, plan))
                }
                finish(frame, work, took: opening + all.microseconds + monotonicMicroseconds() - ended)
            }
        }
    }

    /// Passes the job to the writer, or lets it wait for room.
    private func finish(
        _ frame: AdmittedFrame, _ result: Result<StoreJob.Work, StagingRefusal>, took microseconds: Int64 = 0
    ) {
        let memory = frame.memory
        let work: StoreJob.Work
        var shortage: Fault?
        switch result {
        case .success where !memory.keepBrief(), .failure(.fault) where !memory.keepBrief():
            return waitForRoom(frame)
        case .success(let steps): work = steps
        case .failure(.fault(let fault)): work = .refused(fault)
        case .failure(.noRoom):
            guard !memory.canWait else { return waitForRoom(frame) }
            guard frame.logged == nil else { return frame.content.refuse(memory.message) }
            let fault = Fault.busy(memory.message)
            (work, shortage) = (.refused(fault), fault)
        }
        jobTable.change(completions) { jobTable in
            // The observer of a cancelled job has been called.
            frame.job?.progress?.note(staged: work.rowCount)
            return jobTable.finish(frame, work, took: microseconds, outOfMemory: shortage)
        }
        // The frame will not be opened again.
        frame.releaseMemory()
        memory.end()
        memory.dropPayload()
    }
}

/// The results of the collections of one job, each from the worker that staged it.
struct StagedParts {
    private var parts: [Result<StagedPart, StagingRefusal>?]
    private var missing: Int
    private var microseconds: Int64 = 0

    init(count: Int) {
        parts = Array(repeating: nil, count: count)
        missing = count
    }

    /// All of them, in payload order, and the time that they took, when this was the last one.
    mutating func note(
        _ part: Result<StagedPart, StagingRefusal>, at number: Int, took microseconds: Int64
    ) -> (parts: [Result<StagedPart, StagingRefusal>], microseconds: Int64)? {
        parts[number] = part
        missing -= 1
        self.microseconds += microseconds
        guard missing == 0 else { return nil }
        defer { parts = [] }
        return (parts.compactMap { $0 }, self.microseconds)
    }
}
