package import BrokerModel
import Foundation
import Synchronization

/// The slow path of date patterns: Foundation's formatter, strict, in English, one caller at a time.
final class FoundationDateFormat: Sendable {
    private let formatter: Mutex<DateFormatter>

    init(pattern: String, zone: LocalZone) {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.calendar = Calendar(identifier: .gregorian)
        formatter.isLenient = false
        // Always the Gregorian calendar, as in the fast path; Foundation's would switch to the Julian one before 1582.
        formatter.gregorianStartDate = .distantPast
        formatter.timeZone =
            switch zone {
            case .fixed(let offset): TimeZone(secondsFromGMT: offset)
            case .named(let zone): zone.zone
            }
        formatter.dateFormat = pattern
        self.formatter = Mutex(formatter)
    }

    /// Returns nil when the text does not match the pattern, or names a day or time that does not exist.
    func instant(_ text: UnsafeBufferPointer<UInt8>) -> Instant? {
        let string = String(decoding: text, as: UTF8.self)
        guard let seconds = formatter.withLock({ $0.date(from: string)?.timeIntervalSince1970 }) else { return nil }
        // A double misses decimal fractions by less than a microsecond, but often to the wrong side.
        let microseconds = Int((seconds * 1_000_000).rounded())
        let (whole, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        return Instant(
            seconds: rest < 0 ? whole - 1 : whole, nanoseconds: (rest < 0 ? rest + 1_000_000 : rest) * 1_000)
    }

    func text(of instant: Instant) -> String {
        let seconds = Double(instant.seconds) + Double(instant.nanoseconds) / Double(Instant.nanosecondsPerSecond)
        return formatter.withLock { $0.string(from: Date(timeIntervalSince1970: seconds)) }
    }
}

/// A zone whose offset changes over time, by Foundation's tables.
struct FoundationTimeZone: Sendable {
    fileprivate let zone: TimeZone

    /// Returns nil when there is no zone of that IANA name.
    init?(_ name: String) {
        guard let zone = TimeZone(identifier: name) else { return nil }
        self.zone = zone
    }

    /// Converts a local time of the zone, counted as if it were UTC, to UTC.
    ///
    /// A time that occurs twice, when clocks go back, means its first occurrence. A time that is skipped, when they go
    /// forward, has the offset before the change.
    func secondsSince1970(ofLocal local: Int) -> Int {
        let before = offset(at: local - Instant.secondsPerDay)
        let after = offset(at: local + Instant.secondsPerDay)
        if before == after || offset(at: local - before) == before { return local - before }
        return offset(at: local - after) == after ? local - after : local - before
    }

    /// When the offset changes after the first and before the second time, as far as Foundation knows.
    func changes(from first: Int, to end: Int) -> [Int] {
        var changes: [Int] = []
        var last = first
        while let date = zone.nextDaylightSavingTimeTransition(after: Date(timeIntervalSince1970: Double(last))) {
            let change = Int(date.timeIntervalSince1970.rounded())
            guard change > last, change < end else { break }
            changes.append(change)
            last = change
        }
        return changes
    }

    /// Returns the offset in seconds east of UTC at that time.
    func offset(at seconds: Int) -> Int {
        zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))
    }
}

/// Parts of the system that decide how values are converted and compared, each with a text that differs when they may decide
/// otherwise.
package enum ConversionFacts {
    /// - Returns: for each part its name and its text, in a fixed order.
    package static func of(_ model: Model) -> [(name: String, text: String)] {
        let zones = Set(model.entities.flatMap { $0.attributes.compactMap(\.timeZone) }).sorted()
        return [
            // Foundation, its ICU and the tables of Unicode belong to the version of Swift.
            ("swift", "\(_SwiftStdlibVersion.current)"), ("timeZoneData", TimeZone.timeZoneDataVersion),
            ("re2", RegularExpression.facts),
        ]
            + zones.compactMap { name in
                // A zone of a fixed offset is the same everywhere.
                guard case .named(let zone) = LocalZone(name) else { return nil }
                return ("timeZone \(name)", zone.facts)
            }
    }
}

extension RegularExpression {
    /// RE2 reports no version. The sizes of these programs change with its tables of Unicode and with its compiler, and the
    /// work budget counts instructions.
    fileprivate static var facts: String {
        [#"\p{L}"#, #"\p{N}"#, #"\p{Lu}\p{Ll}"#, #"\p{Greek}"#, #"\pP"#, #"\pS"#, #"(?i)\p{L}"#, #"(a+|b?){3,9}$"#]
            .map { pattern in (try? RegularExpression(pattern)).map { "\($0.instructions)" } ?? "none" }
            .joined(separator: " ")
    }
}

extension FoundationTimeZone {
    /// The years whose changes of the offset count.
    private static let years = (1900, 2100)
    /// The offset is read so often besides, so that a change counts that Foundation does not list.
    private static let step = 10 * Instant.secondsPerDay

    /// The changes of the offset, by the tables that Foundation uses: it has its own, and does not read those of the system.
    fileprivate var facts: String {
        let bounds = [Self.years.0, Self.years.1].map {
            CivilDate(year: $0, month: 1, day: 1)!.daysSince1970 * Instant.secondsPerDay
        }
        var facts = "\(offset(at: bounds[0]))"
        for change in changes(from: bounds[0], to: bounds[1]) { facts += " \(change):\(offset(at: change))" }
        var before: Int?
        for time in stride(from: bounds[0], to: bounds[1], by: Self.step) {
            let now = offset(at: time)
            if now != before { facts += " \(now)" }
            before = now
        }
        return facts
    }
}
