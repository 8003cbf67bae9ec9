package import Foundation

/// The time that a server asks a client to wait (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter: Hashable, Sendable {
    case seconds(Double)
    case date(Date)

    /// - Returns: nil for what is neither.
    package init?(_ text: String) {
        if !text.isEmpty, text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) {
            // A number that no integer holds is a long time, too.
            self = .seconds(Double(text) ?? .infinity)
        } else if let date = Self.date(text) {
            self = .date(date)
        } else {
            return nil
        }
    }

    /// Seconds from now on; not less than 0.
    package func seconds(from now: Date) -> Double {
        switch self {
        case .seconds(let seconds): seconds
        case .date(let date): max(0, date.timeIntervalSince(now))
        }
    }

    /// IMF-fixdate, the one form that servers may generate (RFC 9110, section 5.6.7).
    private static func date(_ text: String) -> Date? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.date(from: text)
    }
}
