/// A decision of a source of models about a part of a ``ModelDocument``, with the reason: no part of a foreign model is
/// converted, inferred or skipped silently.
package struct ModelNote: Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The part is converted to another form.
        case taken
        /// The part is inferred by a rule; the source lacks it.
        case inferred
        /// The part is skipped: this model cannot express it.
        case leftOut = "skipped"
        /// The part is ignored: it has no effect.
        case passedOver = "ignored"
    }

    package var kind: Kind
    package var message: String
    /// The subject: a JSON Pointer, also of a skipped part that the document lacks.
    package var place: ModelPlace

    package init(_ kind: Kind, _ message: String, at place: ModelPlace) {
        self.kind = kind
        self.message = message
        self.place = place
    }

    /// The line of the source, the subject, and the note.
    package var description: String { ModelFault("\(kind.rawValue): \(message)", at: place).description }
}
