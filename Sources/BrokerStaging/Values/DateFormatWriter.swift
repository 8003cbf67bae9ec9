/// Writes dates in a pattern of UTS 35, compiled once: the reverse of ``DateFormat``.
///
/// This type writes the common fields, and Foundation writes all others. Names are English. A date whose pattern has a
/// zone is written in the zone of the pattern's attribute, which is UTC unless the model sets another.
struct DateFormatWriter: Sendable {
    /// Nil when only Foundation can write the pattern.
    private let tokens: [DatePatternToken]?
    private let foundation: FoundationDateFormat?
    private let zone: LocalZone

    init(pattern: String, zone: LocalZone) throws(DateFormat.Fault) {
        let tokens = try DatePatternToken.tokens(of: pattern)
        let isPlain = DateFormat.compile(tokens) != nil && !tokens.contains { $0.letter == UInt8(ascii: "z") }
        self.tokens = isPlain ? tokens : nil
        foundation = isPlain ? nil : FoundationDateFormat(pattern: pattern, zone: zone)
        self.zone = zone
    }

    /// Returns the text of a date, as far as the pattern has its fields.
    func text(of instant: Instant) -> [UInt8] {
        guard let tokens else { return foundation.map { Array($0.text(of: instant).utf8) } ?? [] }
        let time = LocalTime(instant, offset: zone.offset(at: instant.seconds))
        var text = DateText()
        for token in tokens {
            switch token {
            case .literal(let byte): text.bytes.append(byte)
            case .field(let letter, let count): text.append(letter, count, of: time)
            }
        }
        return text.bytes
    }
}

extension LocalZone {
    /// Seconds east of UTC at that time.
    fileprivate func offset(at seconds: Int) -> Int {
        switch self {
        case .fixed(let offset): offset
        case .named(let zone): zone.offset(at: seconds)
        }
    }
}

/// The local time of a zone.
private struct LocalTime {
    let date: CivilDate
    /// Second of the day.
    let second: Int
    /// Day of the week, from 0 for Sunday.
    let weekday: Int
    let nanosecond: Int
    /// Seconds east of UTC.
    let offset: Int

    init(_ instant: Instant, offset: Int) {
        let local = instant.seconds + offset
        let days = (Double(local) / Double(Instant.secondsPerDay)).rounded(.down)
        date = CivilDate(daysSince1970: Int(days))
        second = local - Int(days) * Instant.secondsPerDay
        // 1970 began on a Thursday.
        weekday = ((Int(days) + 4) % 7 + 7) % 7
        nanosecond = instant.nanoseconds
        self.offset = offset
    }
}

private struct DateText {
    var bytes: [UInt8] = []

    mutating func append(_ letter: UInt8, _ count: Int, of time: LocalTime) {
        let hour = time.second / 3600
        switch Character(UnicodeScalar(letter)) {
        case "y" where count == 2: append(time.date.year % 100, digits: 2)
        case "y": append(time.date.year, digits: count)
        case "M", "L":
            count < 3
                ? append(time.date.month, digits: count)
                : append(DateNames.months[time.date.month - 1], isLong: count > 3)
        case "d": append(time.date.day, digits: count)
        case "E": append(DateNames.weekdays[time.weekday], isLong: count > 3)
        case "H": append(hour, digits: count)
        case "k": append(hour == 0 ? 24 : hour, digits: count)
        case "h": append(hour % 12 == 0 ? 12 : hour % 12, digits: count)
        case "K": append(hour % 12, digits: count)
        case "a": append(hour < 12 ? "AM" : "PM", isLong: true)
        case "m": append(time.second / 60 % 60, digits: count)
        case "s": append(time.second % 60, digits: count)
        case "S": appendFraction(time.nanosecond, digits: count)
        case "Z": appendZone(time.offset, colon: count == 5, utc: count == 5 ? "Z" : nil, name: count == 4)
        case "X": appendZone(time.offset, colon: count == 3, utc: "Z", hoursAlone: count == 1)
        case "x": appendZone(time.offset, colon: count == 3, utc: nil, hoursAlone: count == 1)
        default: preconditionFailure("a pattern with other fields is Foundation's")
        }
    }

    private mutating func append(_ number: Int, digits: Int) {
        let text = String(number).utf8
        for _ in 0..<max(0, digits - text.count) { bytes.append(UInt8(ascii: "0")) }
        bytes += text
    }

    private mutating func append(_ name: StaticString, isLong: Bool) {
        bytes += name.description.utf8.prefix(isLong ? .max : 3)
    }

    /// Digits beyond nanoseconds are zeros; digits beyond the field's width are dropped.
    private mutating func appendFraction(_ nanosecond: Int, digits: Int) {
        var scale = Instant.nanosecondsPerSecond / 10
        for _ in 0..<digits {
            bytes.append(UInt8(ascii: "0") + (scale == 0 ? 0 : UInt8(nanosecond / scale % 10)))
            scale /= 10
        }
    }

    private mutating func appendZone(
        _ offset: Int, colon: Bool, utc: String?, hoursAlone: Bool = false, name: Bool = false
    ) {
        if offset == 0, let utc { return bytes += utc.utf8 }
        if name { bytes += "GMT".utf8 }
        if name, offset == 0 { return }
        bytes.append(offset < 0 ? UInt8(ascii: "-") : UInt8(ascii: "+"))
        append(abs(offset) / 3600, digits: 2)
        let minutes = abs(offset) / 60 % 60
        if hoursAlone, minutes == 0 { return }
        if colon || name { bytes.append(UInt8(ascii: ":")) }
        append(minutes, digits: 2)
    }
}
