import Foundation

/// A point in time, in UTC without leap seconds.
struct Instant: Comparable, Sendable {
    /// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the limits of a year with four digits.
    static let representableSeconds: ClosedRange<Int> = -62_135_596_800...253_402_300_799
    static let secondsPerDay = 86_400
    static let nanosecondsPerSecond = 1_000_000_000
    /// 2001-01-01T00:00:00Z, the reference date of Core Data.
    static let coreDataReference = 978_307_200

    static let earliest = Instant(unchecked: representableSeconds.lowerBound, nanoseconds: 0)
    static let latest = Instant(unchecked: representableSeconds.upperBound, nanoseconds: nanosecondsPerSecond - 1)

    /// Since 1970, rounded toward the past.
    let seconds: Int
    /// Since ``seconds``, never negative.
    let nanoseconds: Int
    /// It is later than that, by less than a nanosecond.
    let hasFurtherDigits: Bool

    /// Returns nil outside of the years 0001 to 9999.
    init?(seconds: Int, nanoseconds: Int = 0, hasFurtherDigits: Bool = false) {
        guard Self.representableSeconds.contains(seconds) else { return nil }
        self.init(unchecked: seconds, nanoseconds: nanoseconds, hasFurtherDigits: hasFurtherDigits)
    }

    private init(unchecked seconds: Int, nanoseconds: Int, hasFurtherDigits: Bool = false) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.hasFurtherDigits = hasFurtherDigits
    }

    /// The nanoseconds of one unit of a fraction with so many digits.
    static func unit(digits: Int) -> Int {
        (digits..<9).reduce(1) { unit, _ in unit * 10 }
    }

    /// The least number that means milliseconds: as seconds it would be after the year 9999.
    private static let leastMilliseconds: UInt64 = 1_000_000_000_000

    /// Reads seconds since 1970, or milliseconds from a number of 13 digits or more.
    init?(unixTime number: NumberText) {
        let whole = number.wholeMagnitude ?? .max
        self.init(secondsSince1970: whole < Self.leastMilliseconds ? number : number.scaled(by: -3))
    }

    /// Reads seconds since 1970 from a number; fractions of a nanosecond are dropped toward the past.
    init?(secondsSince1970 number: NumberText) {
        guard number.exponent == 0 else {
            var arena = ByteArena()
            guard let text = DecimalText.normalise(number, arena: &arena), let plain = NumberText(text) else {
                return nil
            }
            self.init(secondsSince1970: plain)
            return
        }
        guard let whole = number.wholePart else { return nil }
        guard !number.fraction.isEmpty else {
            self.init(seconds: whole)
            return
        }
        var cursor = TextCursor(number.fraction)
        var nanoseconds = cursor.nanoseconds() ?? 0
        guard number.isNegative else {
            self.init(seconds: whole, nanoseconds: nanoseconds, hasFurtherDigits: cursor.hasDroppedDigits)
            return
        }
        if cursor.hasDroppedDigits { nanoseconds += 1 }
        // The instant is before the whole second, so it counts from the second before that.
        self.init(
            seconds: nanoseconds == 0 ? whole : whole - 1,
            nanoseconds: nanoseconds == 0 ? 0 : Self.nanosecondsPerSecond - nanoseconds,
            hasFurtherDigits: cursor.hasDroppedDigits)
    }

    /// Seconds since 2001, as Core Data stores dates.
    var secondsSinceCoreDataReference: Double {
        Double(seconds - Self.coreDataReference) + Double(nanoseconds) / Double(Self.nanosecondsPerSecond)
    }

    /// Reverses ``secondsSinceCoreDataReference``, for times in milliseconds, microseconds or nanoseconds.
    init?(secondsSinceCoreDataReference stored: Double) {
        let whole = stored.rounded(.down)
        guard let seconds = Int(exactly: whole), abs(seconds) < Self.representableSeconds.upperBound else { return nil }
        var found: Instant?
        for unit in [1_000_000, 1_000, 1] {
            let units = Int(((stored - whole) * Double(Self.nanosecondsPerSecond / unit)).rounded())
            let nanoseconds = units * unit
            found = Instant(
                seconds: seconds + Self.coreDataReference + nanoseconds / Self.nanosecondsPerSecond,
                nanoseconds: nanoseconds % Self.nanosecondsPerSecond)
            if found?.secondsSinceCoreDataReference == stored { break }
        }
        guard let found else { return nil }
        self = found
    }

    static func < (left: Instant, right: Instant) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }
}

