internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
internal import BrokerStore
internal import Logging

/// The journal on the disk, written by a thread of its own: entries that wait together are made durable together.
///
/// The thread never waits for a timer: while one group is made durable, the next gathers.
final class DiskJournal: JobJournal {
    private struct Queue {
        var entries: [JournalWrite] = []
        var appliedThrough: Int64 = 0
        var trimmedThrough: Int64 = 0
        var isStopping = false
        var bytes = 0
    }

    /// Handed over to the one thread, which alone touches it from then on.
    private struct Owned: @unchecked Sendable {
        let journal: Journal
    }

    private let queue: Monitor<Queue>
    private let thread: Thread

    /// - Parameters:
    ///   - journal: handed over; the caller does not touch it any more.
    ///   - storageFailure: called when nothing can be made durable any more; the appended entries are not confirmed
    ///     then.
    init(
        _ journal: Journal, jobTable: Monitor<JobTable>, statistics: Statistics, completions: SerialThread,
        storageFailure: StorageFailure, logger: Logger
    ) {
        let owned = Owned(journal: journal)
        let queue = Monitor(Queue(bytes: journal.byteCount))
        self.queue = queue
        thread = Thread(named: "journal") {
            var loop = JournalLoop(
                journal: owned.journal, jobTable: jobTable, statistics: statistics, completions: completions,
                storageFailure: storageFailure, logger: logger)
            while let (entries, applied) = Self.take(queue) {
                loop.append(entries)
                loop.trim(through: applied)
                let bytes = owned.journal.byteCount
                queue.withLock { $0.bytes = bytes }
            }
        }
    }

    /// Waits for work; nil when no more will come.
    private static func take(_ queue: Monitor<Queue>) -> (entries: [JournalWrite], applied: Int64)? {
        queue.wait { queue -> (entries: [JournalWrite], applied: Int64)?? in
            let hasWork = !queue.entries.isEmpty || queue.appliedThrough > queue.trimmedThrough
            guard hasWork else { return queue.isStopping ? .some(nil) : nil }
            queue.trimmedThrough = queue.appliedThrough
            defer { queue.entries.removeAll(keepingCapacity: queue.entries.count < 4_096) }
            return (queue.entries, queue.appliedThrough)
        }
    }

    func append(_ entry: JournalWrite) {
        queue.signal { queue in
            queue.entries.append(entry)
            return queue.entries.count == 1
        }
    }

    func applied(through position: Int64) {
        queue.withLock { $0.appliedThrough = max($0.appliedThrough, position) }
    }

    func write(to writer: inout JSONWriter) {
        let (bytes, waiting) = queue.withLock { ($0.bytes, $0.entries.count) }
        writer.member("bytes", bytes)
        writer.member("waiting", waiting)
    }

    func stop() {
        queue.signal {
            $0.isStopping = true
            return true
        }
        thread.join()
    }
}

/// The work of the journal's thread.
private struct JournalLoop {
    let journal: Journal
    let jobTable: Monitor<JobTable>
    let statistics: Statistics
    let completions: SerialThread
    let storageFailure: StorageFailure
    let logger: Logger
    private var isFull = false
    private var hasFailed = false

    init(
        journal: Journal, jobTable: Monitor<JobTable>, statistics: Statistics, completions: SerialThread,
        storageFailure: StorageFailure, logger: Logger
    ) {
        self.journal = journal
        self.jobTable = jobTable
        self.statistics = statistics
        self.completions = completions
        self.storageFailure = storageFailure
        self.logger = logger
    }

    mutating func append(_ entries: [JournalWrite]) {
        guard !entries.isEmpty, !hasFailed else { return }
        do throws(JournalError) {
            try journal.append(entries.map(\.stored))
            jobTable.change(completions) { $0.logged(entries) }
            if isFull { logger.notice("The journal has room again; new jobs are accepted.") }
            isFull = false
        } catch {
            guard error.code == .full else { return fail(error) }
            if !isFull {
                logger.error("New jobs are refused: the journal cannot be written.", metadata: ["cause": "\(error)"])
            }
            isFull = true
            let cause = StoreError(error)
            jobTable.change(completions) { $0.unjournaled(entries, cause) }
        }
    }

    /// Entries that cannot be made durable are not confirmed: after a crash they may be there or not.
    private mutating func fail(_ error: JournalError) {
        hasFailed = true
        storageFailure.happened(StoreError(error), statistics, completions) {
            logger.critical(
                """
                The journal failed, and no job is accepted any more. Check its disk, and start the server again: \
                accepted and completed jobs are retained, and jobs with ids can be sent again.
                """,
                metadata: ["cause": "\(error)"])
        }
        jobTable.update { $0.isJournalLost = true }
    }

    mutating func trim(through position: Int64) {
        guard position > 0, !hasFailed else { return }
        do throws(JournalError) {
            try journal.trim(through: position)
        } catch {
            // It is tried again with the next ones; until then the journal is longer than necessary.
            logger.warning("An old file of the journal could not be deleted.", metadata: ["cause": "\(error)"])
        }
    }
}
