import BrokerJSON

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
    ///
    /// - Parameter digits: of the second's fraction, 0 to 9.
    static func write(_ instant: Instant, digits: Int, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let space = arena.allocate(digits == 0 ? secondCount : secondCount + 1 + digits)
        let days = (instant.seconds - Instant.representableSeconds.lowerBound) / Instant.secondsPerDay
        let firstDay = Instant.representableSeconds.lowerBound / Instant.secondsPerDay
        let date = CivilDate(daysSince1970: firstDay + days)
        let second = instant.seconds - (firstDay + days) * Instant.secondsPerDay
        writePair(date.year / 100, to: space, at: 0)
        writePair(date.year % 100, to: space, at: 2)
        space[4] = UInt8(ascii: "-")
        writePair(date.month, to: space, at: 5)
        space[7] = UInt8(ascii: "-")
        writePair(date.day, to: space, at: 8)
        space[10] = UInt8(ascii: "T")
        writePair(second / 3600, to: space, at: 11)
        space[13] = UInt8(ascii: ":")
        writePair(second / 60 % 60, to: space, at: 14)
        space[16] = UInt8(ascii: ":")
        writePair(second % 60, to: space, at: 17)
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
    ///
    /// - Precondition: a year with four digits.
    var midnight: Instant { Instant(seconds: daysSince1970 * Instant.secondsPerDay)! }

    static func isLeap(year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    static func days(inMonth month: Int, of year: Int) -> Int {
        switch month {
        case 2: isLeap(year: year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Reads tokens from the front of a text of bytes; a token that is not there leaves the cursor unchanged.
struct TextCursor {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0
    /// Digits other than zero, beyond nanoseconds, were dropped.
    private(set) var hasDroppedDigits = false

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// The next byte, 0 at the end.
    var next: UInt8 { index < bytes.count ? bytes[index] : 0 }

    mutating func skip() { index += 1 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// Reads ASCII letters, or only the first of them, in either case.
    mutating func take(anyCase letters: StaticString, first most: Int = .max) -> Bool {
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

/// A decimal number as parts of its text, not yet computed, so that no digit is lost.
///
/// It reads JSON numbers and, because they occur in strings, also a leading `+`, superfluous leading zeros and a point
/// with digits on one side only. Valid while the text is.
struct NumberText {
    /// Limit on exponents: no number needs more, and sums with it cannot overflow.
    private static let largestExponent = 1_000_000_000

    /// Without a leading `+`.
    let text: UnsafeBufferPointer<UInt8>
    let isNegative: Bool
    /// Digits before the point; may be empty when ``fraction`` is not.
    let integer: UnsafeBufferPointer<UInt8>
    /// Digits after the point.
    let fraction: UnsafeBufferPointer<UInt8>
    private(set) var exponent: Int

    /// Returns nil when the text is no number.
    init?(_ written: UnsafeBufferPointer<UInt8>) {
        text = written.first == UInt8(ascii: "+") ? UnsafeBufferPointer(rebasing: written.dropFirst()) : written
        isNegative = text.first == UInt8(ascii: "-")
        // A sign after the plus would be a second sign.
        guard text.count == written.count || !isNegative else { return nil }
        let integerStart = isNegative ? 1 : 0
        let integerEnd = Self.endOfDigits(text, from: integerStart)
        var end = integerEnd
        var fractionStart = integerEnd
        if end < text.count, text[end] == UInt8(ascii: ".") {
            fractionStart = end + 1
            end = Self.endOfDigits(text, from: fractionStart)
        }
        integer = UnsafeBufferPointer(rebasing: text[integerStart..<integerEnd])
        fraction = UnsafeBufferPointer(rebasing: text[fractionStart..<end])
        guard integer.count + fraction.count > 0 else { return nil }
        if end == text.count {
            exponent = 0
        } else {
            guard let exponent = Self.exponent(UnsafeBufferPointer(rebasing: text[end...])) else { return nil }
            self.exponent = exponent
        }
    }

    /// The number times ten to the power of a small number.
    func scaled(by power: Int) -> NumberText {
        var scaled = self
        scaled.exponent += power
        return scaled
    }

    var digitCount: Int { integer.count + fraction.count }

    /// Returns the value of a digit, counted from the first one without regard to the point.
    func digit(_ index: Int) -> UInt8 {
        (index < integer.count ? integer[index] : fraction[index - integer.count]) &- UInt8(ascii: "0")
    }

    /// The exact value; nil when it is not whole or does not fit.
    var int64: Int64? { isWhole ? wholeMagnitude.flatMap(signed) : nil }

    /// The digits before the point after the exponent is applied; nil when they do not fit.
    var wholeMagnitude: UInt64? {
        let wholeCount = integer.count + exponent
        var magnitude: UInt64 = 0
        for index in 0..<max(0, min(wholeCount, digitCount)) {
            guard Self.append(digit(index), to: &magnitude) else { return nil }
        }
        guard magnitude != 0, wholeCount > digitCount else { return magnitude }
        for _ in digitCount..<wholeCount {
            guard Self.append(0, to: &magnitude) else { return nil }
        }
        return magnitude
    }

    /// Only zeros follow the point.
    var isWhole: Bool {
        let wholeCount = integer.count + exponent
        return wholeCount >= digitCount || (max(wholeCount, 0)..<digitCount).allSatisfy { digit($0) == 0 }
    }

    /// The part before the point, with the sign, whatever the exponent; nil when it does not fit.
    var wholePart: Int? {
        var magnitude: UInt64 = 0
        for digit in integer {
            guard Self.append(digit &- UInt8(ascii: "0"), to: &magnitude) else { return nil }
        }
        return signed(magnitude).map(Int.init)
    }

    /// The nearest double; nil when no finite one is near.
    var double: Double? { Double(fastJSONNumber: text) }

    private func signed(_ magnitude: UInt64) -> Int64? {
        guard magnitude <= UInt64(Int64.max) + (isNegative ? 1 : 0) else { return nil }
        return Int64(truncatingIfNeeded: isNegative ? 0 &- magnitude : magnitude)
    }

    private static func append(_ digit: UInt8, to magnitude: inout UInt64) -> Bool {
        let (tens, isTooLarge) = magnitude.multipliedReportingOverflow(by: 10)
        let (sum, isStillTooLarge) = tens.addingReportingOverflow(UInt64(digit))
        magnitude = sum
        return !isTooLarge && !isStillTooLarge
    }

    private static func endOfDigits(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var end = start
        while end < text.count, text[end] &- UInt8(ascii: "0") <= 9 { end += 1 }
        return end
    }

    /// Reads `e`, an optional sign, and digits up to the end.
    private static func exponent(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard text[0] | 0x20 == UInt8(ascii: "e"), text.count > 1 else { return nil }
        let isNegative = text[1] == UInt8(ascii: "-")
        let start = isNegative || text[1] == UInt8(ascii: "+") ? 2 : 1
        guard start < text.count, endOfDigits(text, from: start) == text.count else { return nil }
        var value = 0
        for index in start..<text.count {
            value = min(value * 10 + Int(text[index] &- UInt8(ascii: "0")), largestExponent)
        }
        return isNegative ? -value : value
    }
}
