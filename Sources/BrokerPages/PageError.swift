/// Why a page could not be had.
package struct PageError: Error, Sendable, CustomStringConvertible {
    /// What happened, where, and the remedy.
    package let description: String
    /// Another attempt may succeed, after this time when the server names one.
    let isTemporary: Bool
    let retryAfter: RetryAfter?

    package init(_ description: String, isTemporary: Bool = false, retryAfter: RetryAfter? = nil) {
        self.description = description
        self.isTemporary = isTemporary
        self.retryAfter = retryAfter
    }
}
