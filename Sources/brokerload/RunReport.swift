import BrokerJSON
import Foundation
import Glibc
import Histogram

/// Nanoseconds of a clock that never goes back.
func monotonicNanoseconds() -> UInt64 { DispatchTime.now().uptimeNanoseconds }

/// Times in nanoseconds, with three digits, up to an hour.
struct LatencyHistogram: Sendable {
    private static let highest: UInt64 = 3_600_000_000_000

    private var counts = Histogram<UInt32>(highestTrackableValue: highest, numberOfSignificantValueDigits: .three)

    /// Longer than an hour is counted as an hour.
    mutating func record(_ nanoseconds: UInt64) { _ = counts.record(min(Self.highest, nanoseconds)) }

    var count: Int { Int(counts.totalCount) }

    /// Microseconds below which that share of the values is; 0 when there are none.
    func microseconds(_ percent: Double) -> Double {
        counts.totalCount == 0 ? 0 : Double(counts.valueAtPercentile(percent)) / 1e3
    }

    var meanMicroseconds: Double { counts.totalCount == 0 ? 0 : counts.mean / 1e3 }
}

/// What happened in a while of a run.
struct RunInterval: Sendable {
    /// Seconds from the start of the measured time.
    var start: Double
    var seconds = 0.0
    var jobs = 0
    var records = 0
}

/// Counts the measurements, interval by interval. Jobs that were sent before the measured time are not counted.
struct RunRecorder {
    private(set) var completed = LatencyHistogram()
    private(set) var accepted = LatencyHistogram()
    /// How late jobs were sent.
    private(set) var lag = LatencyHistogram()
    private(set) var intervals: [RunInterval] = []
    /// Ends within the measured time.
    private(set) var jobs = 0
    private(set) var records = 0
    private(set) var contentBytes = 0
    private(set) var frameBytes = 0

    private var current = RunInterval(start: 0)

    mutating func sent(late: UInt64, contentBytes: Int, frameBytes: Int) {
        lag.record(late)
        self.contentBytes += contentBytes
        self.frameBytes += frameBytes
    }

    /// - Parameter latency: nil for a job of the warm-up, whose end counts for the rate alone.
    mutating func ended(records: Int, latency: UInt64?) {
        jobs += 1
        self.records += records
        current.jobs += 1
        current.records += records
        if let latency { completed.record(latency) }
    }

    mutating func accepted(latency: UInt64) { accepted.record(latency) }

    /// The latency of a job that ended after the measured time, but was sent within it.
    mutating func endedLate(latency: UInt64) { completed.record(latency) }

    /// - Parameter end: seconds from the start of the measured time.
    mutating func closeInterval(at end: Double) {
        current.seconds = end - current.start
        if current.seconds > 0 { intervals.append(current) }
        current = RunInterval(start: end)
    }
}

/// The resources that a process has used, by proc(5).
struct ProcessUsage: Sendable, Equatable {
    var processorSeconds: Double
    /// The most that was resident at a time.
    var peakBytes: Int

    /// Reads a process; nil when it has ended, or may not be read.
    init?(of process: Int32) {
        let folder = "/proc/\(process)"
        guard let stat = try? String(contentsOfFile: "\(folder)/stat", encoding: .utf8),
            let status = try? String(contentsOfFile: "\(folder)/status", encoding: .utf8),
            let name = stat.lastIndex(of: ")")
        else { return nil }
        // After the name, which may contain anything, field 3 is the first.
        let fields = stat[stat.index(after: name)...].split(separator: " ")
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        processorSeconds = (user + system) / ticks
        let peak = status.firstMatch(of: /VmHWM:\s+(\d+) kB/)
        peakBytes = peak.flatMap { Int($0.1) }.map { $0 << 10 } ?? 0
    }

    /// Processor seconds of this process so far.
    static var ofThisProcess: Double { seconds(of: 0) }

    /// Processor seconds of the calling thread so far.
    static var ofThisThread: Double { seconds(of: 1) }

    /// - Parameter who: RUSAGE_SELF or RUSAGE_THREAD of getrusage(2), which Swift does not see as numbers, or not at all.
    private static func seconds(of who: Int32) -> Double {
        var usage = rusage()
        getrusage(who, &usage)
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
    }
}

struct RunResult: Sendable {
    var seconds = 0.0
    /// Of the whole run, the warm-up with it.
    var accounts = JobAccounts()
    /// Of the measured time only.
    var recorder = RunRecorder()
    var server = ServerObservations()
    /// Processor seconds of the thread that sends and receives, and of the whole harness.
    var senderSeconds = 0.0
    var harnessSeconds = 0.0

    var jobsPerSecond: Double { seconds > 0 ? Double(recorder.jobs) / seconds : 0 }
    var recordsPerSecond: Double { seconds > 0 ? Double(recorder.records) / seconds : 0 }
}

struct RunReport: Sendable {
    var offeredRate: Double?
    /// As the run was asked for.
    var arguments: [String]
    var result: RunResult

    fileprivate static let percentiles: [(name: String, percent: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("max", 100),
    ]

    /// One object on one line. Times are microseconds unless a name says otherwise.
    var json: [UInt8] {
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
            let accounts = result.accounts
            writer.member(
                "total",
                [
                    ("sent", accounts.sent), ("ok", accounts.ok), ("failed", accounts.failed), ("lost", accounts.lost),
                    ("unexpected", accounts.unexpected),
                ])
            writer.member("failures", accounts.failures.sorted { $0.key < $1.key }.map { ($0.key, $0.value.count) })
            writer.object("latencyMicroseconds") { writer in
                writer.member("completed", result.recorder.completed)
                if result.recorder.accepted.count > 0 { writer.member("accepted", result.recorder.accepted) }
            }
            writer.member("lagMicroseconds", result.recorder.lag)
            writer.object("server", writeServer)
            writer.object("harness") { writer in
                writer.member("senderSeconds", result.senderSeconds)
                writer.member("processorSeconds", result.harnessSeconds)
            }
            writer.objects("intervals", of: result.recorder.intervals) { interval, writer in
                writer.member("start", interval.start)
                writer.member("seconds", interval.seconds)
                writer.member("jobs", interval.jobs)
                writer.member("records", interval.records)
            }
            writer.strings("arguments", arguments)
        }
        return writer.bytes
    }

    private func writeServer(to writer: inout JSONWriter) {
        let server = result.server
        if let process = server.process { writer.member("process", Int(process)) }
        if let before = server.before, let after = server.after {
            writer.member("processorSeconds", after.processorSeconds - before.processorSeconds)
        }
        if let after = server.after {
            writer.member("peakResidentBytes", after.peakBytes)
        }
        writer.member("stats", raw: server.stats)
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Double) {
        self.key(key)
        double(value)
    }

    fileprivate mutating func member(_ key: String, _ counts: [(name: String, count: Int)]) {
        object(key) { writer in for (name, count) in counts { writer.member(name, count) } }
    }

    /// The percentiles in microseconds.
    mutating func member(_ key: String, _ histogram: LatencyHistogram) {
        object(key) { writer in
            writer.member("count", histogram.count)
            for (name, percent) in RunReport.percentiles { writer.member(name, histogram.microseconds(percent)) }
            writer.member("mean", histogram.meanMicroseconds)
        }
    }
}
