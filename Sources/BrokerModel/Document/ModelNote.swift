/// What a source of models has decided on its way to a ``ModelDocument``, with the reason: nothing of a foreign model
/// is taken, inferred or left out in silence.
public struct ModelNote: Sendable, Equatable, CustomStringConvertible {
    public enum Kind: String, Sendable, CaseIterable {
        /// The source says it in other words.
        case taken
        /// The source does not say it; a rule does.
        case inferred
        /// The source says it, and this model cannot.
        case leftOut = "left out"
        /// The source says it, and it has no effect.
        case passedOver = "passed over"
    }

    public var kind: Kind
    public var message: String
    /// What it is about: a JSON Pointer, also of what was left out and is not there.
    public var place: ModelPlace

    public init(_ kind: Kind, _ message: String, at place: ModelPlace) {
        self.kind = kind
        self.message = message
        self.place = place
    }

    /// The line of the source, what it is about, and the note.
    public var description: String { ModelFault("\(kind.rawValue): \(message)", at: place).description }
}
