internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
public import BrokerStore
public import Logging

extension Coordinator {
    /// Applies what the journal has accepted and the store has not applied, in order, each job at its own sequence and by the
    /// model that it was accepted under; then the wanted model, if it is another. To be called once, before anything is
    /// admitted; blocks until all of it has ended.
    ///
    /// - Parameter open: opens a frame that was accepted, as
    ///   ``admit(from:payloadBytes:contentBytesAtMost:mayOpenHere:payload:open:refuse:)`` says; nobody is there to be answered.
    /// - Throws: `StoreError` when the journal cannot be read, or the store cannot be changed to the wanted model.
    public func replay(
        _ logger: Logger, opening open: @escaping @Sendable (_ payload: [UInt8], LoggedJob, JobMemory) -> Opened
    ) throws(StoreError) {
        if let pending = writer.pending, pending.count > 0 { try apply(pending, logger, open) }
        if let plan = planAfterReplay { try useWanted(plan, logger) }
    }

    private func apply(
        _ pending: Writer.PendingJobs, _ logger: Logger,
        _ open: @escaping @Sendable ([UInt8], LoggedJob, JobMemory) -> Opened
    ) throws(StoreError) {
        logger.notice("Jobs that were accepted before are applied first.", metadata: ["jobs": "\(pending.count)"])
        let start = monotonicMicroseconds()
        var reader = pending.reader
        while let entry = try next(&reader) {
            let room = Monitor(false)
            whenRoom {
                room.broadcast {
                    $0 = true
                    return true
                }
            }
            room.wait { $0 ? () : nil }
            let logged = LoggedJob(
                sequence: entry.position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                time: entry.time, isCancelled: pending.cancelled.contains(entry.position))
            let payload = entry.payload
            admit(
                logged, from: 0, payloadBytes: payload.count, contentBytesAtMost: payload.count, mayOpenHere: false,
                payload: nil, open: { memory in open(payload, logged, memory) },
                refuse: { message in
                    logger.critical(
                        "A job of the journal cannot be opened, and is left out: \(message)",
                        metadata: ["id": "\(logged.id)", "sequence": "\(logged.sequence)"])
                })
        }
        finishAdmitted()
        logger.notice(
            "The journal is applied.",
            metadata: [
                "jobs": "\(pending.count)", "milliseconds": "\((monotonicMicroseconds() - start) / 1_000)",
            ])
    }

    private func useWanted(_ plan: StagingPlan, _ logger: Logger) throws(StoreError) {
        let ended = Monitor<Result<StoreMigration, Fault>?>(nil)
        reload {
            .success(plan)
        } tell: { result in
            ended.broadcast {
                $0 = result
                return true
            }
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
