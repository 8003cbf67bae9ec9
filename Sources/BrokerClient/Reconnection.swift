internal import NIOCore

/// How often to try to connect again: soon at first, then ever less often, until a deadline.
struct Reconnection: Sendable {
    /// 50 ms: a server that restarts is back about then.
    static let firstDelay = TimeAmount.milliseconds(50)
    /// 2 s: no longer, so that a server that is back is not left waiting.
    static let longestDelay = TimeAmount.seconds(2)

    let deadline: NIODeadline
    private var nextDelay: TimeAmount

    init(deadline: NIODeadline, firstDelay: TimeAmount = Self.firstDelay) {
        self.deadline = deadline
        nextDelay = firstDelay
    }

    /// How long to wait before the next attempt; nil when there is no time for one.
    mutating func delay(at now: NIODeadline) -> TimeAmount? {
        guard now + nextDelay < deadline else { return nil }
        defer { nextDelay = min(nextDelay * 2, Self.longestDelay) }
        return nextDelay
    }
}
