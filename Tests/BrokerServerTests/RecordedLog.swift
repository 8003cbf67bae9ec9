import Logging
import Synchronization

/// A log that a test can read.
final class RecordedLog: LogHandler, Sendable {
    private let recorded = Mutex<[String]>([])

    /// Every line so far: the level, the message, and the metadata.
    var lines: [String] { recorded.withLock { $0 } }

    /// The first line with that level and these words.
    func line(_ level: Logger.Level, _ words: String) -> String? {
        lines.first { $0.hasPrefix("\(level) ") && $0.contains(words) }
    }

    func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
        recorded.withLock { $0.append("\(event.level) \(event.message) \(metadata)") }
    }

    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }
}
