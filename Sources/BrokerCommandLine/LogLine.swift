internal import BrokerJSON
internal import CGlibc
internal import Glibc
package import Logging

/// One line of a log, before it has a form.
package struct LogLine {
    package let level: Logger.Level
    let label: String
    package let message: String
    package let metadata: Logger.Metadata
    /// Milliseconds since 1970.
    let time: Int64

    package init(
        _ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata = [:], label: String, time: Int64
    ) {
        self.level = level
        self.message = message
        self.metadata = metadata
        self.label = label
        self.time = time
    }

    /// The line without its end. No character in it ends the line or is interpreted by a terminal.
    package func text(_ format: LogFormat) -> String {
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

    private var json: String {
        var writer = JSONWriter()
        writer.object { writer in
            for (key, value) in [("time", timestamp), ("level", "\(level)"), ("label", label), ("message", message)] {
                writer.key(key)
                writer.string(value)
            }
            guard !metadata.isEmpty else { return }
            writer.key("metadata")
            writer.object { writer in
                for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
                    writer.key(key)
                    writer.string("\(value)")
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
    /// The priority of syslog(3).
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
