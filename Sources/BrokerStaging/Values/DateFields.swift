/// The fields of a date in a text, not yet validated.
///
/// 24:00:00 is 00:00:00 of the next day, by ISO 8601. A leap second (`:60`) is rejected: no stored form of dates can
/// represent it.
struct DateFields {
    var year = 1
    var month = 1
    var day = 1
    var hour = 0
    var minute = 0
    var second = 0
    var nanosecond = 0
    /// The text has further digits, other than zero.
    var hasFurtherDigits = false
    /// The time is after noon, and ``hour`` counts from noon.
    var isAfternoon = false
    /// Seconds east of UTC; nil when the text names no zone.
    var zoneOffset: Int?

    /// Returns nil when there is no such time.
    func instant(in zone: LocalZone) -> Instant? {
        guard let date = CivilDate(year: year, month: month, day: day), year <= 9999 else { return nil }
        let hour = isAfternoon ? hour + 12 : hour
        guard hour < 24 || (hour == 24 && minute == 0 && second == 0 && nanosecond == 0) else { return nil }
        guard minute < 60, second < 60 else { return nil }
        let local = date.daysSince1970 * Instant.secondsPerDay + hour * 3600 + minute * 60 + second
        let seconds = zoneOffset.map { local - $0 } ?? zone.secondsSince1970(ofLocal: local)
        return Instant(seconds: seconds, nanoseconds: nanosecond, hasFurtherDigits: hasFurtherDigits)
    }
}

/// The time zone of dates without one.
enum LocalZone: Sendable {
    /// Seconds east of UTC.
    case fixed(Int)
    /// A zone whose offset changes over time.
    case named(FoundationTimeZone)

    static let utc = LocalZone.fixed(0)

    /// Parses an offset (`+07:00`, `Z`), `UTC`, `GMT`, or an IANA name; returns nil for any other text.
    init?(_ name: String) {
        var name = name
        let offset = name.withUTF8 { bytes in
            var cursor = TextCursor(bytes)
            if cursor.take(anyCase: "utc") || cursor.take(anyCase: "gmt"), cursor.isAtEnd { return 0 as Int? }
            let offset = cursor.zoneOffset()
            return cursor.isAtEnd ? offset : nil
        }
        if let offset {
            self = .fixed(offset)
        } else if let zone = FoundationTimeZone(name) {
            self = .named(zone)
        } else {
            return nil
        }
    }

    /// Converts the local time of this zone, counted as if it were UTC, to UTC.
    func secondsSince1970(ofLocal local: Int) -> Int {
        switch self {
        case .fixed(let offset): local - offset
        case .named(let zone): zone.secondsSince1970(ofLocal: local)
        }
    }
}
