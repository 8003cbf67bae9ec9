internal import Glibc

/// The resources that a process has used, by proc(5).
package struct ProcessUsage: Sendable, Equatable {
    package var processorSeconds: Double
    package var residentBytes: Int
    /// The most that was resident at a time.
    package var peakBytes: Int

    /// Reads a process; nil when it has ended, or may not be read.
    package init?(of process: Int32) {
        guard let stat = Self.text("/proc/\(process)/stat"), let status = Self.text("/proc/\(process)/status"),
            let name = stat.lastIndex(of: ")")
        else { return nil }
        // After the name, which may contain anything, field 3 is the first.
        let fields = stat[stat.index(after: name)...].split(separator: " ")
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        processorSeconds = (user + system) / ticks
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
    private static func text(_ path: String) -> String? {
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

    /// Processor seconds of this process so far.
    static var ofThisProcess: Double { seconds(of: 0) }

    /// Processor seconds of the calling thread so far.
    static var ofThisThread: Double { seconds(of: 1) }

    /// - Parameter who: RUSAGE_SELF or RUSAGE_THREAD of getrusage(2), which Swift does not see as numbers, or not at all.
    private static func seconds(of who: Int32) -> Double {
        var usage = rusage()
        getrusage(who, &usage)
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
}

/// A server as a run saw it.
package struct ServerObservations: Sendable {
    /// Empty before its greeting.
    var name = ""
    package var process: Int32?
    package var before: ProcessUsage?
    package var after: ProcessUsage?
    /// The `stats` after the run as JSON text; nil when there was none.
    package var stats: [UInt8]?
}
