/// A value that its attribute rejects. The caller adds the offset.
// Created, read and released on one thread while the value lives; an Error must be Sendable.
struct ValueFault: Error, @unchecked Sendable {
    enum Reason {
        /// A value of the wrong type, or one whose conversion would lose information: `invalidValue`.
        case inconvertible
        /// Converted, but outside of the attribute's constraints: `validationFailed`.
        case notAllowed
        /// Null for a required attribute: `missingValue`.
        case missing
    }

    let reason: Reason
    private let sentence: () -> String

    /// - Parameter message: built when it is read, because of a million bad values only the first are reported.
    init(reason: Reason, message: @autoclosure @escaping () -> String) {
        self.reason = reason
        sentence = message
    }

    /// The value, the expected type, and the remedy where there is one.
    var message: String { sentence() }
}
