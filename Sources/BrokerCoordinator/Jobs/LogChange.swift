internal import BrokerJournal
internal import BrokerSchema
internal import BrokerStore

/// A change of what decides outcomes. It is an entry of the log, and takes effect between the jobs before and after it.
enum LogChange: Sendable, Equatable {
    /// The text of the model, and what happens to parts of the store that it does not have.
    case model(String, RemovalPolicy)
    case limits(LoggedLimits)

    /// - Returns: nil for a payload that a later version wrote.
    init?(_ kind: JournalEntry.Kind, _ payload: [UInt8]) {
        guard let text = String(validating: payload, as: UTF8.self) else { return nil }
        switch kind {
        case .model:
            let parts = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let removal = RemovalPolicy(rawValue: String(parts[0])) else { return nil }
            self = .model(String(parts[1]), removal)
        case .limits:
            guard let limits = LoggedLimits(text) else { return nil }
            self = .limits(limits)
        case .job, .cancellation: return nil
        }
    }

    var kind: JournalEntry.Kind {
        switch self {
        case .model: .model
        case .limits: .limits
        }
    }

    /// For a model a line with the policy, then the text.
    var payload: [UInt8] {
        switch self {
        case .model(let text, let removal): Array("\(removal.rawValue)\n\(text)".utf8)
        case .limits(let limits): Array(limits.text.utf8)
        }
    }
}

/// A change that was read from the log.
struct LoggedChange: Sendable {
    let kind: JournalEntry.Kind
    let payload: [UInt8]
    let place: LogPlace
    /// Nil for the change of another server, or of an earlier run of this one.
    let ticket: Int?

    var mark: LogMark { LogMark(position: place.position ?? 0, time: place.time, content: payload) }
}
