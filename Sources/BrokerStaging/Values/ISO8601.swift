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
