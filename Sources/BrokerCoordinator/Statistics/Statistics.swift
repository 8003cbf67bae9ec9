internal import BrokerJSON
internal import BrokerModel
internal import BrokerStore
internal import Glibc
internal import Histogram

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
        var latencies = Latencies()
        var batches = Batches()
        var store = StoreState.serving
        /// The WAL after the newest commit.
        var wal = WALStatus()
        /// The newest sequence whose outcome may be forgotten.
        var forgottenThrough: Int64 = 0
        /// Nil without a journal.
        var history: StateDigest?

        mutating func noteFailure(_ code: FaultCode) {
            failed += 1
            failures[code, default: 0] += 1
        }
    }

    private let counters = Monitor(Counters())
    private let startedAt = monotonicMicroseconds()

    func count(_ body: (inout Counters) -> Void) { counters.withLock(body) }

    /// Writes the members of `stats`.
    func write(
        to writer: inout JSONWriter, opening: Int, staging: Int, inFlight: Int, bytes: Int, isPaused: Bool,
        _ journal: (any JobJournal)?
    ) {
        let counters = counters.withLock { $0 }
        writer.member("uptimeMilliseconds", (monotonicMicroseconds() - startedAt) / 1_000)
        writer.key("paused")
        writer.bool(isPaused)
        writer.key("jobs")
        writer.object { writer in
            writer.member("accepted", counters.accepted)
            writer.member("completed", counters.completed)
            writer.member("failed", counters.failed)
            writer.member("duplicate", counters.duplicates)
            writer.member("inFlight", inFlight)
        }
        writer.key("failures")
        writer.object { writer in
            for (code, count) in counters.failures.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                writer.member(code.rawValue, count)
            }
        }
        writer.key("objects")
        counters.objects.write(to: &writer)
        writer.member("commits", counters.commits)
        writer.key("batches")
        counters.batches.write(to: &writer)
        writer.key("queues")
        writer.object { writer in
            writer.member("opening", opening)
            writer.member("staging", staging)
            writer.member("bytes", bytes)
        }
        writer.key("store")
        writer.object { writer in
            writer.key("state")
            writer.string(counters.store.name)
            guard let cause = counters.store.cause else { return }
            writer.key("cause")
            writer.string(cause)
        }
        writer.key("wal")
        writer.object { writer in
            writer.member("bytes", counters.wal.bytes)
            writer.member("uncheckpointedPages", counters.wal.uncheckpointedPages)
        }
        if let history = counters.history, let journal {
            writer.key("journal")
            writer.object { writer in
                journal.write(to: &writer)
                writer.member("applied", history.position)
                writer.key("history")
                writer.string(history.digits)
            }
        }
        writer.key("latencyMicroseconds")
        counters.latencies.write(to: &writer)
        writer.key("memory")
        writer.object { $0.member("residentBytes", Self.residentBytes()) }
    }

    /// Bytes of memory that the process holds (proc(5), statm); 0 where the kernel does not report them.
    private static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let fields = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self).split(
            separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
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

extension JSONWriter {
    /// Its percentiles; zeros when it is empty.
    mutating func member(_ key: String, _ histogram: Histogram<UInt32>) {
        self.key(key)
        object { writer in
            for (key, percentile) in [("p50", 50.0), ("p90", 90), ("p99", 99), ("max", 100)] {
                writer.member(key, histogram.totalCount == 0 ? 0 : histogram.valueAtPercentile(percentile))
            }
        }
    }

    mutating func member(_ key: String, _ value: some FixedWidthInteger) {
        self.key(key)
        integer(value)
    }
}
