internal import BrokerStore
internal import Logging

/// Failures that the store has not recorded, and the end of the writer.
extension WriterLoop {
    /// The pause between two attempts to record failures.
    private static let recordingPauseMicroseconds: Int64 = 1_000_000

    /// Records the failures that the store did not take, if it takes them now: after a transaction that succeeded, and
    /// regularly while there are no jobs.
    mutating func recordFailures() {
        guard let time = recordFailuresAt, time <= monotonicMicroseconds() else { return }
        let block = limits.sequenceBlock
        let reservation = jobTable.withLock { $0.memoryLog.reservationDue(block: block) }
        do throws(StoreError) {
            try finishLedger(reserving: reservation)
            recordFailuresAt = hasRoom() ? nil : monotonicMicroseconds() + Self.recordingPauseMicroseconds
            if let reservation { settle([], reservation: reservation) }
        } catch {
            // They are retained; `await` finds them all the same.
            logger.debug("Failed jobs still cannot be recorded.", metadata: ["cause": "\(error)"])
            recordFailuresAt = monotonicMicroseconds() + Self.recordingPauseMicroseconds
        }
    }

    /// Whether there is room for the job that had none, after a transaction, which may be smaller, has succeeded; reports it to
    /// `stats`.
    private func hasRoom() -> Bool {
        var bytes: Int?
        statistics.count { bytes = $0.refusedBytes }
        guard let bytes else { return true }
        guard DiskSpace(of: store.location + "-wal").hasRoom(for: bytes) else { return false }
        statistics.count {
            $0.refusedBytes = nil
            $0.noteServing()
        }
        return true
    }

    /// Records the failures that are retained, and that no sequence up to this one is given to another job.
    private func finishLedger(reserving sequence: Int64?) throws(StoreError) {
        let failures = jobTable.withLock { $0.unrecorded.jobs }
        _ = try transaction { () throws(StoreError) in
            for job in failures { _ = try store.apply(job) }
            if let sequence { try store.reserveSequences(through: sequence) }
        }
        jobTable.withLock { $0.unrecorded.remove(failures) }
    }

    /// Prepares the store for the next server.
    func close() {
        do throws(StoreError) {
            try finishLedger(reserving: jobTable.withLock { $0.memoryLog.newest })
        } catch {
            // The sequences of the next server then begin after the whole reserved block.
            logger.warning(
                "The last outcomes could not be recorded; recent failures of jobs may be forgotten.",
                metadata: ["cause": "\(error)"])
        }
        guard store.failure == nil else { return }
        do throws(StoreError) {
            try store.checkpoint()
        } catch {
            // The next start reads the WAL beside the database, so nothing is lost.
            logger.warning("The WAL could not be emptied when the store was closed.", metadata: ["cause": "\(error)"])
        }
    }
}
