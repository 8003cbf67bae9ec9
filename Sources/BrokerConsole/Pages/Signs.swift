package import Broker
import BrokerCommandLine

/// What deserves attention in one sample, and what to do: conditions and limits of `protocol/operations/alerts.yml`.
struct Signs {
    let now: Statistics
    /// Of the sample, in milliseconds since 1970.
    let moment: Int64

    var html: [HTML] { (jobs + store).map { "<p class=note>\($0)</p>" } }

    private var jobs: [HTML] {
        var signs: [HTML] = []
        if now.jobs.inFlight > 0, let age = now.queues.oldestMilliseconds, age > 60_000 {
            signs.append(
                """
                The oldest job has waited for \(ShortText.time(milliseconds: age)). <a href="/jobs">Jobs</a> shows its stage.
                """)
        }
        if let jobs = now.lastMinute?.jobs, jobs.failed * 10 > jobs.completed + jobs.failed {
            signs.append(
                """
                More than a tenth of the jobs of the last minute failed: \(ShortText.count(jobs.failed)). <a href="/jobs">Jobs</a> has their \
                errors, and <a href="/clients">Clients</a> who sent them.
                """)
        }
        if let kept = now.store.rejects, kept.count > 0 {
            let omitted: HTML = " \(ShortText.count(kept.omitted)) more were not kept."
            signs.append(
                """
                Jobs skipped records: \(ShortText.count(kept.count)). <a href="/rejected">Rejected</a> has them, with the reasons. Retry them \
                when the model takes them, or drop them.\(omitted, if: kept.omitted > 0)
                """)
        }
        if let total = now.lastMinute?.latencies.total, total.p99 > .seconds(5) {
            signs.append(
                """
                One job in a hundred takes \(ShortText.time(total.p99)) or longer. <a href="/jobs">Jobs</a> shows in \
                which stage.
                """)
        }
        return signs
    }

    private var store: [HTML] {
        var signs: [HTML] = []
        if let free = now.store.freeDiskBytes, free < 1_073_741_824 || free < (now.store.bytes ?? 0) / 10 {
            signs.append(
                "\(ShortText.bytes(free)) are free on the disk of the store. Jobs wait or fail when it is full: make room."
            )
        }
        if now.wal.bytes > 134_217_728 {
            let readers = (now.wal.readers ?? []).map(\.shown).joined(separator: ", ")
            let held: HTML =
                readers.isEmpty
                ? "If it stays so, a reader of the store holds it."
                : "\(readers) reads the store and holds it: end it."
            signs.append("The WAL has \(ShortText.bytes(now.wal.bytes)). \(held)")
        }
        if now.store.backedUpAt.map({ moment - $0 }) ?? Int64(now.uptimeMilliseconds ?? 0) > 172_800 * 1_000 {
            signs.append(
                "The store has not been backed up for two days. Run <code>broker backup</code> from a timer.")
        }
        if let connections = now.connections, connections.open * 10 > connections.maximum * 9 {
            signs.append(
                """
                Nine tenths of the connections are taken: <a href="/clients">Clients</a> shows by whom. Raise <code>--connections</code>, or \
                let clients close theirs.
                """)
        }
        if let log = now.log, log.lag > 100 {
            signs.append(
                "The server is \(ShortText.count(Int(log.lag))) entries behind the shared log. Reads are old here. \(log.cause ?? "")"
            )
        }
        return signs
    }
}

extension Statistics.WAL.Reader {
    package var shown: String { "\(process ?? "a process") \(pid.map(String.init) ?? "")" }
}
