/// What a source of models has decided on its way to a ``ModelDocument``, with the reason: nothing of a foreign model
/// is taken, inferred or left out in silence.
package struct ModelNote: Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The source says it in other words.
        case taken
        /// The source does not say it; a rule does.
        case inferred
        /// The source says it, and this model cannot.
        case leftOut = "left out"
        /// The source says it, and it has no effect.
        case passedOver = "passed over"
    }

    package var kind: Kind
    package var message: String
    /// What it is about: a JSON Pointer, also of what was left out and is not there.
    package var place: ModelPlace

    package init(_ kind: Kind, _ message: String, at place: ModelPlace) {
        self.kind = kind
        self.message = message
        self.place = place
    }

    /// The line of the source, what it is about, and the note.
    package var description: String { ModelFault("\(kind.rawValue): \(message)", at: place).description }
}
