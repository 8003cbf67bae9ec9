internal import NIOCore

/// How often to try to connect again: soon at first, then ever less often, until the patience is used up.
///
/// Patience is time without a connection. It comes back with the first answer, not with the welcome: a server that
/// welcomes and closes, again and again, uses it up as one does that is not there.
struct Reconnection: Sendable {
    /// A server that restarts is back about then.
    static let firstDelay = TimeAmount.milliseconds(50)
    /// No longer, because an attempt on a Unix socket costs next to nothing, and a server that is back is not left waiting.
    static let longestDelay = TimeAmount.milliseconds(250)

    /// After the server refused the client, or sent nothing, where another attempt would probably end in the same way.
    static let abandonedDelay = TimeAmount.seconds(1)

    private let wholePatience: TimeAmount
    private var patience: TimeAmount
    private var nextDelay: TimeAmount
    /// Since when there has been no connection; nil while there is one.
    private var begin: NIODeadline?

    init(patience: TimeAmount, firstDelay: TimeAmount = Self.firstDelay) {
        wholePatience = patience
        self.patience = patience
        nextDelay = firstDelay
    }

    /// Until when it is worth trying.
    mutating func deadline(at now: NIODeadline) -> NIODeadline {
        let begin = begin ?? now
        self.begin = begin
        return begin + patience
    }

    /// How long to wait before the next attempt; nil when there is no time for one.
    mutating func delay(at now: NIODeadline) -> TimeAmount? {
        guard now + nextDelay < deadline(at: now) else { return nil }
        defer { nextDelay = min(nextDelay * 2, Self.longestDelay) }
        return nextDelay
    }

    /// Nothing waited for a connection until now.
    mutating func restart(at now: NIODeadline) {
        patience = wholePatience
        begin = now
    }

    /// There is a connection again.
    mutating func connected(at now: NIODeadline) {
        guard let begin else { return }
        patience = patience - (now - begin)
        self.begin = nil
    }
}
