import Broker

/// The screen of `broker top`: measurements of a server at two moments. Each line fits 80 columns.
struct TopScreen {
    /// A number that rises, at the two moments, in the last minute, and since the start.
    private struct Rate {
        let name: String
        let total: Int
        let before: Int?
        let minute: Int?
    }

    private static let columns = 80

    private let now: Statistics
    private let before: Statistics?
    /// Between the two moments.
    private let seconds: Double

    /// - Parameter before: nil for the first moment.
    init(_ now: Statistics, before: Statistics?, seconds: Double) {
        self.now = now
        self.before = before
        self.seconds = seconds
    }

    var lines: [String] {
        let health = Health(now)
        let cause = TableText(health.cause.map { "  \($0)" } ?? "", columns: Self.columns).shown
        return [title(health), cause] + rateLines + latencyLines + memoryLines
    }

    private func title(_ health: Health) -> String {
        var facts = [now.server ?? "broker"]
        if let uptime = now.uptimeMilliseconds { facts.append("up \(Shown.time(milliseconds: uptime))") }
        facts.append("\(now.jobs.inFlight) in flight")
        if let oldest = now.queues.oldestMilliseconds, now.jobs.inFlight > 0 {
            facts.append("oldest \(Shown.time(milliseconds: oldest))")
        }
        return "\(health.state.rawValue): \(facts.joined(separator: ", "))"
    }

    // MARK: - Rates

    private var rates: [Rate] {
        let minute = now.lastMinute
        func rate(_ name: String, _ minute: Int?, _ total: (Statistics) -> Int) -> Rate {
            Rate(name: name, total: total(now), before: before.map(total), minute: minute)
        }
        return [
            rate("jobs", minute?.jobs.completed) { $0.jobs.completed },
            rate("failed", minute?.jobs.failed) { $0.jobs.failed },
            rate("commits", minute?.commits) { $0.commits },
            rate("inserted", minute?.objects.inserted) { $0.objects.inserted },
            rate("updated", minute?.objects.updated) { $0.objects.updated },
            rate("unchanged", minute?.objects.unchanged) { $0.objects.unchanged },
            rate("deleted", minute?.objects.deleted) { $0.objects.deleted },
            rate("rejected", minute?.objects.rejected) { $0.objects.rejected },
        ]
    }

    private var rateLines: [String] {
        let header = ["", "a second", "in a minute", "since start"]
        let rows = rates.map { rate in
            [
                rate.name, rate.before.map { Shown.rate(Double(rate.total - $0) / max(seconds, 0.001)) } ?? "-",
                rate.minute.map(Shown.count) ?? "-", Shown.count(rate.total),
            ]
        }
        return ([header] + rows).map { Self.row($0, [10, 14, 16, 18]) }
    }

    // MARK: - Latencies

    private var latencyLines: [String] {
        let header = ["", "minute: p50", "p99", "max", "all: p50", "p99", "max"]
        let stages: [(String, (Statistics.Latencies) -> Statistics.Percentiles?)] = [
            ("queued", \.queued), ("staged", \.staged), ("journal", \.journalSynced), ("waited", \.waited),
            ("merged", \.merged), ("committed", \.committed), ("total", \.total),
        ]
        // No job takes no time: without one there is nothing to show.
        let latencies = now.lastMinute?.latencyMicroseconds
        let lastMinute = latencies?.total.max == 0 ? nil : latencies
        let rows = stages.compactMap { name, stage -> [String]? in
            let minute = lastMinute.flatMap(stage)
            guard let all = stage(now.latencyMicroseconds) else { return nil }
            return [name] + [minute?.p50, minute?.p99, minute?.max].map { $0.map(time) ?? "-" }
                + [time(all.p50), time(all.p99), time(all.max)]
        }
        return ([header] + rows).map { Self.row($0, [10, 13, 10, 10, 13, 10, 10]) }
    }

    private func time(_ microseconds: Int) -> String { Shown.time(microseconds: Int64(microseconds)) }

    // MARK: - Memory and disk

    private var memoryLines: [String] {
        var lines: [String] = []
        if let memory = now.memory {
            lines.append(
                "memory    \(Shown.bytes(memory.residentBytes)), \(Shown.bytes(now.queues.bytes)) of it in jobs; "
                    + "queues: \(now.queues.opening) opening, \(now.queues.staging) staging")
        }
        if let bytes = now.store.bytes, let free = now.store.freeDiskBytes, let outcomes = now.store.outcomes {
            lines.append(
                "store     \(Shown.bytes(bytes)), \(Shown.bytes(free)) free on the disk; \(Shown.count(outcomes)) outcomes"
            )
        }
        lines.append(
            "WAL       \(Shown.bytes(now.wal.bytes)), \(Shown.count(now.wal.uncheckpointedPages)) pages to copy"
                + walReaders)
        if let log = now.log {
            let state =
                log.halted
                ? "halted" : log.cause == nil ? "\(Shown.count(Int(log.lag))) entries not applied" : "unreachable"
            lines.append("log       position \(Shown.count(Int(log.position))), \(state)")
        } else if let journal = now.journal {
            lines.append("journal   \(Shown.bytes(journal.bytes)), \(journal.waiting) entries waiting")
        }
        if let connections = now.connections {
            lines.append(
                "clients   \(connections.open) of \(Shown.count(connections.maximum)); \(now.subscriptions) subscriptions"
            )
        }
        return lines
    }

    private var walReaders: String {
        let names = (now.wal.readers ?? []).map { reader in
            [reader.process, reader.pid.map { "\($0)" }].compactMap(\.self).joined(separator: " ")
        }
        return names.isEmpty ? "" : "; read by \(names.joined(separator: ", "))"
    }

    /// The first cell is on the left of its column, the others on the right.
    private static func row(_ cells: [String], _ widths: [Int]) -> String {
        zip(cells, widths).enumerated().map { index, cell in
            let gap = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + gap : gap + cell.0
        }.joined()
    }

    // MARK: - Plain lines

    static let plainHeader = "  jobs/s failed/s commits/s in flight  p99 total      WAL   memory state"

    /// One line for each moment, as vmstat(8) prints them.
    var plainLine: String {
        func perSecond(_ total: (Statistics) -> Int) -> String {
            before.map { Shown.rate(Double(total(now) - total($0)) / max(seconds, 0.001)) } ?? "-"
        }
        let p99 = now.lastMinute.map { time($0.latencyMicroseconds.total.p99) } ?? "-"
        let cells = [
            perSecond { $0.jobs.completed }, perSecond { $0.jobs.failed }, perSecond { $0.commits },
            Shown.count(now.jobs.inFlight), p99, Shown.bytes(now.wal.bytes),
            now.memory.map { Shown.bytes($0.residentBytes) } ?? "-",
        ]
        return Self.row([""] + cells, [0, 8, 9, 10, 10, 11, 9, 9]) + " " + Health(now).state.rawValue
    }
}
