internal import BrokerJSON

/// The report of a run: as text, JSON, a page, or a log of histograms.
package struct RunReport: Sendable {
    /// The kind of run: `run`, `replay`, or a step of a sweep.
    package var name: String
    package var offeredRate: Double?
    /// The parameters of the run, in the order of the options.
    package var settings: [(name: String, value: String)]
    package var environment: RunEnvironment
    package var result: RunResult

    package init(
        name: String, offeredRate: Double?, settings: [(name: String, value: String)], environment: RunEnvironment,
        result: RunResult
    ) {
        self.name = name
        self.offeredRate = offeredRate
        self.settings = settings
        self.environment = environment
        self.result = result
    }

    /// The percentiles in the report.
    static let percentiles: [(name: String, percent: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("max", 100),
    ]

    static let stageNames = ["queued", "staged", "merged", "committed"]

    /// The highest of what the server said of itself at any time.
    func peak(_ value: KeyPath<ServerSample, Int>) -> Int {
        result.server.samples.map { $0[keyPath: value] }.max() ?? 0
    }

    /// Processor seconds of the server in the measured time; nil when the kernel does not report them.
    package var serverSeconds: Double? {
        guard let before = result.server.before, let after = result.server.after else { return nil }
        return after.processorSeconds - before.processorSeconds
    }

    /// Jobs in a commit, on the average of the time that was sampled; nil when there was no commit.
    var jobsPerCommit: Double? {
        guard let first = result.server.samples.first, let last = result.server.samples.last,
            last.commits > first.commits
        else { return nil }
        return Double(last.completed - first.completed) / Double(last.commits - first.commits)
    }
}

// MARK: - Text

extension RunReport {
    package var text: String {
        let rates = (jobs: Self.count(result.jobsPerSecond), records: Self.count(result.recordsPerSecond))
        var lines = ["\(name): \(rates.jobs) jobs/s, \(rates.records) records/s"]
        func line(_ name: String, _ value: String) {
            lines.append("  " + name.padded(to: 12) + value)
        }
        if let offeredRate { line("offered", "\(Self.count(offeredRate)) jobs/s") }
        line(
            "measured",
            "\(result.jobs) jobs, \(result.records) records, \(Self.megabytes(result.contentBytes)) of JSON, "
                + "\(Self.megabytes(result.frameBytes)) of frames sent in \(Self.decimal(result.seconds, 3)) s")
        let totals = result.totals
        line(
            "jobs",
            "\(totals.sent) sent, \(totals.ok) ok, \(totals.failed) failed, \(totals.busy) busy, \(result.lost) lost, "
                + "\(totals.duplicate) duplicate, \(totals.withRejects) with rejects")
        if totals.repeatedAnswers + totals.strangeAnswers > 0 {
            line("answers", "\(totals.repeatedAnswers) twice, \(totals.strangeAnswers) to no request")
        }
        let objects = result.objects
        line(
            "objects",
            "\(objects.inserted) inserted, \(objects.updated) updated, \(objects.unchanged) unchanged, "
                + "\(objects.deleted) deleted, \(objects.rejected) rejected")
        if result.accepted.count > 0 { line("accepted", Self.latencies(result.accepted)) }
        line("completed", Self.latencies(result.completed))
        if offeredRate != nil { line("lag", Self.latencies(result.lag)) }
        for (name, histogram) in zip(Self.stageNames, result.stages) where histogram.count > 0 {
            line(name, Self.latencies(histogram))
        }
        lines += serverLines.map { "  " + $0.name.padded(to: 12) + $0.value }
        line(
            "harness",
            "\(Self.decimal(result.senderSeconds, 2)) s of a processor to send and receive, "
                + "\(Self.decimal(result.harnessSeconds, 2)) s in all"
                + (result.frameWaits > 0 ? ", waited \(result.frameWaits) times for frames" : ""))
        line("asked", settings.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        for (name, value) in environment.facts { line(name, value) }
        for (code, failure) in result.failures.sorted(by: { $0.key < $1.key }) {
            line("failed", "\(failure.count) × \(failure.message.printable) (\(code.printable))")
        }
        if let message = result.strangeMessage { line("said", message.printable) }
        return lines.joined(separator: "\n")
    }

    var serverLines: [(name: String, value: String)] {
        var lines: [(name: String, value: String)] = []
        if let serverSeconds {
            lines.append(
                (
                    "processor",
                    "\(Self.decimal(serverSeconds, 2)) s of the server's, "
                        + "\(Self.decimal(serverSeconds / result.seconds * 100, 0)) % of one"
                ))
        }
        if let after = result.server.after {
            lines.append(("memory", "\(after.residentBytes >> 20) MiB, \(after.peakBytes >> 20) MiB at most"))
        }
        if !result.server.samples.isEmpty {
            lines.append(
                (
                    "queues",
                    "at most \(peak(\.opening)) opening, \(peak(\.staging)) staging, "
                        + "\(Self.megabytes(peak(\.queuedBytes)))"
                ))
            lines.append(
                (
                    "wal",
                    "at most \(Self.megabytes(peak(\.logBytes))), \(peak(\.uncheckpointedPages)) pages not checkpointed"
                ))
        }
        if let jobsPerCommit { lines.append(("commits", "\(Self.decimal(jobsPerCommit, 1)) jobs in each")) }
        if let batches = result.server.batches {
            func listed(_ percentiles: [String: Int]) -> String {
                ["p50", "p90", "p99", "max"].map { "\($0) \(percentiles[$0] ?? 0)" }.joined(separator: ", ")
            }
            lines.append(("batches", "\(listed(batches.jobs)) jobs, since the server's start"))
            lines.append(("COMMIT", "\(listed(batches.commitMicroseconds)) µs, since the server's start"))
        }
        return lines
    }

    // MARK: - Numbers

    static func latencies(_ histogram: LatencyHistogram) -> String {
        percentiles.map { "\($0.name) \(microseconds(histogram.percentile($0.percent)))" }.joined(separator: ", ")
    }

    static func microseconds(_ nanoseconds: UInt64) -> String {
        nanoseconds < 10_000_000
            ? "\(decimal(Double(nanoseconds) / 1e3, nanoseconds < 100_000 ? 1 : 0)) µs"
            : "\(decimal(Double(nanoseconds) / 1e6, nanoseconds < 1_000_000_000 ? 1 : 0)) ms"
    }

    static func megabytes(_ bytes: Int) -> String { "\(decimal(Double(bytes) / Double(1 << 20), 1)) MiB" }

    static func count(_ value: Double) -> String { "\(Int(value.rounded()))" }

    /// Formats a number with so many digits after the point.
    static func decimal(_ value: Double, _ digits: Int) -> String {
        guard value.isFinite, value.magnitude < 1e15 else { return "–" }
        let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
        let scaled = Int((value.magnitude * scale).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard digits > 0 else { return "\(sign)\(scaled)" }
        let fraction = String(scaled % Int(scale))
        return "\(sign)\(scaled / Int(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
}

extension String {
    /// Pads with trailing spaces.
    func padded(to count: Int) -> String { self + String(repeating: " ", count: max(1, count - self.count)) }
}
