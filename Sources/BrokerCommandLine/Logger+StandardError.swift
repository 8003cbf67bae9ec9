package import Logging

extension Logger {
    /// Logs messages of at least that level to standard error.
    package static func standardError(label: String, level: Level) -> Logger {
        var logger = Logger(label: label) { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = level
        return logger
    }
}
