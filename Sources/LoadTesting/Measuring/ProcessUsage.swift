internal import BrokerJSON
internal import Glibc

/// The resources that a process has used, by proc(5).
package struct ProcessUsage: Sendable, Equatable {
    package var userSeconds: Double
    package var systemSeconds: Double
    package var residentBytes: Int
    /// The most that was resident at a time.
    package var peakBytes: Int

    package var processorSeconds: Double { userSeconds + systemSeconds }

    /// Reads a process; nil when it has ended, or may not be read.
    package init?(of process: Int32) {
        guard let stat = Self.text("/proc/\(process)/stat"), let status = Self.text("/proc/\(process)/status"),
            let name = stat.lastIndex(of: ")")
        else { return nil }
        // After the name, which may contain anything, field 3 is the first.
        let fields = stat[stat.index(after: name)...].split(separator: " ")
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        userSeconds = user / ticks
        systemSeconds = system / ticks
        residentBytes = Self.kibibytes("VmRSS:", status) << 10
        peakBytes = Self.kibibytes("VmHWM:", status) << 10
    }

    private static func kibibytes(_ name: String, _ status: String) -> Int {
        for line in status.split(separator: "\n") where line.hasPrefix(name) {
            return line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return 0
    }

    /// A file of the kernel's, which has no length beforehand; nil when it cannot be read.
    static func text(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 8 << 10)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer.prefix(count)
        }
    }

    /// Processor seconds of this process so far: user and system.
    package static var ofThisProcess: (user: Double, system: Double) {
        var usage = rusage()
        getrusage(Self.wholeProcess, &usage)
        return (seconds(usage.ru_utime), seconds(usage.ru_stime))
    }

    /// Processor seconds of the calling thread so far.
    package static var ofThisThread: Double {
        var usage = rusage()
        getrusage(Self.callingThread, &usage)
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    /// RUSAGE_SELF and RUSAGE_THREAD of getrusage(2), which Swift does not see as numbers, or not at all.
    private static let wholeProcess: Int32 = 0
    private static let callingThread: Int32 = 1

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
}

/// The counters of a server's `stats` at one time; 0 for a missing one.
package struct ServerSample: Sendable, Equatable {
    package var commits = 0
    package var completed = 0
    package var opening = 0
    package var staging = 0
    package var queuedBytes = 0
    package var logBytes = 0

    init(_ stats: JSONValue) {
        func count(_ group: String, _ name: String) -> Int { stats[group]?[name]?.int64.map { Int($0) } ?? 0 }
        commits = stats["commits"]?.int64.map { Int($0) } ?? 0
        completed = count("jobs", "completed")
        opening = count("queues", "opening")
        staging = count("queues", "staging")
        queuedBytes = count("queues", "bytes")
        logBytes = count("wal", "bytes")
    }
}

/// A server as a run saw it.
package struct ServerObservations: Sendable {
    /// The server's name.
    package var name = ""
    package var process: Int32?
    package var before: ProcessUsage?
    package var after: ProcessUsage?
    package var samples: [ServerSample] = []
    /// The last `stats` as JSON text; nil when there was none.
    package var stats: [UInt8]?
}
