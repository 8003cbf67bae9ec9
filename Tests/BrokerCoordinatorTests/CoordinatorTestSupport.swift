import TestSupport
import Foundation
import Logging

@testable import BrokerCoordinator

extension Monitor {
    /// As ``wait(_:)``, but not for ever: a run that hangs ends here, and says for what it waited.
    func patiently<Result>(_ what: String, _ body: (inout State) -> Result?) -> Result {
        if let result = wait(until: monotonicMicroseconds() + Patience.microseconds, body) { return result }
        fatalError("waited \(Patience.seconds) s in vain for \(what)")
    }
}

/// Holds threads back until it is opened.
final class Gate: Sendable {
    private let isOpen = Monitor(false)

    func open() {
        isOpen.broadcast {
            $0 = true
            return true
        }
    }

    func pass() { isOpen.patiently("a gate") { $0 ? () : nil } }
}

/// The log of a coordinator. Any thread may log and wait.
struct LogLines: LogHandler {
    private let lines = Monitor<[String]>([])
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.broadcast {
            $0.append("\(event.level): \(event.message) \(event.metadata?.keys.sorted() ?? [])")
            return true
        }
    }

    func waitUntil(_ text: String) {
        lines.patiently("a line in the log with: \(text)") { $0.contains { $0.contains(text) } ? () : nil }
    }

    func count(_ text: String) -> Int { lines.withLock { $0.count { $0.contains(text) } } }
}
