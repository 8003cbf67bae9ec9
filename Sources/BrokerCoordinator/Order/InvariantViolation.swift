/// A rule that the state of a pure machine violates.
struct InvariantViolation: Error {
    let rule: String

    /// - Parameter rule: what must hold.
    static func require(_ holds: Bool, _ rule: String) throws(InvariantViolation) {
        if !holds { throw InvariantViolation(rule: rule) }
    }
}
