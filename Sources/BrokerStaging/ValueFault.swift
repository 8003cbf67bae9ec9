/// A value could not become what its attribute wants. The caller adds the place.
struct ValueFault: Error {
    enum Reason {
        /// Of the wrong kind, or converting it would lose information: `invalidValue`.
        case inconvertible
        /// Converted, but outside of what the attribute allows: `validationFailed`.
        case notAllowed
        /// Null for a required attribute: `missingValue`.
        case missing
    }

    let reason: Reason
    /// What the value is, what was wanted, and the remedy where there is one.
    let message: String
}
