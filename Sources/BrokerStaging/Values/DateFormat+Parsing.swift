extension DateFormat {
    static func instant(_ text: UnsafeBufferPointer<UInt8>, steps: [Step], zone: LocalZone) -> Instant? {
        var cursor = TextCursor(text)
        var fields = DateFields()
        for step in steps {
            guard take(step, from: &cursor, into: &fields) else { return nil }
        }
        guard cursor.isAtEnd else { return nil }
        return fields.instant(in: zone)
    }

    private static func take(_ step: Step, from cursor: inout TextCursor, into fields: inout DateFields) -> Bool {
        switch step {
        case .year(let digits, let most): return take(digits, most, 1...9999, from: &cursor, into: &fields.year)
        case .twoDigitYear:
            guard take(2, 2, 0...99, from: &cursor, into: &fields.year) else { return false }
            fields.year += fields.year < 50 ? 2000 : 1900
            return true
        case .month(let digits, let most): return take(digits, most, 1...12, from: &cursor, into: &fields.month)
        case .monthName:
            guard let month = month(&cursor) else { return false }
            fields.month = month
            return true
        case .day(let digits, let most): return take(digits, most, 1...31, from: &cursor, into: &fields.day)
        case .weekdayName: return isWeekday(&cursor)
        case .hour(let digits, let most): return take(digits, most, 0...24, from: &cursor, into: &fields.hour)
        case .hourFromOne(let digits, let most):
            guard take(digits, most, 1...24, from: &cursor, into: &fields.hour) else { return false }
            fields.hour %= 24
            return true
        case .halfDayHour(let digits, let most):
            guard take(digits, most, 1...12, from: &cursor, into: &fields.hour) else { return false }
            fields.hour %= 12
            return true
        case .halfDayHourFromZero(let digits, let most):
            return take(digits, most, 0...11, from: &cursor, into: &fields.hour)
        case .halfDay:
            fields.isAfternoon = cursor.take(anyCase: "pm")
            return fields.isAfternoon || cursor.take(anyCase: "am")
        case .minute(let digits, let most): return take(digits, most, 0...59, from: &cursor, into: &fields.minute)
        case .second(let digits, let most): return take(digits, most, 0...59, from: &cursor, into: &fields.second)
        case .fraction(let most):
            guard let nanosecond = cursor.nanoseconds(upTo: most) else { return false }
            fields.nanosecond = nanosecond
            return true
        case .zone:
            fields.zoneOffset = zoneOffset(&cursor)
            return fields.zoneOffset != nil
        case .spaces:
            guard cursor.take(UInt8(ascii: " ")) else { return false }
            while cursor.take(UInt8(ascii: " ")) {}
            return true
        case .literal(let byte): return cursor.take(byte)
        }
    }

    @inline(__always) private static func take(
        _ digits: Int, _ most: Int, _ range: ClosedRange<Int>, from cursor: inout TextCursor, into field: inout Int
    ) -> Bool {
        guard let value = cursor.number(digits: digits, upTo: most), range.contains(value) else { return false }
        field = value
        return true
    }

    /// Reads an offset, `UTC`, `GMT`, or an offset after one of these.
    private static func zoneOffset(_ cursor: inout TextCursor) -> Int? {
        if let offset = cursor.zoneOffset() { return offset }
        guard cursor.take(anyCase: "gmt") || cursor.take(anyCase: "utc") else { return nil }
        return cursor.next == UInt8(ascii: "+") || cursor.next == UInt8(ascii: "-") ? cursor.zoneOffset() : 0
    }

    /// Returns 1 for January.
    private static func month(_ cursor: inout TextCursor) -> Int? {
        if cursor.take(anyCase: "jan") { return named(1, orLonger: "uary", &cursor) }
        if cursor.take(anyCase: "feb") { return named(2, orLonger: "ruary", &cursor) }
        if cursor.take(anyCase: "mar") { return named(3, orLonger: "ch", &cursor) }
        if cursor.take(anyCase: "apr") { return named(4, orLonger: "il", &cursor) }
        if cursor.take(anyCase: "may") { return 5 }
        if cursor.take(anyCase: "jun") { return named(6, orLonger: "e", &cursor) }
        if cursor.take(anyCase: "jul") { return named(7, orLonger: "y", &cursor) }
        if cursor.take(anyCase: "aug") { return named(8, orLonger: "ust", &cursor) }
        if cursor.take(anyCase: "sep") { return named(9, orLonger: "tember", &cursor) }
        if cursor.take(anyCase: "oct") { return named(10, orLonger: "ober", &cursor) }
        if cursor.take(anyCase: "nov") { return named(11, orLonger: "ember", &cursor) }
        if cursor.take(anyCase: "dec") { return named(12, orLonger: "ember", &cursor) }
        return nil
    }

    private static func named(_ month: Int, orLonger rest: StaticString, _ cursor: inout TextCursor) -> Int {
        _ = cursor.take(anyCase: rest)
        return month
    }

    private static func isWeekday(_ cursor: inout TextCursor) -> Bool {
        let rest: StaticString
        if cursor.take(anyCase: "mon") || cursor.take(anyCase: "fri") || cursor.take(anyCase: "sun") {
            rest = "day"
        } else if cursor.take(anyCase: "tue") {
            rest = "sday"
        } else if cursor.take(anyCase: "wed") {
            rest = "nesday"
        } else if cursor.take(anyCase: "thu") {
            rest = "rsday"
        } else if cursor.take(anyCase: "sat") {
            rest = "urday"
        } else {
            return false
        }
        _ = cursor.take(anyCase: rest)
        return true
    }
}
