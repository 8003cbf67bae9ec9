import BrokerCoordinator
import BrokerJSON

/// The one line that `systemctl status` shows.
struct ServiceStatus: Sendable, Equatable {
    /// A change of it is reported at once; numbers in the line may be late.
    enum Kind: Sendable, Equatable { case starting, serving, waiting, paused, reloading, draining, halted, failed }

    let kind: Kind
    let text: String

    private static let maximumCauseCharacters = 300

    static let starting = ServiceStatus(
        kind: .starting, text: "Starting: opens the store and applies the accepted jobs of the journal or the log.")
    static let reloading = ServiceStatus(kind: .reloading, text: "Reloading the model.")

    static func failed(_ cause: String) -> ServiceStatus {
        ServiceStatus(kind: .failed, text: "Failed: \(shortened(cause))")
    }

    private init(kind: Kind, text: String) {
        self.kind = kind
        self.text = text
    }

    /// - Parameter refusal: why the last reload was refused, if it was.
    init(_ condition: CoordinatorCondition, connections: Int, refusal: String?) {
        let jobs = Self.count(condition.jobs, "job")
        let load = "\(Self.count(connections, "connection")), \(jobs) in flight"
        if condition.isDraining {
            (kind, text) = (.draining, "Draining: \(load).")
        } else if let cause = condition.haltCause {
            (kind, text) = (.halted, "Halted, serves reads: \(load). \(Self.shortened(cause))")
        } else if let cause = condition.waitingCause {
            (kind, text) = (.waiting, "Waiting for the store: \(load). \(Self.shortened(cause))")
        } else if condition.isPaused {
            (kind, text) = (.paused, "Paused by an administrator: \(load).")
        } else {
            let note = refusal.map { " The last reload was refused: \(Self.shortened($0))" } ?? ""
            (kind, text) = (.serving, "Serving: \(load).\(note)")
        }
    }

    private static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

    /// One line without control characters.
    private static func shortened(_ cause: String) -> String {
        let line = cause.printable
        return line.count > maximumCauseCharacters ? line.prefix(maximumCauseCharacters) + "…" : line
    }
}
