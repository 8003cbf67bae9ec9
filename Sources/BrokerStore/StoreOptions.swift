package import BrokerSchema

/// When SQLite waits for the disk.
package enum Synchronous: String, Sendable, CaseIterable {
    /// At every COMMIT: an answered job survives a power failure.
    case full
    /// At checkpoints: an answered job survives a crash of the process, not of the machine.
    case normal
    case off
}

package struct StoreOptions: Sendable {
    /// The keys of some millions of changed objects.
    package static let defaultFeedBytes = 64 << 20

    package var synchronous = Synchronous.full
    package var retention = LedgerRetention()
    /// Bytes of changed objects' keys that are stored for followers of the feed; 0 stores none.
    package var feedBytes = defaultFeedBytes
    /// Bytes of database pages cached in memory; with SQLite's own 2 MB, the rate is halved as soon as there is an
    /// index.
    package var cacheBytes = 64 << 20
    /// The maximum number of pages of the database, for tests and quotas; nil is SQLite's limit.
    package var maximumPages: Int?
    /// Bytes of a page of a new store; an existing one keeps its own. Twice SQLite's own size: bulk loads write some 15
    /// % less, scattered keys some 20 %, and small jobs cost no more.
    package var pageBytes = 8192
    /// The WAL's working size: the number of pages at which it is copied to the database; up to four times as many
    /// while transactions are long. 16 MiB of pages, so that a bulk load copies a page less often.
    package var walPages = 2048
    /// The treatment of parts that the model no longer has.
    package var removal = RemovalPolicy.refuse
    /// Permissions of the store's files, whatever the umask is; nil creates new ones with ``StoreLock/defaultMode`` and
    /// does not change existing ones.
    package var fileMode: UInt32?
    /// Observes the thread that works on the store; nil where nothing does.
    package var activity: WriterActivity?
    /// Bytes that the merge of one job may take besides its staged rows; nil leaves that to the job's own allowance.
    package var mergeMemory: Int?
    /// Units of work that one job may take; tests lower it.
    package var jobWork = JobWork.maximum
    /// For tests: every job is applied record by record.
    package var interpretsAll = false
    /// For tests: SQLite's name for a VFS between it and the files, which must outlive the store.
    package var vfs: String?

    package init() {}
}

/// The options that decide, with the jobs and the model, how the jobs of a log end. A change of them is an entry of the log, so that
/// jobs that are applied again meet the same.
package struct LoggedLimits: Sendable, Equatable {
    /// Whether a job repeats an earlier one depends on it.
    package let retention: LedgerRetention
    /// ``StoreOptions/mergeMemory``.
    package let mergeMemory: Int?

    package init(_ options: StoreOptions) {
        retention = options.retention
        mergeMemory = options.mergeMemory
    }

    /// Parses ``text``; nil for anything else, which a later version may have written.
    package init?(_ text: String) {
        var numbers: [Substring: Int] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=")
            guard parts.count == 2, let number = Int(parts[1]), number >= 0 else { return nil }
            numbers[parts[0]] = number
        }
        guard let count = numbers.removeValue(forKey: "outcomesKept"),
            let seconds = numbers.removeValue(forKey: "outcomesKeptSeconds")
        else { return nil }
        // Earlier versions did not limit the merges of their journals.
        mergeMemory = numbers.removeValue(forKey: "mergeMemory")
        guard numbers.isEmpty else { return nil }
        retention = LedgerRetention(count: count, seconds: seconds)
    }

    /// A line for each limit: `outcomesKept=1000000`.
    package var text: String {
        "outcomesKept=\(retention.count)\noutcomesKeptSeconds=\(retention.seconds)"
            + (mergeMemory.map { "\nmergeMemory=\($0)" } ?? "")
    }

    /// Sets the limits in the options of a store.
    package func set(in options: inout StoreOptions) {
        options.retention = retention
        options.mergeMemory = mergeMemory
    }
}
