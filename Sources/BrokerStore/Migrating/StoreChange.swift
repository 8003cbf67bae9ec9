/// What becomes of what a store has and the model has no longer.
public enum RemovalPolicy: String, Sendable, CaseIterable {
    /// The store is refused.
    case refuse
    /// It stays in the file, unused, so that the model before can be used again.
    case keep
    /// It is dropped with all its values.
    case drop
}

/// Something in which a store and a model disagree, and what would become of it.
public struct StoreChange: Sendable, Equatable {
    public enum Verdict: String, Sendable, CaseIterable {
        /// The store is made to fit, and loses nothing.
        case migrated
        /// It stays in the file, unused.
        case kept
        case dropped
        /// It cannot be made to fit without loss, so nothing at all is touched.
        case refused
    }

    public let verdict: Verdict
    /// `Entity`, `Entity.attribute`, a table or `table.column`: what it is about.
    public let subject: String
    /// What was and what would be; for people, without the full stop.
    public let text: String
    /// What can be done about it, of what is refused.
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

/// What was done to a store when it was opened.
public struct StoreMigration: Sendable, Equatable {
    public let changes: [StoreChange]
    public let milliseconds: Int
    /// What else an operator should know of the database: sentences.
    public var notes: [String] = []

    /// For people, a line for each change and one for all, then ``notes``.
    public var lines: [String] {
        guard !changes.isEmpty else { return notes }
        let count = "\(changes.count) change\(changes.count == 1 ? "" : "s")"
        return changes.map { "The store was changed, \($0.verdict.rawValue): \($0.text)." }
            + ["The store fits the model now: \(count) in \(milliseconds) ms."] + notes
    }
}
