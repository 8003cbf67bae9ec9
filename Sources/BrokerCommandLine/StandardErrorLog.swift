internal import BrokerJSON
internal import CGlibc
internal import Glibc
package import Logging

/// Writes each log event as one line to standard error, in one call of write(2).
package struct StandardErrorLog: LogHandler, EscapingItself {
    private let label: String
    private let format: LogFormat
    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var all = metadata
        for more in [metadataProvider?.get(), event.metadata] { all.merge(more ?? [:]) { $1 } }
        if let error = event.error { all["error"] = "\(error)" }
        let line = LogLine(event.level, "\(event.message)", all, label: label, time: Self.now)
        let bytes = Array((line.text(format) + "\n").utf8)
        // An error of the write cannot be reported anywhere.
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}

extension Logger {
    /// Logs messages of at least that level to standard error.
    package static func standardError(label: String, level: Level, format: LogFormat = .text) -> Logger {
        Logger(label: label) { StandardErrorLog(label: $0, format: format, logLevel: level) }
    }
}

extension StandardErrorLog {
    init(label: String, format: LogFormat, logLevel: Logger.Level) {
        self.label = label
        self.format = format
        self.logLevel = logLevel
    }
}
