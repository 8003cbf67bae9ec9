/// A rule that the state of a pure machine violates.
package struct InvariantViolation: Error {
    package let rule: String

    /// - Parameter rule: what must hold.
    package static func require(_ holds: Bool, _ rule: String) throws(InvariantViolation) {
        if !holds { throw InvariantViolation(rule: rule) }
    }
}
