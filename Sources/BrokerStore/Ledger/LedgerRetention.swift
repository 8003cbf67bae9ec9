/// How many outcomes are stored, with their ids, and for how long.
package struct LedgerRetention: Sendable, Equatable {
    /// A job a minute for two years, or a minute at full speed; some 300 bytes each.
    package static let defaultCount = 1_000_000
    package static let defaultSeconds = 7 * 24 * 3600

    package var count: Int
    package var seconds: Int

    package init(count: Int = defaultCount, seconds: Int = defaultSeconds) {
        self.count = count
        self.seconds = seconds
    }
}
