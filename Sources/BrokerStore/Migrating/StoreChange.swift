/// The treatment of parts of a store that the model no longer has.
public enum RemovalPolicy: String, Sendable, CaseIterable {
    /// The store is refused.
    case refuse
    /// The part stays in the file, unused, so that the earlier model can be used again.
    case keep
    /// The part is dropped with all its values.
    case drop
}

/// A difference between a store and a model, and its treatment.
public struct StoreChange: Sendable, Equatable {
    public enum Verdict: String, Sendable, CaseIterable {
        /// The store is migrated without loss.
        case migrated
        /// The part stays in the file, unused.
        case kept
        case dropped
        /// The store cannot be migrated without loss, so nothing at all is changed.
        case refused
    }

    public let verdict: Verdict
    /// The subject of the change: `Entity`, `Entity.attribute`, a table or `table.column`.
    public let subject: String
    /// The state in the store and in the model; for people, without the full stop.
    public let text: String
    /// The remedy for a refused change.
    public let remedy: String?

    init(_ verdict: Verdict, _ subject: String, _ text: String, remedy: String? = nil) {
        self.verdict = verdict
        self.subject = subject
        self.text = text
        self.remedy = remedy
    }

    /// The text, and the remedy in brackets.
    public var told: String { remedy.map { "\(text) (\($0))" } ?? text }
}

/// The changes that were made to a store when it was opened.
public struct StoreMigration: Sendable, Equatable {
    public let changes: [StoreChange]
    public let milliseconds: Int
    /// Further facts about the database that an operator should know: sentences.
    public var notes: [String] = []

    /// For people: a line for each change and one for all, then ``notes``.
    public var lines: [String] {
        guard !changes.isEmpty else { return notes }
        let count = "\(changes.count) change\(changes.count == 1 ? "" : "s")"
        return changes.map { "The store was changed, \($0.verdict.rawValue): \($0.text)." }
            + ["The store fits the model now: \(count) in \(milliseconds) ms."] + notes
    }
}
