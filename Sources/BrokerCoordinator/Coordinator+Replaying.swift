internal import BrokerJournal
internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
package import BrokerStore
package import Logging

extension Coordinator {
    /// Applies the accepted jobs of the journal that the store has not applied, in order, each with its own sequence
    /// and under the model under which it was accepted; then changes to the wanted model, if that is another. Called
    /// once, before anything is admitted; blocks until all these jobs have ended.
    ///
    /// The limits of this server do not apply to these jobs: a job that was accepted is applied, or the replay fails.
    ///
    /// - Parameter open: opens the frame of an accepted job, under the conditions of
    ///   ``admit(_:from:payloadBytes:contentBytesAtMost:mayOpenHere:payload:open:refuse:)``.
    /// - Throws: `StoreError` when the journal cannot be read, one of its jobs cannot be applied, or the store cannot be changed to
    ///   the wanted model. No job after the one that failed has been applied then, and the coordinator can only be stopped.
    package func replay(
        _ logger: Logger, opening open: @escaping @Sendable (_ payload: [UInt8], JournaledJob, JobMemory) -> ReopenedJob
    ) throws(StoreError) {
        if let pending = writer.pending, pending.count > 0 { try apply(pending, logger, open) }
        if let plan = planAfterReplay { try useWanted(plan, logger) }
    }

    private func apply(
        _ pending: Writer.PendingJobs, _ logger: Logger,
        _ open: @escaping @Sendable ([UInt8], JournaledJob, JobMemory) -> ReopenedJob
    ) throws(StoreError) {
        logger.notice("Jobs that were accepted before are applied first.", metadata: ["jobs": "\(pending.count)"])
        let start = monotonicMicroseconds()
        let progress = Monitor(ReplayProgress())
        var reader = pending.reader
        while let entry = try next(&reader) {
            waitForRoom(progress)
            if progress.withLock({ $0.failure != nil }) { break }
            let logged = JournaledJob(
                sequence: entry.position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                mayDelete: entry.mayDelete, time: entry.time, isCancelled: pending.cancelled.contains(entry.position))
            admit(logged, entry.payload, progress, open)
        }
        finishAdmitted()
        if let failure = progress.withLock({ $0.failure }) ?? storageFailure.error { throw failure }
        logger.notice(
            "The journal is applied.",
            metadata: [
                "jobs": "\(pending.count)", "milliseconds": "\((monotonicMicroseconds() - start) / 1_000)",
            ])
    }

    private func waitForRoom(_ progress: Monitor<ReplayProgress>) {
        progress.withLock { $0.hasRoom = false }
        whenRoom {
            progress.update { $0.hasRoom = true }
        }
        progress.wait { $0.hasRoom || $0.failure != nil ? () : nil }
    }

    private func admit(
        _ logged: JournaledJob, _ payload: [UInt8], _ progress: Monitor<ReplayProgress>,
        _ open: @escaping @Sendable ([UInt8], JournaledJob, JobMemory) -> ReopenedJob
    ) {
        admit(
            logged, payloadBytes: payload.count, contentBytesAtMost: payload.count,
            open: { [self] memory in
                switch open(payload, logged, memory) {
                case .job(let job): return .job(job)
                case .noRoom: return .noRoom
                case .unreadable(let reason):
                    let remedy = "Start the version of the server that accepted it."
                    fail(.unappliable(logged, reason, remedy), progress)
                    return .nothing
                }
            },
            refuse: { [self] _ in
                let reason = "the system has no memory left for it."
                fail(.unappliable(logged, reason, "Give the server more memory, then start it again."), progress)
            })
    }

    /// The job's ticket is never settled, so nothing after it is merged; ``finishAdmitted()`` does not wait for it.
    private func fail(_ error: StoreError, _ progress: Monitor<ReplayProgress>) {
        progress.update { $0.failure = $0.failure ?? error }
        jobTable.update { $0.isJournalLost = true }
    }

    private func useWanted(_ plan: StagingPlan, _ logger: Logger) throws(StoreError) {
        let ended = Monitor<Result<StoreMigration, Fault>?>(nil)
        reload {
            .success(plan)
        } notify: { result in
            ended.update { $0 = result }
        }
        switch ended.wait({ $0 }) {
        case .success(let migration): for line in migration.lines { logger.notice("\(line)") }
        case .failure(let fault): throw StoreError(.incompatible, fault.message)
        }
    }

    private func next(_ reader: inout JournalReader) throws(StoreError) -> JournalEntry? {
        do throws(JournalError) {
            return try reader.next()
        } catch {
            throw StoreError(error)
        }
    }
}
