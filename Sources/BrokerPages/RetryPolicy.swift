package import Foundation

/// How often and after which time a request is made again.
package struct RetryPolicy: Sendable {
    /// Attempts after the first.
    package let retries: Int
    /// Seconds that may pass before one attempt.
    package let longestWait: Double
    /// Seconds before the first attempt; each further wait is twice as long.
    private static let firstWait = 1.0

    package init(retries: Int, longestWait: Double) {
        self.retries = retries
        self.longestWait = longestWait
    }

    /// Whether to try again, and when.
    package enum Decision: Equatable, Sendable {
        case wait(seconds: Double)
        case giveUp(reason: String)
    }

    /// - Parameters:
    ///   - attempts: those that failed; at least 1.
    ///   - chance: 0 to 1, so that many clients do not return at the same moment.
    package func decision(
        after error: PageError, attempts: Int, now: Date = Date(), chance: Double = .random(in: 0...1)
    ) -> Decision {
        guard error.isTemporary else { return .giveUp(reason: "") }
        guard attempts <= retries else {
            return .giveUp(reason: retries == 0 ? "" : " \(attempts) attempts failed; --retries allows more.")
        }
        if let wanted = error.retryAfter?.seconds(from: now) {
            // Less than the server asks for would be impolite.
            guard wanted <= longestWait else {
                let seconds = wanted.isFinite ? "\(Int(min(wanted.rounded(.up), 1e15)))" : "too many"
                return .giveUp(reason: " It asks to wait \(seconds) seconds; --max-wait allows \(Int(longestWait)).")
            }
            return .wait(seconds: wanted)
        }
        let wait = Self.firstWait * pow(2, Double(min(attempts - 1, 30)))
        return .wait(seconds: min(longestWait, wait) * (0.5 + chance / 2))
    }
}
