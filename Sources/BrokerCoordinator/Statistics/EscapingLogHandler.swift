internal import BrokerJSON
package import Logging

/// Passes log events on, without characters by which an outside text could forge a line or a field, or send an escape
/// sequence to a terminal.
///
/// Job ids, client names, paths and error messages quote what clients and files contain. Every line of the server and
/// the coordinator goes through this handler, or through one that is ``/BrokerJSON/EscapingItself``, so no call of a logger
/// has to escape.
struct EscapingLogHandler: LogHandler {
    var base: any LogHandler

    var logLevel: Logger.Level {
        get { base.logLevel }
        set { base.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { base.metadataProvider }
        set { base.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = Logger.Message(stringLiteral: event.message.description.printable)
        event.metadata = event.metadata?.mapValues(\.escaped)
        base.log(event: event)
    }
}

extension Logger {
    /// The same logger, whose lines are escaped (see ``EscapingLogHandler``).
    package var escaping: Logger {
        guard !(handler is EscapingLogHandler), !(handler is any EscapingItself) else { return self }
        var logger = self
        logger.handler = EscapingLogHandler(base: handler)
        return logger
    }
}

extension Logger.MetadataValue {
    /// Each text in it is one token of a log line.
    fileprivate var escaped: Logger.MetadataValue {
        switch self {
        case .string(let text): .string(text.quotedForLog)
        case .stringConvertible(let value): .string(value.description.quotedForLog)
        case .array(let values): .array(values.map(\.escaped))
        case .dictionary(let values): .dictionary(values.mapValues(\.escaped))
        }
    }
}
