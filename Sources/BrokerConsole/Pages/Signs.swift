import Broker
import BrokerCommandLine

/// What deserves attention in one sample, and what to do: conditions and limits of `protocol/operations/alerts.yml`.
struct Signs {
    let now: Statistics
    /// Of the sample, in milliseconds since 1970.
    let moment: Int64

    var html: [HTML] {
        [
            jobWaits, jobsFail, recordsRejected, slow, diskFills, walGrows, noBackup, connectionsRunOut, replicaLags,
        ].compactMap(\.self)
            .map { "<p class=note>\($0)</p>" }
    }

    private var jobWaits: HTML? {
        guard now.jobs.inFlight > 0, let age = now.queues.oldestMilliseconds, age > 60_000 else { return nil }
        return """
            The oldest job has waited for \(ShortText.time(milliseconds: age)). <a href="/jobs">Jobs</a> shows its stage.
            """
    }

    private var jobsFail: HTML? {
        guard let jobs = now.lastMinute?.jobs, jobs.failed * 10 > jobs.completed + jobs.failed else { return nil }
        return """
            More than a tenth of the jobs of the last minute failed: \(ShortText.count(jobs.failed)). <a href="/jobs">Jobs</a> has their \
            errors, and <a href="/clients">Clients</a> who sent them.
            """
    }

    private var recordsRejected: HTML? {
        guard let kept = now.store.rejects, kept.count > 0 else { return nil }
        let omitted: HTML = " \(ShortText.count(kept.omitted)) more were not kept."
        return """
            Jobs skipped records: \(ShortText.count(kept.count)). <a href="/rejected">Rejected</a> has them, with the reasons. Retry them \
            when the model takes them, or drop them.\(omitted, if: kept.omitted > 0)
            """
    }

    private var slow: HTML? {
        guard let total = now.lastMinute?.latencies.total, total.p99 > .seconds(5) else { return nil }
        return """
            One job in a hundred takes \(ShortText.time(total.p99)) or longer. <a href="/jobs">Jobs</a> shows in \
            which stage.
            """
    }

    private var diskFills: HTML? {
        guard let free = now.store.freeDiskBytes, free < 1_073_741_824 || free < (now.store.bytes ?? 0) / 10 else {
            return nil
        }
        return
            "\(ShortText.bytes(free)) are free on the disk of the store. Jobs wait or fail when it is full: make room."
    }

    private var walGrows: HTML? {
        guard now.wal.bytes > 134_217_728 else { return nil }
        let readers = (now.wal.readers ?? []).map(\.shown).joined(separator: ", ")
        let held: HTML =
            readers.isEmpty
            ? "If it stays so, a reader of the store holds it." : "\(readers) reads the store and holds it: end it."
        return "The WAL has \(ShortText.bytes(now.wal.bytes)). \(held)"
    }

    private var noBackup: HTML? {
        let age = now.store.backedUpAt.map { moment - $0 } ?? Int64(now.uptimeMilliseconds ?? 0)
        guard age > 172_800 * 1_000 else { return nil }
        return "The store has not been backed up for two days. Run <code>broker backup</code> from a timer."
    }

    private var connectionsRunOut: HTML? {
        guard let connections = now.connections, connections.open * 10 > connections.maximum * 9 else { return nil }
        return """
            Nine tenths of the connections are taken: <a href="/clients">Clients</a> shows by whom. Raise <code>--connections</code>, or \
            let clients close theirs.
            """
    }

    private var replicaLags: HTML? {
        guard let log = now.log, log.lag > 100 else { return nil }
        return
            "The server is \(ShortText.count(Int(log.lag))) entries behind the shared log. Reads are old here. \(log.cause ?? "")"
    }
}

extension Statistics.WAL.Reader {
    var shown: String { "\(process ?? "a process") \(pid.map(String.init) ?? "")" }
}
