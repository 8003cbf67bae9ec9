package import BrokerJSON

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
    /// The contents that go when the part is dropped; nil where nothing does, or it was not counted.
    package var loss: StoreLoss?

    package static let remedyByDropping = "`broker migrate --drop` drops it"

    package init(
        _ verdict: Verdict, _ subject: String, _ text: String, remedy: String? = nil, loss: StoreLoss? = nil
    ) {
        self.verdict = verdict
        self.subject = subject
        self.text = text
        self.remedy = remedy
        self.loss = loss
    }

    /// The text, and the remedy in brackets.
    package var line: String { remedy.map { "\(text) (\($0))" } ?? text }

    /// Writes it as an object.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("change", verdict.rawValue)
            writer.member("subject", subject)
            writer.member("message", text)
            writer.member("remedy", remedy)
            guard let loss else { return }
            writer.key("loss")
            writer.object { writer in
                writer.member("kind", loss.kind.rawValue)
                writer.member("count", loss.count)
                writer.key("examples")
                writer.array { writer in
                    for example in loss.examples { writer.string(example) }
                }
            }
        }
    }
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

/// The rows or values that go when a part of the model is dropped.
package struct StoreLoss: Sendable, Equatable {
    package enum Kind: String, Sendable {
        case objects, values, links
    }

    package let kind: Kind
    package let count: Int64
    /// Some of them, for people: the key of an object, and what it has, in SQL.
    package let examples: [String]

    package init(_ kind: Kind, count: Int64, examples: [String]) {
        self.kind = kind
        self.count = count
        self.examples = examples
    }
}
