import ArgumentParser
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import Histogram
import Synchronization

/// Sends jobs to a server and measures how fast they are durable.
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Sends jobs to a brokerd that has the model of `brokerload model`, and measures.")

    @Option(help: "The server's Unix socket.", completion: .file())
    var socket = "broker.sock"

    @Option(help: "Jobs in flight on each connection.")
    var concurrency = 4

    @Option(help: "Connections.")
    var connections = 1

    @OptionGroup var size: LoadSize

    mutating func validate() throws {
        try [
            NumberOption("--concurrency", concurrency, in: 1...100_000),
            NumberOption("--connections", connections, in: 1...100_000),
        ].check()
    }

    func run() async throws {
        let payloads = (0..<size.jobs).map { size.payload($0) }
        var brokers: [BrokerClient] = []
        do {
            for _ in 0..<connections {
                var options = BrokerClient.Options(clientName: "brokerload")
                options.maximumJobsInFlight = concurrency
                brokers.append(try await BrokerClient.connect(to: socket, options: options))
            }
        } catch {
            throw CommandFailure(.cannotConnect, "\(error)")
        }
        let next = JobCounter(size.jobs)
        let start = Stopwatch()
        let latencies = try await withThrowingTaskGroup(of: Histogram<UInt32>.self) { group in
            for broker in brokers {
                for _ in 0..<concurrency {
                    group.addTask { try await Self.send(payloads, next, on: broker) }
                }
            }
            var all = Self.histogram()
            for try await latencies in group { all.add(latencies) }
            return all
        }
        let seconds = start.seconds
        for broker in brokers { await broker.close() }
        var report = LoadReport(records: size.jobs * size.records, seconds: seconds)
        report.jobs = size.jobs
        report.latencies = latencies
        try report.say(as: "broker", json: size.json)
    }

    /// Sends jobs until there are none left, one after the other.
    private static func send(
        _ payloads: [[UInt8]], _ next: JobCounter, on broker: BrokerClient
    ) async throws -> Histogram<UInt32> {
        var latencies = histogram()
        while let job = next.take() {
            let start = Stopwatch()
            do {
                _ = try await broker.process(payloads[job], as: "Employee")
            } catch {
                throw CommandFailure(.failed, "Job \(job): \(error)")
            }
            _ = latencies.record(UInt64(start.seconds * 1_000_000))
        }
        return latencies
    }

    private static func histogram() -> Histogram<UInt32> {
        // Up to an hour, in microseconds.
        Histogram(highestTrackableValue: 3_600_000_000, numberOfSignificantValueDigits: .three)
    }
}

/// Job numbers, each given to one task.
private final class JobCounter: Sendable {
    private let next = Atomic(0)
    private let count: Int

    init(_ count: Int) { self.count = count }

    func take() -> Int? {
        let number = next.add(1, ordering: .relaxed).oldValue
        return number < count ? number : nil
    }
}

/// What was measured.
struct LoadReport {
    let records: Int
    let seconds: Double
    var jobs: Int?
    /// Microseconds from sending a job to its completion.
    var latencies: Histogram<UInt32>?

    init(records: Int, seconds: Double) {
        self.records = records
        self.seconds = seconds
    }

    func say(as name: String, json: Bool) throws(CommandFailure) {
        if json { return try Program.say(String(decoding: jsonText(name), as: UTF8.self)) }
        var line = "\(name): \(records) records in \(rounded(seconds)) s, \(rate(records)) records/s"
        if let jobs { line += ", \(rate(jobs)) jobs/s" }
        if let latencies {
            let figures = Self.percentiles.map { "\($0.name) \(latencies.valueAtPercentile($0.value)) µs" }
            line += "; latency \(figures.joined(separator: ", "))"
        }
        try Program.say(line)
    }

    private static let percentiles: [(name: String, value: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("max", 100),
    ]

    private func jsonText(_ name: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("name")
            writer.string(name)
            writer.key("records")
            writer.integer(records)
            writer.key("seconds")
            writer.double(seconds)
            writer.key("recordsPerSecond")
            writer.double(Double(records) / seconds)
            if let jobs {
                writer.key("jobsPerSecond")
                writer.double(Double(jobs) / seconds)
            }
            guard let latencies else { return }
            writer.key("latencyMicroseconds")
            writer.object { writer in
                for (name, value) in Self.percentiles {
                    writer.key(name)
                    writer.integer(latencies.valueAtPercentile(value))
                }
            }
        }
        return writer.bytes
    }

    private func rate(_ count: Int) -> Int { Int(Double(count) / seconds) }

    private func rounded(_ seconds: Double) -> String { "\((seconds * 1_000).rounded() / 1_000)" }
}
