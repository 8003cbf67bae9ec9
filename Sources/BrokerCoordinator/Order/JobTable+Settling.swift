internal import BrokerStore

/// Jobs that the writer takes, and their ends.
extension JobTable {
    /// The writer's next work: nil when nothing is ready, ``Next/end`` when no more will come.
    enum Next {
        case turn(WriterTurn)
        case end

        /// Nil at the end.
        var turn: WriterTurn? { if case .turn(let turn) = self { turn } else { nil } }
    }

    mutating func takeTurn() -> Next? {
        var turn = WriterTurn(reopening: nil, tasks: writerTasks, batch: [])
        turn.refused = takeRefused()
        while let next = takeNext(after: turn.batch) { turn.batch.append(next) }
        writerTasks = []
        if turn.batch.isEmpty { swap(&turn.reopening, &reopening) }
        if turn.batch.isEmpty, turn.refused.isEmpty, turn.tasks.isEmpty, turn.reopening == nil, !memoryLog.isStarved {
            return isStopped ? .end : nil
        }
        turn.reservation = memoryLog.reservationDue(block: limits.sequenceBlock)
        return .turn(turn)
    }

    /// The ends of a transaction's jobs.
    struct Settlement {
        /// The completions of tickets that got sequences of the reservation; they precede those of ``effects``.
        var reserved: [Effects.Call] = []
        var effects = Effects()
        var hasUnrecordedFailures = false
        /// The writer has further work.
        var hasWork = false
    }

    /// Ends the jobs of a transaction that is durable.
    ///
    /// - Parameters:
    ///   - reservation: the last sequence that the transaction has reserved.
    ///   - committedAt: in microseconds of the monotonic clock.
    ///   - report: returns the call that reports the jobs' ends, in their order, to the observers and the waiters.
    mutating func settle(
        _ applied: [AppliedJob], reservation: Int64?, at committedAt: Int64,
        report: ([(AppliedJob, [RunningJobs.Waiter])]) -> Effects.Call
    ) -> Settlement {
        var settlement = Settlement()
        if let reservation {
            memoryLog.extend(through: reservation)
            settlement.reserved = deliverReserved()
        }
        var ended: [(AppliedJob, [RunningJobs.Waiter])] = []
        ended.reserveCapacity(applied.count)
        for applied in applied {
            let waiters = self.ended(
                applied.job.accepted, isCommitted: applied.isCommitted, owner: applied.committedOwner,
                took: applied.mergedMicroseconds, at: committedAt)
            ended.append((applied, waiters))
            guard applied.isUnwritten, case .failed(let fault) = applied.end, applied.sequence != nil else { continue }
            unrecorded.keep(applied.job.failedStoreJob(at: applied.place, fault), applied.completion(committedAt))
        }
        // The waiters for these ends follow the ends themselves.
        let completions = (ended.isEmpty ? [] : [report(ended)]) + ends.takeReady()
        settlement.hasUnrecordedFailures = !unrecorded.isEmpty
        settlement.hasWork = hasWork
        settlement.effects = effects(completions, notifies: isDraining || isReaderWaiting || count == 0)
        return settlement
    }

    /// Drops jobs without an answer, because the store has failed. Waiters for these jobs learn that from the observers.
    mutating func drop(_ jobs: [ReadyJob], at now: Int64) -> Effects {
        for job in jobs { _ = ended(job.accepted, isCommitted: false, owner: nil, took: 0, at: now) }
        return effects(ends.takeReady(), notifies: true)
    }
}

extension JobTable {
    /// Checks the invariants in linear time; the simulation calls it after every event.
    ///
    /// 1. The invariants of the machines that the table consists of.
    /// 2. Counts are those of the tickets: every job in the order is in flight. A frame in flight waits to be opened, waits
    ///    for its turn to scan, or is a job.
    /// 3. Only jobs in flight are cancelled.
    /// 4. No caller waits for room while there is room.
    /// 5. Jobs that the log gets when they are staged are in flight, and have no place.
    func checkInvariants() throws(InvariantViolation) {
        try application.checkInvariants()
        try turns.checkInvariants()
        try running.checkInvariants()
        try ends.checkInvariants()
        try unrecorded.checkInvariants()
        try InvariantViolation.require(
            running.count == jobCount && ends.count == jobCount, "jobs in flight are counted")
        try InvariantViolation.require(bytes >= 0 && jobCount >= 0 && unopened >= 0, "nothing ends twice")
        try InvariantViolation.require(
            (0...bytes).contains(others.bytes) && (0...count).contains(others.count),
            "what is read from the log is in flight")
        try InvariantViolation.require(count >= jobCount + unopened, "unopened frames and jobs are frames in flight")
        try InvariantViolation.require(application.count <= count, "every job in the order is in flight")
        try InvariantViolation.require(cancelled.count <= count, "only jobs in flight are cancelled")
        try InvariantViolation.require(!hasRoom || !hasRoomWaiters, "callers are woken when there is room")
        try InvariantViolation.require(unstaged.count <= jobCount, "jobs that the log gets later are in flight")
        try InvariantViolation.require(
            unstaged.keys.allSatisfy { application.holds($0) && application.place(of: $0) == nil },
            "the log has no job that is not staged")
    }
}
