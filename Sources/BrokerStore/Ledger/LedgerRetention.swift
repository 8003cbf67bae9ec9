/// How many outcomes are stored, with their ids, and for how long.
public struct LedgerRetention: Sendable, Equatable {
    /// A job a minute for two years, or a minute at full speed; some 300 bytes each.
    public static let defaultCount = 1_000_000
    public static let defaultSeconds = 7 * 24 * 3600

    public var count: Int
    public var seconds: Int

    public init(count: Int = defaultCount, seconds: Int = defaultSeconds) {
        self.count = count
        self.seconds = seconds
    }
}
