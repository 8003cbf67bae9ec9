internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
package import BrokerStore
package import Logging

extension Coordinator {
    /// Applies what the log has and the store has not, in its order, each job in its place, under the model and the limits under
    /// which it was accepted; then changes to the wanted ones, if they are others. From then on it reads the log. Called once,
    /// before anything is admitted; blocks until all these jobs have ended.
    ///
    /// The limits of memory of this server do not apply to these jobs: a job that was accepted is applied, or the start fails.
    ///
    /// - Parameter open: opens the frame of an accepted job, under the conditions of
    ///   ``admit(from:payloadBytes:contentBytesAtMost:mayOpenHere:payload:open:refuse:)``.
    /// - Throws: `StoreError` when the log cannot be read, one of its jobs cannot be applied, or the store cannot be changed to
    ///   the wanted model. No job after the one that failed has been applied then, and the coordinator can only be stopped.
    package func start(
        _ logger: Logger, opening open: @escaping @Sendable (_ payload: [UInt8], JournaledJob, JobMemory) -> ReopenedJob
    ) throws(StoreError) {
        guard let log = writer.log else { return }
        let reader = LogReader(log, self, logger, opening: open)
        logReader.withLock { $0 = reader }
        if let halt = writer.halt { return reader.halt(halt) }
        try reader.catchUp()
        reader.start()
        guard !(log is any SharedLog) else { return reportUnlike(logger) }
        if model.text != wantedPlan.model.text { try useWanted(wantedPlan, logger) }
        try useWantedLimits()
    }

    /// A job was read from the log: its frame is opened, by the calling thread if it is small, else by a worker.
    ///
    /// - Parameter refuse: called when there will never be room to open the frame.
    /// - Throws: ``LogViolation`` when it cannot be next.
    func admit(
        _ logged: JournaledJob, payloadBytes: Int, open: @escaping @Sendable (JobMemory) -> Opened,
        refuse: @escaping @Sendable (_ message: String) -> Void
    ) throws(LogViolation) {
        let weight = Self.weight(of: payloadBytes)
        let admitted = jobTable.withLock { jobTable in
            Result { () throws(LogViolation) in
                let ticket = try jobTable.admit(weight, logged)
                return (ticket, self.memory.admit(ticket, payloadBytes: payloadBytes, isLogged: true))
            }
        }
        let (ticket, memory) = try admitted.get()
        let frame = ClosureFrame(
            ticket: ticket, arrival: ticket, source: Self.logSource, payloadBytes: payloadBytes,
            contentBytesAtMost: payloadBytes, weight: weight, memory: memory, refusal: nil,
            admittedAt: monotonicMicroseconds(), logged: logged, payload: nil, open: open, refuse: refuse)
        self.open(frame, mayOpenHere: true, isAlone: false)
    }

    /// A job of this server whose place in the log is after a change of the model by another server: its frame is opened and staged
    /// again.
    func stageAgain(
        _ job: AcceptedJob, _ logged: JournaledJob, payloadBytes: Int,
        open: @escaping @Sendable (JobMemory) -> Opened, refuse: @escaping @Sendable (_ message: String) -> Void
    ) {
        // Its memory has a place among those of the jobs that were read from the log.
        let memory = jobTable.withLock { jobTable in
            self.memory.admit(jobTable.pass(), payloadBytes: payloadBytes, isLogged: true)
        }
        let (frame, generation) = (
            ClosureFrame(
                ticket: job.ticket, arrival: job.ticket, source: Self.logSource, payloadBytes: payloadBytes,
                contentBytesAtMost: payloadBytes, weight: 0, memory: memory, refusal: nil,
                admittedAt: job.admittedAt, logged: logged, payload: nil, open: open, refuse: refuse),
            planInForce.withLock { $0.generation }
        )
        let run = StagingRun(frame: frame, accepted: job, generation: generation)
        pool.run(.opening, .long, from: frame.source) { [self] in openWhole(frame, granted: 0, run) }
    }

    /// A server that starts does not change what all servers share: a reload does.
    private func reportUnlike(_ logger: Logger) {
        if model.text != wantedPlan.model.text {
            logger.warning(
                "The log has another model than the given one, and keeps it. Reload this server to change it for all servers."
            )
        }
        if limitsInForce.withLock({ $0 }) != LoggedLimits(storeOptions) {
            logger.warning(
                """
                The log has other limits than the given ones (outcomes that are stored, memory of a merge), and keeps them. Reload this \
                server to change them for all servers.
                """)
        }
    }

    /// The source of the frames that were read from the log; no connection's.
    private static let logSource = -2

    /// Blocks the thread that reads the log until the jobs before have made the table ready, or nothing more is applied.
    func waitForLog(_ isReady: (JobTable) -> Bool) {
        jobTable.wait { jobTable in
            let isReady = jobTable.isLogLost || isReady(jobTable)
            jobTable.isReaderWaiting = !isReady
            return isReady ? () : nil
        }
    }

    private func useWantedLimits() throws(StoreError) {
        let wanted = LoggedLimits(storeOptions)
        guard try Store.limitsInForce(path: storePath) != wanted else { return }
        let ended = Monitor<Result<StoreMigration, StoreError>?>(nil)
        append(.limits(wanted), at: Self.ticketOfLimits) { result in ended.update { $0 = result } }
        if case .failure(let error) = ended.wait({ $0 }) { throw error }
    }

    /// No frame's.
    static let ticketOfLimits = -1

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
}
