internal import BrokerStore
internal import Logging

/// Failures that the store did not take, and the end.
extension WriterLoop {
    /// Between two attempts to write kept failures into a store that did not take them.
    private static let keptPauseMicroseconds: Int64 = 1_000_000

    /// The store takes something again: perhaps also the failures that it did not take before.
    mutating func writeKept() {
        guard let time = writeKeptAt, time <= monotonicMicroseconds() else { return }
        do throws(StoreError) {
            try finishLedger(newestSequence: nil)
            writeKeptAt = nil
        } catch {
            // They are kept on; `await` finds them all the same.
            logger.debug("Failures still cannot be written.", metadata: ["cause": "\(error)"])
            writeKeptAt = monotonicMicroseconds() + Self.keptPauseMicroseconds
        }
    }

    /// Writes the failures that are kept, and which sequence was the last.
    private func finishLedger(newestSequence: Int64?) throws(StoreError) {
        let kept = jobTable.withLock { $0.kept.jobs }
        _ = try transaction { () throws(StoreError) in
            for job in kept { _ = try store.apply(job) }
            if let newestSequence { try store.reserveSequences(through: newestSequence) }
        }
        jobTable.withLock { $0.kept.remove(kept) }
    }

    /// Leaves the store as the next server likes to find it.
    func close() {
        do throws(StoreError) {
            try finishLedger(newestSequence: jobTable.withLock { $0.order.newestSequence })
        } catch {
            // The next server's sequences then begin behind all that were set aside.
            logger.warning(
                "The last lines could not be written; failures told lately may be forgotten.",
                metadata: ["cause": "\(error)"])
        }
        guard store.failure == nil else { return }
        do throws(StoreError) {
            try store.checkpoint()
        } catch {
            // The log beside the database is read at the next start, so nothing is lost.
            logger.warning("The log could not be emptied at the end.", metadata: ["cause": "\(error)"])
        }
    }
}
