extension DateFormat {
    static func instant(_ text: UnsafeBufferPointer<UInt8>, steps: [Step], zone: LocalZone) -> Instant? {
        fields(text, steps: steps)?.instant(in: zone)
    }

    static func fields(_ text: UnsafeBufferPointer<UInt8>, steps: [Step]) -> DateFields? {
        var cursor = TextCursor(text)
        var fields = DateFields()
        for step in steps {
            guard take(step, from: &cursor, into: &fields) else { return nil }
        }
        return cursor.isAtEnd ? fields : nil
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
            guard let month = DateNames.months.firstIndex(where: { cursor.take(name: $0) }) else { return false }
            fields.month = month + 1
            return true
        case .day(let digits, let most): return take(digits, most, 1...31, from: &cursor, into: &fields.day)
        case .weekdayName: return DateNames.weekdays.contains { cursor.take(name: $0) }
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
            fields.hasFurtherDigits = cursor.hasDroppedDigits
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
}

extension TextCursor {
    /// Reads a name, or its first three letters, in either case.
    fileprivate mutating func take(name: StaticString) -> Bool {
        take(anyCase: name) || take(anyCase: name, first: 3)
    }
}

/// English names, as dates have them.
enum DateNames {
    static let months: [StaticString] = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]
    static let weekdays: [StaticString] = [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]
}
