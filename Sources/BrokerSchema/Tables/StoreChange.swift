internal import BrokerModel
/// The treatment of parts of a store that the model no longer has.
package enum RemovalPolicy: String, Sendable, CaseIterable {
    /// The store is refused.
    case refuse
    /// The part stays in the file, unused, so that the earlier model can be used again.
    case keep
    /// The part is dropped with all its values.
    case drop
}

/// A difference between a store and a model, and its treatment.
package struct StoreChange: Sendable, Equatable {
    package enum Verdict: String, Sendable, CaseIterable {
        /// The store is migrated without loss.
        case migrated
        /// The part stays in the file, unused.
        case kept
        case dropped
        /// The store cannot be migrated without loss, so nothing at all is changed.
        case refused
    }

    package let verdict: Verdict
    /// The subject of the change: `Entity`, `Entity.attribute`, a table or `table.column`.
    package let subject: String
    /// The state in the store and in the model; for people, without the full stop.
    package let text: String
    /// The remedy for a refused change.
    package let remedy: String?

    package init(_ verdict: Verdict, _ subject: String, _ text: String, remedy: String? = nil) {
        self.verdict = verdict
        self.subject = subject
        self.text = text
        self.remedy = remedy
    }

    /// The text, and the remedy in brackets.
    package var line: String { remedy.map { "\(text) (\($0))" } ?? text }
}

/// The changes that were made to a store when it was opened.
package struct StoreMigration: Sendable, Equatable {
    package let changes: [StoreChange]
    package let milliseconds: Int
    /// Further facts about the database that an operator should know: sentences.
    package let notes: [String]

    package init(changes: [StoreChange], milliseconds: Int, notes: [String]) {
        self.changes = changes
        self.milliseconds = milliseconds
        self.notes = notes
    }

    /// For people: a line for each change and one for all, then ``notes``.
    package var lines: [String] {
        guard !changes.isEmpty else { return notes }
        let count = "\(changes.count) change\(changes.count == 1 ? "" : "s")"
        return changes.map { "The store was changed, \($0.verdict.rawValue): \($0.text)." }
            + ["The store fits the model now: \(count) in \(milliseconds) ms."] + notes
    }
}
