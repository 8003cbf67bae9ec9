internal import BrokerModel
internal import BrokerStore

/// The counters of the coordinator. Cheap enough for every job: one lock and a few additions.
final class Statistics: Sendable {
    struct Counters {
        var accepted = 0
        var completed = 0
        private(set) var failed = 0
        private(set) var failures: [FaultCode: Int] = [:]
        var duplicates = 0
        var commits = 0
        var objects = ChangeCounts()
        /// Rejected records by entity: as many as the models have had since the start.
        var rejects: [String: Int] = [:]
        var latencies = Latencies()
        /// In the order of ``StageTimes/names``.
        var buckets = StageTimes.names.map { _ in LatencyBuckets() }
        var batches = Batches()
        var recent: RecentJobs
        var slow: SlowJobs
        var store = StoreState.serving {
            // A halt is for good; only a failed disk is worse.
            didSet { if case .halted = oldValue, !store.isFailed { store = oldValue } }
        }
        /// Bytes that the store had no room for, 1 MiB at most, until there is room for them; nil for none.
        var refusedBytes: Int?
        /// Nil before the first reload.
        var lastReload: LastReload?
        /// The WAL after the newest commit.
        var wal = WALStatus()
        /// Lines of the ledger.
        var outcomes = 0
        /// When the newest backup was done, in milliseconds since 1970, also by an earlier server.
        var backedUpAt: Int64?
        /// The newest sequence that a backup of this run contains; 0 for none.
        var backedUpThrough: Int64 = 0
        /// The newest sequence whose outcome may be forgotten.
        var forgottenThrough: Int64 = 0
        /// Nil without a journal.
        var history: StateDigest?
        /// That under the model in force; nil without a journal.
        var fingerprint: String?

        /// A transaction has succeeded.
        mutating func noteServing() {
            if refusedBytes == nil { store = .serving }
        }

        mutating func noteFailure(_ code: FaultCode, at now: Int64) {
            failed += 1
            failures[code, default: 0] += 1
            recent.note(at: now) { $0.counts.failed += 1 }
        }
    }

    private let counters: Monitor<Counters>
    let startedAt: Int64
    private let slowObserver = Callback<SlowJob>()

    /// - Parameter slow: microseconds from which a job is slow.
    init(slow: Int64 = SlowJobs.defaultMicroseconds) {
        startedAt = monotonicMicroseconds()
        counters = Monitor(Counters(recent: RecentJobs(at: startedAt), slow: SlowJobs(from: slow)))
    }

    func count(_ body: (inout Counters) -> Void) { counters.withLock(body) }

    var now: Counters { counters.withLock { $0 } }

    /// Those with the most work of their own first.
    var slowJobs: [SlowJob] { counters.withLock { $0.slow.byWork } }

    /// Calls `notify` for each job that is slow from now on.
    func observeSlow(_ notify: @escaping @Sendable (SlowJob) -> Void) { slowObserver.set(notify) }

    /// The calls of the observer.
    func reports(_ jobs: [SlowJob]) -> [@Sendable () -> Void] {
        slowObserver.isSet ? jobs.map { job in { self.slowObserver(job) } } : []
    }
}

extension ChangeCounts {
    mutating func add(_ other: ChangeCounts) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }
}
