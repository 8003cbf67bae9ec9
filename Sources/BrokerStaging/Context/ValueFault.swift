/// A value could not become what its attribute wants. The caller adds the place.
// Made, read and dropped on one thread while the value lives; an Error must say that it is Sendable.
struct ValueFault: Error, @unchecked Sendable {
    enum Reason {
        /// Of the wrong kind, or converting it would lose information: `invalidValue`.
        case inconvertible
        /// Converted, but outside of what the attribute allows: `validationFailed`.
        case notAllowed
        /// Null for a required attribute: `missingValue`.
        case missing
    }

    let reason: Reason
    private let sentence: () -> String

    /// - Parameter message: built when it is read, for of a million bad values only the first are told.
    init(reason: Reason, message: @autoclosure @escaping () -> String) {
        self.reason = reason
        sentence = message
    }

    /// What the value is, what was wanted, and the remedy where there is one.
    var message: String { sentence() }
}