/// A day of the proleptic Gregorian calendar.
///
/// The arithmetic is Howard Hinnant's "chrono-compatible low-level date algorithms": eras of 400 years, each counted
/// from 1 March so that the leap day comes last.
struct CivilDate: Equatable, Sendable {
    static let daysPerEra = 146_097

    let year: Int
    let month: Int
    let day: Int

    /// Returns nil for a day that does not exist: year 0, month 13, 29 February of a common year.
    init?(year: Int, month: Int, day: Int) {
        guard year >= 1, month >= 1, month <= 12, day >= 1, day <= Self.days(inMonth: month, of: year) else {
            return nil
        }
        self.year = year
        self.month = month
        self.day = day
    }

    init(daysSince1970 days: Int) {
        let shifted = days + 719_468  // from 1 March of year 0
        let era = (shifted >= 0 ? shifted : shifted - Self.daysPerEra + 1) / Self.daysPerEra
        let dayOfEra = shifted - era * Self.daysPerEra
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    var daysSince1970: Int {
        let yearFromMarch = month <= 2 ? year - 1 : year
        let era = (yearFromMarch >= 0 ? yearFromMarch : yearFromMarch - 399) / 400
        let yearOfEra = yearFromMarch - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * Self.daysPerEra + dayOfEra - 719_468
    }

    /// The beginning of the day in UTC.
    var midnight: Instant { Instant(seconds: daysSince1970 * Instant.secondsPerDay)! }

    static func days(inMonth month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

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
    /// From 0 for Sunday; for dates that are written.
    private(set) var weekday = 0

    init() {}

    /// The fields of a time in a zone so many seconds east of UTC.
    init(_ instant: Instant, offset: Int) {
        let local = instant.seconds + offset
        let second = (local % Instant.secondsPerDay + Instant.secondsPerDay) % Instant.secondsPerDay
        let days = (local - second) / Instant.secondsPerDay
        let date = CivilDate(daysSince1970: days)
        (year, month, day) = (date.year, date.month, date.day)
        (hour, minute, self.second) = (second / 3600, second / 60 % 60, second % 60)
        nanosecond = instant.nanoseconds
        zoneOffset = offset
        // 1970 began on a Thursday.
        weekday = ((days + 4) % 7 + 7) % 7
    }

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
    /// A zone whose offset changes over time, by Foundation's tables.
    case named(TimeZone)

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
        } else if let zone = TimeZone(identifier: name) {
            self = .named(zone)
        } else {
            return nil
        }
    }

    /// Seconds east of UTC at that time.
    func offset(at seconds: Int) -> Int {
        switch self {
        case .fixed(let offset): offset
        case .named(let zone): zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))
        }
    }

    /// Converts the local time of this zone, counted as if it were UTC, to UTC.
    ///
    /// A time that occurs twice, when clocks go back, means its first occurrence. A time that is skipped, when they go
    /// forward, has the offset before the change.
    func secondsSince1970(ofLocal local: Int) -> Int {
        if case .fixed(let offset) = self { return local - offset }
        let before = offset(at: local - Instant.secondsPerDay)
        let after = offset(at: local + Instant.secondsPerDay)
        if before == after || offset(at: local - before) == before { return local - before }
        return offset(at: local - after) == after ? local - after : local - before
    }
}

/// Reads and writes dates by ISO 8601, with its common variations.
///
/// It reads `2011-12-22`, `2011-12-22T02:24`, `2011-12-22T02:24:51` and `2011-12-22T02:24:51.123456`. The `T` may be
/// lower case or a space, the point a comma; a zone (`Z`, `z`, `+07:00`, `+0700`, `+07`) may follow a time, also after
/// a space. The basic format (`20111222`) is not read, because it looks like a number.
enum ISO8601 {
    /// Bytes of `2011-12-22T02:24:51.000Z`.
    private static let millisecondCount = 24
    /// Bytes of `2011-12-22T02:24:51Z`.
    private static let secondCount = 20
    /// The digits of a second's fraction in a text of ``millisecondCount`` bytes.
    static let milliseconds = 3
    /// Bytes of `2011-12-22`.
    static let dayCount = 10

    /// Returns nil when the text is not such a date, or names a day or time that does not exist.
    static func instant(_ text: UnsafeBufferPointer<UInt8>, zone: LocalZone) -> Instant? {
        var cursor = TextCursor(text)
        var fields = DateFields()
        guard readDay(&cursor, into: &fields) else { return nil }
        if !cursor.isAtEnd {
            guard readTime(&cursor, into: &fields), cursor.isAtEnd else { return nil }
        }
        return fields.instant(in: zone)
    }

