internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// From a frame to staged rows, on the workers.
extension Coordinator {
    // MARK: - Opening

    /// Opens what is probably small, within the memory that every worker may take at any time. What turns out to be
    /// larger takes its turn among the long tasks.
    func openBriefly(_ frame: AdmittedFrame) {
        frame.memory.beginBriefly(CoordinatorLimits.briefMemory)
        let openedAt = monotonicMicroseconds()
        let opened = frame.open(frame.memory)
        if case .job = opened, !frame.memory.keepBrief() {
            return waitForRoom(frame, nil)
        }
        if case .noRoom = opened {
            frame.memory.dropAll()
            return pool.run(.opening, .long, from: frame.source) { [self] in openWhole(frame, granted: 0) }
        }
        proceed(opened, frame, openedAt, nil)
    }

    /// Opens a frame with all the memory that it may have.
    ///
    /// - Parameter run: of a job that was opened before, and could not be staged for want of room.
    func openWhole(_ frame: AdmittedFrame, granted: Int, _ run: StagingRun? = nil) {
        frame.memory.begin(granted: granted)
        let openedAt = monotonicMicroseconds()
        proceed(frame.open(frame.memory), frame, openedAt, run)
    }

    private func proceed(_ opened: Opened, _ frame: AdmittedFrame, _ openedAt: Int64, _ run: StagingRun?) {
        switch opened {
        case .noRoom where frame.memory.canWait: waitForRoom(frame, run)
        case .noRoom:
            if let run { return finish(run, .failure(.noRoom)) }
            frame.refuse(frame.memory.message)
            skip(frame.place, frame.weight)
        case .nothing: skip(frame.place, frame.weight)
        case .question(let ask): skip(frame.place, frame.weight, ask)
        case .job(let job) where frame.isDraining:
            refuseDraining(job)
            skip(frame.place, frame.weight)
        case .job(let job): stage(job, run ?? begin(job, frame, openedAt))
        }
    }

    /// The attempt is given up; all that it took is gone. It is made again when there is room.
    private func waitForRoom(_ frame: AdmittedFrame, _ run: StagingRun?) {
        frame.memory.wait(contentBytes: run?.contentBytes ?? frame.weight) { [self] granted in
            pool.run(.opening, .long, from: frame.source) { self.openWhole(frame, granted: granted, run) }
        }
    }

    private func begin(_ job: Job, _ frame: AdmittedFrame, _ openedAt: Int64) -> StagingRun {
        let run = StagingRun(job, id: JobID(job.id ?? madeId(frame.place)), frame, openedAt: openedAt)
        var roomWaiters: [@Sendable () -> Void] = []
        flight.broadcast { flight in
            var acceptance: (@Sendable (Int64?) -> Void)?
            let id = run.id
            if job.wantsAcceptance {
                let observer = job.observer
                acceptance = { if let sequence = $0 { observer(.accepted(id: id.text, sequence: sequence)) } }
            }
            completions.run(flight.began(id, frame.place, addedWeight: run.weight - frame.weight, acceptance))
            roomWaiters = flight.takeRoomWaiters(limits)
            return flight.hasWork
        }
        for tell in roomWaiters { tell() }
        statistics.count { $0.accepted += 1 }
        return run
    }

    // MARK: - Staging

    private func stage(_ job: Job, _ run: StagingRun) {
        do throws(Fault) {
            let operations = try operations(of: job)
            guard job.content.count > CoordinatorLimits.briefMemory else {
                return finish(run, stagedWhole(operations, job, run))
            }
            stage(JobCollection.collections(of: operations, in: job.document), job, run)
        } catch {
            finish(run, .failure(.fault(error)))
        }
    }

    private func operations(of job: Job) throws(Fault) -> [StagingOperation] {
        var operations: [StagingOperation] = []
        operations.reserveCapacity(job.operations.count)
        for operation in job.operations {
            guard let entity = model.index(ofEntity: operation.entity) else {
                let known = model.entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
                throw Fault(
                    .unknownEntity,
                    "The model has no entity \(operation.entity.quotedBriefly). It has: \(known).",
                    path: operation.entityPointer, entity: operation.entity.briefly)
            }
            operations.append(StagingOperation(entity: entity, json: operation.json))
        }
        return operations
    }

    private func stagedWhole(
        _ operations: [StagingOperation], _ job: Job, _ run: StagingRun
    ) -> Result<StagedRows, StagingRefusal> {
        Result { () throws(StagingRefusal) in
            let whole = JobCollection.whole(operations, in: job.document)
            return StagedJobRows.unite([try whole.stage(plan, job.policy, run.frame.memory)], plan)
        }
    }

    /// Stages each collection on whichever worker is free; the last one done unites them.
    private func stage(_ collections: [JobCollection], _ job: Job, _ run: StagingRun) {
        let parts = Monitor(StagedParts(count: collections.count))
        for (number, collection) in collections.enumerated() {
            pool.run(.staging, .long, from: run.frame.source) { [self] in
                let part = Result { () throws(StagingRefusal) in
                    try collection.stage(plan, job.policy, run.frame.memory)
                }
                guard let all = parts.withLock({ $0.note(part, at: number) }) else { return }
                finish(
                    run,
                    Result { () throws(StagingRefusal) in
                        var parts: [StagedPart] = []
                        for part in all { parts.append(try part.get()) }
                        return StagedJobRows.unite(parts, plan)
                    })
            }
        }
    }

    /// The job goes on to the writer, or waits for room.
    private func finish(_ run: StagingRun, _ result: Result<StagedRows, StagingRefusal>) {
        let memory = run.frame.memory
        let work: StoreJob.Work
        switch result {
        case .success(let rows): work = .rows(rows)
        case .failure(.fault(let fault)): work = .refused(fault)
        case .failure(.noRoom):
            guard !memory.canWait else { return waitForRoom(run.frame, run) }
            work = .refused(Fault(.busy, memory.message, retryAfterMilliseconds: CoordinatorLimits.retryMilliseconds))
        }
        let ready = run.ready(work)
        flight.broadcast { flight in
            flight.order.finish(run.place, ready)
            return flight.hasWork
        }
        // It will not be opened again.
        memory.end()
        memory.dropPayload()
    }
}
