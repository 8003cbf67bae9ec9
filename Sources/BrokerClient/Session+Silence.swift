internal import NIOCore

/// The limit for a server that sends no answers, of sessions that have one.
extension Session {
    /// Answers came.
    mutating func heard(_ arrivals: [Arrival], at now: NIODeadline) {
        if patience.answer != nil, arrivals.contains(where: { !$0.isWelcome }) { waitingSince = now }
    }

    /// Fails everything unanswered when the server has sent no answer for as long as it may.
    mutating func checkSilence(at now: NIODeadline) -> Effects {
        var effects = Effects()
        guard let limit = patience.answer, !isIdle, now - waitingSince >= limit else { return effects }
        let milliseconds = limit.nanoseconds / 1_000_000
        let seconds = milliseconds % 1_000 == 0 ? "\(milliseconds / 1_000) s" : "\(milliseconds) ms"
        abandon(.connectionLost("the server has sent no answer for \(seconds)"), at: now, into: &effects)
        return effects
    }

    /// When to check next; nil when there is no limit, and after the end.
    func nextSilenceCheck(at now: NIODeadline) -> NIODeadline? {
        guard let limit = patience.answer, link != .closed else { return nil }
        return (isIdle ? now : waitingSince) + limit
    }
}

extension Arrival {
    fileprivate var isWelcome: Bool {
        if case .message(let envelope) = self, case .welcome = envelope.message { true } else { false }
    }
}
