internal import BrokerJSON

/// The report of a run: as JSON, or as some lines of text.
package struct RunReport: Sendable {
    package var offeredRate: Double?
    /// The parameters of the run, in the order of the options.
    package var settings: [(name: String, value: String)]
    package var environment: RunEnvironment
    package var result: RunResult

    package init(
        offeredRate: Double?, settings: [(name: String, value: String)], environment: RunEnvironment,
        result: RunResult
    ) {
        self.offeredRate = offeredRate
        self.settings = settings
        self.environment = environment
        self.result = result
    }

    /// The percentiles in the report.
    static let percentiles: [(name: String, percent: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("max", 100),
    ]

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
    /// The most important figures; everything is in ``json``.
    package var text: String {
        let totals = result.totals
        var lines = [
            "\(Int(result.jobsPerSecond.rounded())) jobs/s, \(Int(result.recordsPerSecond.rounded())) records/s",
            "\(totals.sent) jobs sent, \(totals.ok) ok, \(totals.failed) failed, \(result.lost) lost, "
                + "\(totals.duplicate) duplicate, \(totals.withRejects) with rejects",
            "microseconds until completed: "
                + Self.percentiles.map { "\($0.name) \(result.completed.percentile($0.percent) / 1_000)" }
                .joined(separator: ", "),
        ]
        for (code, failure) in result.failures.sorted(by: { $0.key < $1.key }) {
            lines.append("\(failure.count) × \(failure.message.printable) (\(code.printable))")
        }
        if let message = result.strangeMessage { lines.append(message.printable) }
        return lines.joined(separator: "\n")
    }
}
