/// A date pattern of UTS 35, compiled once.
///
/// A list of fixed steps reads the common fields. Foundation, which is some hundred times slower, reads the others
/// (eras, weeks, days of the year, names of zones …).
///
/// Numbers may have fewer digits than their field has letters (`dd` reads `5`), except for `yyyy` and for adjacent
/// fields, as in `yyyyMMdd`. Names are English, short or long, in any case. A two-digit year means 1950 to 2049, as in
/// Foundation. A day of the week is read, but not compared with the date. White space in the pattern matches one or
/// more spaces.
struct DateFormat: Sendable {
    /// A format for numbers, not a pattern, as in MagicalRecord's constant of that name.
    static let unixTime = "UnixTime"

    enum Step: Equatable, Sendable {
        case year(digits: Int, upTo: Int)
        case twoDigitYear
        case month(digits: Int, upTo: Int)
        case monthName
        case day(digits: Int, upTo: Int)
        case weekdayName
        /// 0 to 23.
        case hour(digits: Int, upTo: Int)
        /// 1 to 24.
        case hourFromOne(digits: Int, upTo: Int)
        /// 1 to 12.
        case halfDayHour(digits: Int, upTo: Int)
        /// 0 to 11.
        case halfDayHourFromZero(digits: Int, upTo: Int)
        case halfDay
        case minute(digits: Int, upTo: Int)
        case second(digits: Int, upTo: Int)
        case fraction(upTo: Int)
        case zone
        case spaces
        case literal(UInt8)
    }

    /// A pattern that cannot be read.
    struct Fault: Error, Equatable {
        /// The fault and the remedy, as the end of a sentence.
        let message: String
    }

    /// Nil when only Foundation can read the pattern.
    let steps: [Step]?
    /// Nil when the steps suffice.
    private let foundation: FoundationDateFormat?
    private let zone: LocalZone

    /// - Parameter zone: the zone of dates without one.
    init(pattern: String, zone: LocalZone) throws(Fault) {
        let tokens = try DatePatternToken.tokens(of: pattern)
        self.zone = zone
        steps = Self.compile(tokens)
        // The steps read offsets and UTC only; Foundation reads names of zones.
        let namesZones = tokens.contains { $0.letter == UInt8(ascii: "z") }
        foundation = steps == nil || namesZones ? FoundationDateFormat(pattern: pattern, zone: zone) : nil
    }

    /// Returns nil when the text does not match the pattern, or names a day or time that does not exist.
    func instant(_ text: UnsafeBufferPointer<UInt8>) -> Instant? {
        if let steps, let instant = Self.instant(text, steps: steps, zone: zone) { return instant }
        return foundation?.instant(text)
    }

    /// Returns the day that the text names, in whatever zone it is.
    ///
    /// - Precondition: the steps suffice: see ``readsDays``.
    func day(_ text: UnsafeBufferPointer<UInt8>) -> CivilDate? {
        guard let steps, var fields = Self.fields(text, steps: steps) else { return nil }
        fields.zoneOffset = nil
        guard fields.instant(in: .utc) != nil else { return nil }
        return CivilDate(year: fields.year, month: fields.month, day: fields.day)
    }

    /// The pattern names a year, a month and a day, and steps read it.
    var readsDays: Bool {
        guard let steps else { return false }
        let hasYear = steps.contains { if case .year = $0 { true } else { $0 == .twoDigitYear } }
        let hasMonth = steps.contains { if case .month = $0 { true } else { $0 == .monthName } }
        let hasDay = steps.contains { if case .day = $0 { true } else { false } }
        return hasYear && hasMonth && hasDay
    }
}

extension DateFormat {
    /// Returns the steps of a pattern; nil when steps cannot express a field or a combination of fields.
    static func compile(_ tokens: [DatePatternToken]) -> [Step]? {
        var steps: [Step] = []
        for (index, token) in tokens.enumerated() {
            switch token {
            case .literal(let byte):
                if byte == UInt8(ascii: " ") {
                    if steps.last != .spaces { steps.append(.spaces) }
                } else {
                    steps.append(.literal(byte))
                }
            case .field(let letter, let count):
                let before = index > 0 && tokens[index - 1].isNumber
                let after = index + 1 < tokens.count && tokens[index + 1].isNumber
                guard let step = step(letter: letter, count: count, touches: token.isNumber && (before || after)) else {
                    return nil
                }
                steps.append(step)
            }
        }
        return isPlain(tokens.compactMap(\.letter)) ? steps : nil
    }

