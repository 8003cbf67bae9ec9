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
