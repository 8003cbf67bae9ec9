internal import BrokerStore

/// Looks up ended jobs on a thread and a connection of its own, so that the writer is not delayed.
final class LedgerThread: Sendable {
    /// The reader, opened at the first use; touched on the thread alone.
    private final class Opened: @unchecked Sendable {
        // Only tasks of the one serial thread touch it.
        var reader: LedgerReader?
        var index: JobIndex

        init(_ index: JobIndex) { self.index = index }
    }

    private let thread = SerialThread(named: "ledger")
    private let opened: Opened
    private let files: OpenedFiles

    /// - Parameter files: those of the store that the writer has opened.
    init(_ files: OpenedFiles, _ index: JobIndex) {
        self.files = files
        opened = Opened(index)
    }

    /// - Parameter asker: a job that it may not see is not found.
    func find(
        _ id: String, as asker: JobOwner, _ notify: @escaping @Sendable (Result<JobCompletion?, StoreError>) -> Void
    ) {
        read(
            { reader throws(StoreError) in
                try reader.outcome(ofJob: id).flatMap {
                    asker.maySee(jobOf: $0.owner)
                        ? JobCompletion(stored: $0, id: id, isDuplicate: false, timing: nil) : nil
                }
            }, notify)
    }

    /// The newest failed jobs that pass the filter and that the asker may see, the newest first.
    func findFailures(
        _ count: Int, _ filter: FailureFilter, as asker: JobOwner,
        _ notify: @escaping @Sendable (Result<[FailedJob], StoreError>) -> Void
    ) {
        read(
            { reader throws(StoreError) in
                try reader.failures(count, filter, as: asker).map {
                    FailedJob(
                        id: $0.id, sequence: $0.outcome.sequence, owner: $0.outcome.owner, acceptedAt: $0.acceptedAt,
                        error: $0.outcome.body)
                }
            }, notify)
    }

    func findBookmark(
        named name: String, _ notify: @escaping @Sendable (Result<StoredBookmark?, StoreError>) -> Void
    ) {
        read({ reader throws(StoreError) in try reader.bookmark(named: name) }, notify)
    }

    private func read<Value>(
        _ body: @escaping @Sendable (LedgerReader) throws(StoreError) -> Value,
        _ notify: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) {
        thread.run { [opened, files] in
            notify(
                Result { () throws(StoreError) in
                    if let reader = opened.reader { return try body(reader) }
                    let reader = try LedgerReader(files, opened.index)
                    opened.reader = reader
                    return try body(reader)
                })
        }
    }

    /// The writer has opened the store again, and finds lines by another index.
    func use(_ index: JobIndex) {
        thread.run { [opened] in
            opened.index = index
            opened.reader = nil
        }
    }

    func stop() {
        thread.run { [opened] in opened.reader = nil }
        thread.stop()
    }
}
