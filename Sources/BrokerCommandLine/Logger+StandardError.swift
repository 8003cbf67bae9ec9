package import Logging

extension Logger {
    /// Logs to standard error what is at least as severe as `level`.
    package static func standardError(label: String, level: Level) -> Logger {
        var logger = Logger(label: label) { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = level
        return logger
    }
}
