package import ArgumentParser

/// A time on a command line or in a configuration: `30` (seconds), `500ms`, `1.5s`, `5m`, `2h`, `7d`.
package struct TimeSpan: Hashable, Sendable {
    private let milliseconds: Int

    package static func seconds(_ count: Int) -> TimeSpan { TimeSpan(milliseconds: count * 1_000) }

    package static func milliseconds(_ count: Int) -> TimeSpan { TimeSpan(milliseconds: count) }

    private init(milliseconds: Int) { self.milliseconds = milliseconds }

    /// - Throws: a `ValidationError` with the text and the units.
    package init(parsing text: String) throws(ValidationError) {
        let units = ["": 1_000, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let amount = Amount(text), let factor = units[amount.unit] else {
            throw ValidationError(
                "\"\(text)\" is no time. Give seconds, or a number with ms, s, m, h or d, as in 5m (300 seconds).")
        }
        guard let milliseconds = amount.times(factor), milliseconds <= Self.longest else {
            throw ValidationError("\"\(text)\" is longer than a thousand years, or not a whole number of milliseconds.")
        }
        self.milliseconds = milliseconds
    }

    /// Milliseconds of a thousand years.
    private static let longest = 1_000 * 365 * 86_400_000

    package var duration: Duration { .milliseconds(milliseconds) }

    /// As a number that may have a fraction.
    package var exactSeconds: Double { Double(milliseconds) / 1_000 }

    /// Rounded up, so that a short time is not none.
    package var seconds: Int { (milliseconds + 999) / 1_000 }
}

extension TimeSpan: ExpressibleByArgument {
    package init?(argument: String) {
        do throws(ValidationError) { try self.init(parsing: argument) } catch { return nil }
    }
}

extension TimeSpan: Comparable {
    package static func < (one: TimeSpan, other: TimeSpan) -> Bool { one.milliseconds < other.milliseconds }
}

extension TimeSpan: CustomStringConvertible {
    /// With the largest unit of which it is a whole number.
    package var description: String {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
        for (unit, factor) in units where milliseconds != 0 && milliseconds % factor == 0 {
            return "\(milliseconds / factor)\(unit)"
        }
        return milliseconds == 0 ? "0s" : "\(milliseconds)ms"
    }
}
