internal import BrokerJSON

/// The report of a run: as JSON, or as some lines of text.
package struct RunReport: Sendable {
    package var offeredRate: Double?
    /// As the run was asked for.
    package var arguments: [String]
    package var result: RunResult

    package init(offeredRate: Double?, arguments: [String], result: RunResult) {
        self.offeredRate = offeredRate
        self.arguments = arguments
        self.result = result
    }

    /// The percentiles in the report.
    static let percentiles: [(name: String, percent: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("max", 100),
    ]

    /// Processor seconds of the server in the measured time; nil when the kernel does not report them.
    private var serverSeconds: Double? {
        guard let before = result.server.before, let after = result.server.after else { return nil }
        return after.processorSeconds - before.processorSeconds
    }

    // MARK: - Text

    /// The most important figures; everything is in ``json``.
    package var text: String {
        let totals = result.accounts.totals
        var lines = [
            "\(Int(result.jobsPerSecond.rounded())) jobs/s, \(Int(result.recordsPerSecond.rounded())) records/s",
            "\(totals.sent) jobs sent, \(totals.ok) ok, \(totals.failed) failed, \(result.accounts.lost) lost, "
                + "\(totals.duplicate) duplicate, \(totals.withRejects) with rejects",
            "microseconds until completed: "
                + Self.percentiles.map { "\($0.name) \(result.recorder.completed.percentile($0.percent) / 1_000)" }
                .joined(separator: ", "),
        ]
        for (code, failure) in result.accounts.failures.sorted(by: { $0.key < $1.key }) {
            lines.append("\(failure.count) × \(failure.message.printable) (\(code.printable))")
        }
        if let message = result.strangeMessage { lines.append(message.printable) }
        return lines.joined(separator: "\n")
    }

    // MARK: - JSON

    /// One object on one line. Times are microseconds unless a name says otherwise.
    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 16 << 10)
        writer.object { writer in
            if let offeredRate { writer.member("offeredJobsPerSecond", offeredRate) }
            writer.member("seconds", result.seconds)
            writer.member("jobs", result.recorder.jobs)
            writer.member("records", result.recorder.records)
            writer.member("jobsPerSecond", result.jobsPerSecond)
            writer.member("recordsPerSecond", result.recordsPerSecond)
            writer.member("contentBytes", result.recorder.contentBytes)
            writer.member("frameBytes", result.recorder.frameBytes)
            writeTotals(to: &writer)
            writer.object("latencyMicroseconds") { writer in
                writer.member("completed", result.recorder.completed)
                if result.recorder.accepted.count > 0 { writer.member("accepted", result.recorder.accepted) }
            }
            writer.member("lagMicroseconds", result.recorder.lag)
            writer.object("stagesMicroseconds") { writer in
                for (name, histogram) in zip(Answer.Stages.names, result.recorder.stages) {
                    writer.member(name, histogram)
                }
            }
            writeServer(to: &writer)
            writer.object("harness") { writer in
                writer.member("senderSeconds", result.senderSeconds)
                writer.member("processorSeconds", result.harnessSeconds)
                writer.member("frameWaits", result.frameWaits)
            }
            writeIntervals(to: &writer)
            writer.array("arguments") { writer in for argument in arguments { writer.string(argument) } }
        }
        return writer.bytes
    }

    private func writeTotals(to writer: inout JSONWriter) {
        let (totals, objects) = (result.accounts.totals, result.accounts.objects)
        writer.member(
            "total",
            [
                ("sent", totals.sent), ("ok", totals.ok), ("withRejects", totals.withRejects),
                ("failed", totals.failed),
                ("busy", totals.busy), ("lost", result.accounts.lost), ("duplicate", totals.duplicate),
                ("repeatedAnswers", totals.repeatedAnswers), ("strangeAnswers", totals.strangeAnswers),
            ])
        writer.member(
            "failures", result.accounts.failures.sorted { $0.key < $1.key }.map { ($0.key, $0.value.count) })
        writer.member(
            "objects",
            [
                ("inserted", objects.inserted), ("updated", objects.updated), ("unchanged", objects.unchanged),
                ("deleted", objects.deleted), ("rejected", objects.rejected),
            ])
    }

    private func writeServer(to writer: inout JSONWriter) {
        writer.object("server") { writer in
            if let process = result.server.process { writer.member("process", Int(process)) }
            if let serverSeconds { writer.member("processorSeconds", serverSeconds) }
            if let after = result.server.after {
                writer.member("residentBytes", after.residentBytes)
                writer.member("peakResidentBytes", after.peakBytes)
            }
            guard let stats = result.server.stats else { return }
            writer.key("stats")
            writer.raw(stats)
        }
    }

    private func writeIntervals(to writer: inout JSONWriter) {
        writer.array("intervals") { writer in
            for interval in result.recorder.intervals {
                writer.object { writer in
                    writer.member("start", interval.start)
                    writer.member("seconds", interval.seconds)
                    writer.member("jobs", interval.jobs)
                    writer.member("records", interval.records)
                    writer.member("p50", Double(interval.p50) / 1e3)
                    writer.member("p99", Double(interval.p99) / 1e3)
                    writer.member("max", Double(interval.highest) / 1e3)
                }
            }
        }
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Double) {
        self.key(key)
        double(value)
    }

    fileprivate mutating func member(_ key: String, _ counts: [(name: String, count: Int)]) {
        self.key(key)
        object { writer in
            for (name, count) in counts { writer.member(name, count) }
        }
    }

    /// The percentiles in microseconds.
    mutating func member(_ key: String, _ histogram: LatencyHistogram) {
        self.key(key)
        object { writer in
            writer.member("count", histogram.count)
            for (name, percent) in RunReport.percentiles {
                writer.member(name, Double(histogram.percentile(percent)) / 1e3)
            }
            writer.member("mean", histogram.mean / 1e3)
        }
    }
}

/// The result of a loop without Broker.
package struct BaselineReport: Sendable {
    package let amount: Int
    /// The counted unit: `records` or `jobs`.
    package let unit: String
    package let seconds: Double
    /// Processor seconds of the thread.
    package var processorSeconds: Double?
    package var commits: Int?
    package var latencies: LatencyHistogram?

    package var perSecond: Double { Double(amount) / seconds }

    package var text: String { "\(amount) \(unit) in \(seconds) s, \(Int(perSecond.rounded())) \(unit)/s" }

    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member(unit, amount)
            writer.member("seconds", seconds)
            writer.member("\(unit)PerSecond", perSecond)
            if let processorSeconds { writer.member("processorSeconds", processorSeconds) }
            if let commits { writer.member("commits", commits) }
            if let latencies { writer.member("latencyMicroseconds", latencies) }
        }
        return writer.bytes
    }
}
