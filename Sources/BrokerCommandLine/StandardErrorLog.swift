internal import ArgumentParser
internal import BrokerJSON
internal import Foundation
internal import Glibc
package import Logging
internal import Synchronization

struct LogLine {
    let level: Logger.Level
    let message: String
    var metadata: Logger.Metadata = [:]
    let label: String
    /// Milliseconds since 1970.
    let time: Int64

    /// The line without its end. No character in it ends the line or is interpreted by a terminal.
    func text(_ format: LogFormat) -> String {
        switch format {
        case .text: "\(timestamp) \(level) \(label): \(plain)"
        case .journald: "<\(level.priority)>\(plain)"
        case .json: json
        }
    }

    /// The message and the metadata, by rising keys.
    private var plain: String {
        metadata.sorted { $0.key < $1.key }
            .reduce(message.printable) { $0 + " \($1.key.printable)=\("\($1.value)".quotedForLog)" }
    }

    /// What clients choose, and what is for people, is text whatever is in it.
    private static let texts: Set = ["id", "client", "trace", "path", "file", "message", "cause", "error", "reason"]

    private var json: String {
        var writer = JSONWriter()
        writer.object { writer in
            for (key, value) in [("time", timestamp), ("level", "\(level)"), ("label", label), ("message", message)] {
                writer.member(key, value)
            }
            guard !metadata.isEmpty else { return }
            writer.object("metadata") { writer in
                for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
                    let text = "\(value)"
                    if let number = Int64(text), "\(number)" == text, !Self.texts.contains(key) {
                        writer.member(key, number)
                    } else {
                        writer.member(key, text)
                    }
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self).printableJSON
    }

    /// RFC 3339, UTC, with milliseconds.
    private var timestamp: String {
        let fraction = String(1_000 + time % 1_000).dropFirst()
        return Timestamp(seconds: Int(time / 1_000)).formatted("%Y-%m-%dT%H:%M:%S") + ".\(fraction)Z"
    }
}

extension Logger.Level {
    fileprivate var priority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}

/// A moment, as texts for people and for names of files; in UTC unless stated.
package struct Timestamp: Sendable {
    private let seconds: Int

    package init(seconds: Int) { self.seconds = seconds }

    package static var now: Timestamp { Timestamp(seconds: time(nil)) }

    /// `20261125T213000Z`: the basic format of ISO 8601. Names with it sort by time.
    package var fileNamePart: String { formatted("%Y%m%dT%H%M%SZ") }

    /// `2026-11-25 21:30:00 UTC`
    package var text: String { formatted("%Y-%m-%d %H:%M:%S UTC") }

    /// `2026-11-25 22:30:00`, in this machine's time zone.
    package var localText: String { formatted("%Y-%m-%d %H:%M:%S", isLocal: true) }

    package static func isFileNamePart(_ text: some StringProtocol) -> Bool {
        String(text).wholeMatch(of: /[0-9]{8}T[0-9]{6}Z/) != nil
    }

    /// - Parameters:
    ///   - format: of strftime(3), for numbers alone, at most 63 bytes.
    ///   - isLocal: in this machine's time zone.
    package func formatted(_ format: String, isLocal: Bool = false) -> String {
        var (time, parts) = (time_t(seconds), tm())
        if isLocal { localtime_r(&time, &parts) } else { gmtime_r(&time, &parts) }
        var bytes = [CChar](repeating: 0, count: 64)
        let count = strftime(&bytes, bytes.count, format, &parts)
        return String(decoding: bytes.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// Writes each log event as one line to standard error, in one call of write(2).
package struct StandardErrorLog: LogHandler, EscapingItself {
    private let label: String
    private let format: LogFormat
    private var level: LogLevel
    package var logLevel: Logger.Level {
        get { level.current }
        set { level = LogLevel(newValue) }
    }
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    init(label: String, format: LogFormat, level: LogLevel) {
        (self.label, self.format, self.level) = (label, format, level)
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var all = metadata
        for more in [metadataProvider?.get(), event.metadata] { all.merge(more ?? [:]) { $1 } }
        if let error = event.error { all["error"] = "\(error)" }
        let time = Int64(Date().timeIntervalSince1970 * 1_000)
        let line = LogLine(level: event.level, message: "\(event.message)", metadata: all, label: label, time: time)
        Terminal.write(line.text(format) + "\n")
    }
}

extension Logger {
    package static func standardError(label: String, level: LogLevel, format: LogFormat = .text) -> Logger {
        Logger(label: label) { StandardErrorLog(label: $0, format: format, level: level) }
    }
}

/// The least severe level of a log, which may change while it is used. Any thread may call.
package final class LogLevel: Sendable {
    private let index: Atomic<Int>

    package init(_ level: Logger.Level) { index = Atomic(Self.index(of: level)) }

    package var current: Logger.Level { Logger.Level.allCases[index.load(ordering: .relaxed)] }

    package func use(_ level: Logger.Level) { index.store(Self.index(of: level), ordering: .relaxed) }

    private static func index(of level: Logger.Level) -> Int { Logger.Level.allCases.firstIndex(of: level) ?? 0 }
}

/// The form of the lines of a log on standard error.
package enum LogFormat: String, CaseIterable, Sendable, ExpressibleByArgument {
    /// Time, level and message, then the metadata.
    case text
    case json
    /// The priority of the line in `<>` (sd-daemon(3)), and no time: journald has its own.
    case journald

    /// ``journald`` where standard error is the journal's stream, else ``text``.
    package static var detected: LogFormat {
        getenv("JOURNAL_STREAM").map { isStandardError(String(cString: $0)) } == true ? .journald : .text
    }

    /// Whether standard error has the device and the inode of a text `device:inode` (systemd.exec(5), `$JOURNAL_STREAM`).
    static func isStandardError(_ stream: String) -> Bool {
        var status = stat()
        guard fstat(STDERR_FILENO, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }
}