    private static func step(letter: UInt8, count: Int, touches: Bool) -> Step? {
        // Adjacent fields have as many digits as letters; a single letter sets no number of digits.
        guard !touches || count > 1 else { return nil }
        let digits = touches ? count : 1
        switch (Character(UnicodeScalar(letter)), count) {
        case ("y", 1): return .year(digits: 1, upTo: 4)
        case ("y", 2): return .twoDigitYear
        case ("y", 4): return .year(digits: 4, upTo: 4)
        case ("M", 1...2), ("L", 1...2): return .month(digits: digits, upTo: 2)
        case ("M", 3...4), ("L", 3...4): return .monthName
        case ("d", 1...2): return .day(digits: digits, upTo: 2)
        case ("E", 1...4): return .weekdayName
        case ("H", 1...2): return .hour(digits: digits, upTo: 2)
        case ("k", 1...2): return .hourFromOne(digits: digits, upTo: 2)
        case ("h", 1...2): return .halfDayHour(digits: digits, upTo: 2)
        case ("K", 1...2): return .halfDayHourFromZero(digits: digits, upTo: 2)
        case ("a", 1...3): return .halfDay
        case ("m", 1...2): return .minute(digits: digits, upTo: 2)
        case ("s", 1...2): return .second(digits: digits, upTo: 2)
        case ("S", _): return .fraction(upTo: touches ? count : .max)
        case ("Z", 1...5), ("X", 1...3), ("x", 1...3), ("z", 1...3): return .zone
        default: return nil
        }
    }

    /// Whether there is a year, no field occurs twice, and the half of the day occurs with an hour of it.
    private static func isPlain(_ letters: [UInt8]) -> Bool {
        let kinds = letters.map { letter -> Character in
            switch Character(UnicodeScalar(letter)) {
            case "L": "M"
            case "k": "H"
            case "K": "h"
            case "X", "x", "z": "Z"
            case let other: other
            }
        }
        let isHalfDayPlain = !kinds.contains("a") || kinds.contains("h")
        return kinds.contains("y") && isHalfDayPlain && !(kinds.contains("h") && kinds.contains("H"))
            && Set(kinds).count == kinds.count
    }
}

extension DatePatternToken {
    /// Whether the field is written in digits.
    fileprivate var isNumber: Bool {
        guard case .field(let letter, let count) = self else { return false }
        switch Character(UnicodeScalar(letter)) {
        case "M", "L": return count < 3
        case "y", "d", "H", "k", "h", "K", "m", "s", "S": return true
        default: return false
        }
    }
}

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

/// A token of a date pattern: a run of one letter, or a literal byte.
enum DatePatternToken: Equatable {
    case field(letter: UInt8, count: Int)
    case literal(UInt8)

    /// The pattern letters of UTS 35, revision 72. `j`, `J` and `C` belong to skeletons and are not valid in a pattern.
    private static let letters = Set("GyYuUrQqMLlwWdDFgEecabBhHkKmsSAzZOvVXx".utf8)

    /// The letter of a field.
    var letter: UInt8? {
        if case .field(let letter, _) = self { letter } else { nil }
    }

    static func tokens(of pattern: String) throws(DateFormat.Fault) -> [DatePatternToken] {
        let bytes = Array(pattern.utf8)
        var tokens: [DatePatternToken] = []
        var isQuoted = false
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "'") {
                if index + 1 < bytes.count, bytes[index + 1] == byte {
                    tokens.append(.literal(byte))
                    index += 2
                } else {
                    isQuoted.toggle()
                    index += 1
                }
            } else if !isQuoted, isLetter(byte) {
                let count = bytes[index...].prefix { $0 == byte }.count
                guard letters.contains(byte) else {
                    let letter = Character(UnicodeScalar(byte))
                    throw DateFormat.Fault(
                        message:
                            "\"\(letter)\" is no field of a date pattern (Unicode TR 35); put text in single quotes")
                }
                tokens.append(.field(letter: byte, count: count))
                index += count
            } else {
                tokens.append(.literal(byte))
                index += 1
            }
        }
        guard !isQuoted else { throw DateFormat.Fault(message: "a single quote is opened and never closed") }
        guard tokens.contains(where: { $0.letter != nil }) else {
            throw DateFormat.Fault(message: "it names no field of a date, such as yyyy")
        }
        return tokens
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 }
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