    /// Returns the day of `2011-12-22`; nil when the text is anything else, or there is no such day.
    static func day(_ text: UnsafeBufferPointer<UInt8>) -> CivilDate? {
        var cursor = TextCursor(text)
        var fields = DateFields()
        guard readDay(&cursor, into: &fields), cursor.isAtEnd else { return nil }
        return CivilDate(year: fields.year, month: fields.month, day: fields.day)
    }

    private static func readDay(_ cursor: inout TextCursor, into fields: inout DateFields) -> Bool {
        guard let year = cursor.number(digits: 4), cursor.take(UInt8(ascii: "-")),
            let month = cursor.number(digits: 2), cursor.take(UInt8(ascii: "-")),
            let day = cursor.number(digits: 2)
        else { return false }
        fields.year = year
        fields.month = month
        fields.day = day
        return true
    }

    private static func readTime(_ cursor: inout TextCursor, into fields: inout DateFields) -> Bool {
        guard cursor.take(UInt8(ascii: "T")) || cursor.take(UInt8(ascii: " ")) || cursor.take(UInt8(ascii: "t")),
            let hour = cursor.number(digits: 2), cursor.take(UInt8(ascii: ":")),
            let minute = cursor.number(digits: 2)
        else { return false }
        fields.hour = hour
        fields.minute = minute
        if cursor.take(UInt8(ascii: ":")) {
            guard let second = cursor.number(digits: 2) else { return false }
            fields.second = second
            if cursor.take(UInt8(ascii: ".")) || cursor.take(UInt8(ascii: ",")) {
                guard let nanosecond = cursor.nanoseconds() else { return false }
                fields.nanosecond = nanosecond
                fields.hasFurtherDigits = cursor.hasDroppedDigits
            }
        }
        guard !cursor.isAtEnd else { return true }
        _ = cursor.take(UInt8(ascii: " "))
        fields.zoneOffset = cursor.zoneOffset()
        return fields.zoneOffset != nil
    }

