/// Why a page could not be had.
package struct PageError: Error, Sendable, CustomStringConvertible {
    /// What happened, where, and the remedy.
    package let description: String
    /// Another attempt may succeed, after this time when the server names one.
    let isTemporary: Bool
    let retryAfter: RetryAfter?
    /// The server has answered that there is no such page, or none for this client.
    package let isRefusal: Bool

    package init(
        _ description: String, isTemporary: Bool = false, retryAfter: RetryAfter? = nil, isRefusal: Bool = false
    ) {
        self.description = description
        self.isTemporary = isTemporary
        self.retryAfter = retryAfter
        self.isRefusal = isRefusal
    }
}
