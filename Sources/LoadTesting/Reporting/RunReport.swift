internal import BrokerJSON
internal import BrokerSQLite
internal import CSQLite
internal import Glibc

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

extension RunReport {
    /// One object on one line. Times are microseconds unless a name says otherwise.
    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 16 << 10)
        writer.object { writer in
            if let offeredRate { writer.member("offeredJobsPerSecond", offeredRate) }
            writer.member("seconds", result.seconds)
            writer.member("jobs", result.jobs)
            writer.member("records", result.records)
            writer.member("jobsPerSecond", result.jobsPerSecond)
            writer.member("recordsPerSecond", result.recordsPerSecond)
            writer.member("contentBytes", result.contentBytes)
            writer.member("frameBytes", result.frameBytes)
            writeTotals(to: &writer)
            writer.object("latencyMicroseconds") { writer in
                writer.member("completed", result.completed)
                if result.accepted.count > 0 { writer.member("accepted", result.accepted) }
            }
            writer.member("lagMicroseconds", result.lag)
            writer.object("stagesMicroseconds") { writer in
                for (name, histogram) in zip(Answer.Stages.names, result.stages) { writer.member(name, histogram) }
            }
            writeServer(to: &writer)
            writer.object("harness") { writer in
                writer.member("senderSeconds", result.senderSeconds)
                writer.member("processorSeconds", result.harnessSeconds)
                writer.member("frameWaits", result.frameWaits)
            }
            writeIntervals(to: &writer)
            writer.member("settings", settings)
            writer.member("environment", environment.facts)
        }
        return writer.bytes
    }

    private func writeTotals(to writer: inout JSONWriter) {
        let totals = result.totals
        writer.object("total") { writer in
            writer.member("sent", totals.sent)
            writer.member("ok", totals.ok)
            writer.member("withRejects", totals.withRejects)
            writer.member("failed", totals.failed)
            writer.member("busy", totals.busy)
            writer.member("lost", result.lost)
            writer.member("duplicate", totals.duplicate)
            writer.member("repeatedAnswers", totals.repeatedAnswers)
            writer.member("strangeAnswers", totals.strangeAnswers)
        }
        writer.object("failures") { writer in
            for (code, failure) in result.failures.sorted(by: { $0.key < $1.key }) {
                writer.member(code, failure.count)
            }
        }
        writer.object("objects") { writer in
            writer.member("inserted", result.objects.inserted)
            writer.member("updated", result.objects.updated)
            writer.member("unchanged", result.objects.unchanged)
            writer.member("deleted", result.objects.deleted)
            writer.member("rejected", result.objects.rejected)
        }
    }

    private func writeServer(to writer: inout JSONWriter) {
        writer.object("server") { writer in
            if let process = result.server.process { writer.member("process", Int(process)) }
            if let serverSeconds { writer.member("processorSeconds", serverSeconds) }
            if let after = result.server.after {
                writer.member("residentBytes", after.residentBytes)
                writer.member("peakResidentBytes", after.peakBytes)
            }
            if let jobsPerCommit { writer.member("jobsPerCommit", jobsPerCommit) }
            writer.member("mostOpening", peak(\.opening))
            writer.member("mostStaging", peak(\.staging))
            writer.member("mostQueuedBytes", peak(\.queuedBytes))
            writer.member("mostLogBytes", peak(\.logBytes))
            guard let stats = result.server.stats else { return }
            writer.key("stats")
            writer.raw(stats)
        }
    }

    private func writeIntervals(to writer: inout JSONWriter) {
        writer.array("intervals") { writer in
            for interval in result.intervals {
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

    mutating func member(_ key: String, _ values: [(name: String, value: String)]) {
        self.key(key)
        object { writer in
            for (name, value) in values { writer.member(name, value) }
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

/// The machine and the system of a run, as far as the system reports them.
package struct RunEnvironment: Sendable {
    /// Names and values, in the order of the report.
    package private(set) var facts: [(name: String, value: String)] = []

    /// - Parameters:
    ///   - server: what the server calls itself; nil where none was asked.
    ///   - process: the server's, whose arguments name the store.
    package init(server: String?, process: Int32?) {
        add("server", server)
        let arguments = process.flatMap(Self.arguments) ?? []
        if !arguments.isEmpty { add("command", arguments.joined(separator: " ")) }
        add("sqlite", String(cString: sqlite3_libversion()))
        if let store = Self.storePath(arguments, process) { describe(store, arguments) }
        add("machine", Self.processor)
        add("kernel", ProcessUsage.text("/proc/sys/kernel/osrelease").map(Self.trimmed))
        add("memory", Self.memory)
    }

    package mutating func add(_ name: String, _ value: String?) {
        if let value, !value.isEmpty { facts.append((name, value)) }
    }

    // MARK: - The store

    private mutating func describe(_ store: String, _ arguments: [String]) {
        add("file system", Self.fileSystem(of: store))
        guard let connection = try? Connection(path: store, .read) else { return }
        let pragmas = ["journal_mode", "page_size", "auto_vacuum"].compactMap { name in
            (try? connection.text("PRAGMA \(name)")).map { "\(name) = \($0)" }
        }
        // A setting of the connection: as given to the server, or its default.
        let usual = arguments.contains("--journal") ? "normal" : "full"
        let synchronous = "synchronous = \(Self.option("--synchronous", arguments) ?? usual)"
        add("pragmas", (pragmas + [synchronous]).joined(separator: ", "))
    }

    private static func arguments(of process: Int32) -> [String]? {
        ProcessUsage.text("/proc/\(process)/cmdline")?.split(separator: "\0").map(String.init)
    }

    /// The value of `--name value` or `--name=value`.
    private static func option(_ name: String, _ arguments: [String]) -> String? {
        for (place, argument) in arguments.enumerated() {
            if argument == name, place + 1 < arguments.count { return arguments[place + 1] }
            if argument.hasPrefix(name + "=") { return String(argument.dropFirst(name.count + 1)) }
        }
        return nil
    }

    /// As seen from here: a relative path is the server's.
    private static func storePath(_ arguments: [String], _ process: Int32?) -> String? {
        guard let store = option("--store", arguments), let process else { return nil }
        return store.hasPrefix("/") ? store : "/proc/\(process)/cwd/\(store)"
    }

    /// The type of the file system that a file is on (proc(5), mountinfo).
    private static func fileSystem(of path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        let place = String(cString: resolved)
        var best: (count: Int, type: String)?
        for line in ProcessUsage.text("/proc/self/mountinfo")?.split(separator: "\n") ?? [] {
            let fields = line.split(separator: " ")
            guard fields.count > 4, let dash = fields.firstIndex(of: "-"), dash + 1 < fields.count else { continue }
            let mount = String(fields[4])
            let isAbove = mount == "/" || place == mount || place.hasPrefix(mount + "/")
            guard isAbove, mount.utf8.count >= best?.count ?? 0 else { continue }
            best = (mount.utf8.count, String(fields[dash + 1]))
        }
        return best?.type
    }

    // MARK: - The machine

    private static var processor: String? {
        let lines = ProcessUsage.text("/proc/cpuinfo")?.split(separator: "\n") ?? []
        let model = lines.first { $0.hasPrefix("model name") }?.split(separator: ":").last.map { trimmed(String($0)) }
        return "\(sysconf(Int32(_SC_NPROCESSORS_ONLN))) × \(model ?? "processor")"
    }

    private static var memory: String? {
        let bytes = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
        return "\(bytes >> 30) GiB"
    }

    private static func trimmed(_ text: String) -> String {
        String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