    /// Writes `2011-12-22T02:24:51.000Z`: UTC, rounded toward the past.
    static func write(_ instant: Instant, digits: Int, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let space = arena.allocate(digits == 0 ? secondCount : secondCount + 1 + digits)
        let date = DateFields(instant, offset: 0)
        writePair(date.year / 100, to: space, at: 0)
        writePair(date.year % 100, to: space, at: 2)
        space[4] = UInt8(ascii: "-")
        writePair(date.month, to: space, at: 5)
        space[7] = UInt8(ascii: "-")
        writePair(date.day, to: space, at: 8)
        space[10] = UInt8(ascii: "T")
        writePair(date.hour, to: space, at: 11)
        space[13] = UInt8(ascii: ":")
        writePair(date.minute, to: space, at: 14)
        space[16] = UInt8(ascii: ":")
        writePair(date.second, to: space, at: 17)
        space[19] = UInt8(ascii: ".")
        var rest = instant.nanoseconds / Instant.unit(digits: digits)
        for place in stride(from: 19 + digits, to: 19, by: -1) {
            space[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        space[space.count - 1] = UInt8(ascii: "Z")
        return UnsafeBufferPointer(space)
    }

    /// Returns the form in milliseconds of a text like `2011-12-22T02:24:51Z` or `2011-12-22T02:24:51.000Z`, as most dates are
    /// written; nil for any other text, and for a day or time that does not exist.
    static func stored(_ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8>? {
        let hasMilliseconds = text.count == millisecondCount
        guard hasMilliseconds || text.count == secondCount, text[text.count - 1] == UInt8(ascii: "Z") else {
            return nil
        }
        guard let start = Digits(Bytes.word(text, at: 0), from: 0x2D30_302D_3030_3030, most: 0x0009_0100_0909_0909),
            let end = Digits(Bytes.word(text, at: 8), from: 0x3030_3A30_3054_3030, most: 0x0905_0009_0200_0903),
            text[16] == UInt8(ascii: ":"), isDigit(text[17], to: 5), isDigit(text[18]),
            CivilDate(year: start.pair(0) * 100 + start.pair(2), month: start.pair(5), day: end.pair(0)) != nil,
            end.pair(3) < 24
        else { return nil }
        guard !hasMilliseconds else {
            return text[19] == UInt8(ascii: ".") && text[20..<23].allSatisfy({ isDigit($0) }) ? text : nil
        }
        let space = arena.allocate(millisecondCount)
        space.baseAddress!.update(from: text.baseAddress!, count: 19)
        space[19] = UInt8(ascii: ".")
        for place in 20..<23 { space[place] = UInt8(ascii: "0") }
        space[23] = UInt8(ascii: "Z")
        return UnsafeBufferPointer(space)
    }

    @inline(__always)
    private static func isDigit(_ byte: UInt8, to most: UInt8 = 9) -> Bool { byte &- UInt8(ascii: "0") <= most }

    private static func writePair(_ value: Int, to space: UnsafeMutableBufferPointer<UInt8>, at index: Int) {
        space[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / 10)
        space[index + 1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10)
    }
}

/// Eight bytes of a date, as what each is above the least byte that may be there.
private struct Digits {
    private let bytes: UInt64

    /// - Parameters:
    ///   - word: the first byte is the lowest.
    ///   - least: bytes below 128.
    ///   - most: what each may be above that.
    @inline(__always)
    init?(_ word: UInt64, from least: UInt64, most: UInt64) {
        let highest: UInt64 = 0x8080_8080_8080_8080
        // No byte borrows from the next one: each is 128 or more before the subtraction.
        guard word & highest == 0, ((word | highest) &- least) & highest == highest else { return nil }
        bytes = word &- least
        guard ((most | highest) &- bytes) & highest == highest else { return nil }
    }

    /// The number that the digit at that place and the next one make.
    @inline(__always)
    func pair(_ place: Int) -> Int {
        let digits = Int(truncatingIfNeeded: bytes >> UInt64(8 * place))
        return (digits & 0xFF) * 10 + digits >> 8 & 0xFF
    }
}

/// Reads tokens from the front of a text of bytes; a token that is not there leaves the cursor unchanged.
package struct TextCursor {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0
    /// Digits other than zero, beyond nanoseconds, were dropped.
    private(set) var hasDroppedDigits = false

    package init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    package var isAtEnd: Bool { index == bytes.count }

    /// The next byte, 0 at the end.
    var next: UInt8 { index < bytes.count ? bytes[index] : 0 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// Reads ASCII letters, or only the first of them, in either case.
    package mutating func take(anyCase letters: StaticString, first most: Int = .max) -> Bool {
        let count = min(letters.utf8CodeUnitCount, most)
        guard bytes.count - index >= count else { return false }
        for position in 0..<count where bytes[index + position] | 0x20 != letters.utf8Start[position] | 0x20 {
            return false
        }
        index += count
        return true
    }

    /// Reads a number of at least `minimum` and at most `maximum` digits, whatever follows.
    mutating func number(digits minimum: Int, upTo maximum: Int) -> Int? {
        var value = 0
        var end = index
        let limit = min(bytes.count, index + maximum)
        while end < limit {
            let digit = bytes[end] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            value = value * 10 + Int(digit)
            end += 1
        }
        guard end - index >= minimum else { return nil }
        index = end
        return value
    }

    mutating func number(digits count: Int) -> Int? { number(digits: count, upTo: count) }

    /// Reads the digits after a decimal point as nanoseconds and drops further digits. At least one digit.
    mutating func nanoseconds(upTo maximum: Int = .max) -> Int? {
        let start = index
        var value = 0
        while index < bytes.count, index - start < maximum {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            if index - start < 9 { value = value * 10 + Int(digit) } else if digit != 0 { hasDroppedDigits = true }
            index += 1
        }
        guard index > start else { return nil }
        for _ in min(index - start, 9)..<9 { value *= 10 }
        return value
    }

    /// Reads an offset in seconds east of UTC, written `Z`, `+07:00`, `+0700` or `+07`.
    mutating func zoneOffset() -> Int? {
        if take(UInt8(ascii: "Z")) || take(UInt8(ascii: "z")) { return 0 }
        let start = index
        let isWest = take(UInt8(ascii: "-"))
        guard isWest || take(UInt8(ascii: "+")), let hours = number(digits: 2), hours < 24 else {
            index = start
            return nil
        }
        let hasColon = take(UInt8(ascii: ":"))
        let minutes = number(digits: 2)
        guard let minutes = minutes ?? (hasColon ? nil : 0), minutes < 60 else {
            index = start
            return nil
        }
        return (hours * 3600 + minutes * 60) * (isWest ? -1 : 1)
    }
}
