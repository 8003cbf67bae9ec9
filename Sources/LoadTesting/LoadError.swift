/// Why a measurement cannot be made.
package struct LoadError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// An argument without a valid meaning.
        case usage
        case cannotConnect
        case failed
    }

    package let code: Code
    /// What happened and the remedy.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
