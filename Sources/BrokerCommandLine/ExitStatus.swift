/// The exit statuses of Broker's programs, as in the table of protocol/guides/commands.md.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    case success = 0
    case failed = 1
    case usage = 2
    case rejected = 3
    case cannotConnect = 4
    /// The server answers, and its store takes nothing at the moment.
    case waiting = 5
    /// The server answers, and was paused, or stops.
    case paused = 6
    /// The server serves, and refused the last reload of its model.
    case degraded = 7

    package var meaning: String {
        switch self {
        case .success: "everything asked for is committed"
        case .failed: "failed"
        case .usage: "wrong arguments"
        case .rejected: "committed, and some records were rejected (`--on-invalid skip`)"
        case .cannotConnect: "no connection, or no answer in time"
        case .waiting: "of `broker health`: the store takes nothing at the moment, and jobs wait"
        case .degraded:
            "of `broker health`: the server serves, and the next start would fail, because a reload was refused"
        case .paused: "of `broker health`: the server is paused, or stops"
        }
    }

    /// A sentence for the help of a program that ends with these.
    package static func explanation(_ statuses: [ExitStatus] = allCases) -> String {
        "Exit status: " + statuses.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: "; ") + "."
    }
}
