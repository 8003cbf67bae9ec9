package import BrokerModel
import Foundation
import Synchronization

/// A date pattern of UTS 35, compiled once.
///
/// Rules for the common fields read and write it. Foundation, which is some hundred times slower, reads and writes the others
/// (eras, weeks, days of the year, names of zones …).
///
/// Numbers may have fewer digits than their field has letters (`dd` reads `5`), except for `yyyy` and for adjacent
/// fields, as in `yyyyMMdd`. Names are English, short or long, in any case. A two-digit year means 1950 to 2049, as in
/// Foundation. A day of the week is read, but not compared with the date. White space in the pattern matches one or
/// more spaces. A date whose pattern has a zone is written in the zone of the pattern's attribute.
struct DateFormat: Sendable {
    /// A format for numbers, not a pattern, as in MagicalRecord's constant of that name.
    static let unixTime = "UnixTime"

    /// A pattern that cannot be read.
    struct Fault: Error, Equatable {
        /// The fault and the remedy, as the end of a sentence.
        let message: String
    }

    private struct Field: Equatable, Sendable {
        let letter: Unicode.Scalar
        let count: Int
        /// Another number is next to this one, which therefore has as many digits as letters.
        var isAdjacent = false

        /// The field is written in digits.
        var isNumber: Bool {
            switch letter {
            case "M", "L": count < 3
            case "y", "d", "H", "k", "h", "K", "m", "s", "S": true
            default: false
            }
        }

        /// The rules read the field. Adjacent to a number, a single letter sets no number of digits.
        var isCommon: Bool {
            switch letter {
            case _ where isAdjacent && count == 1: false
            case "y": count != 3 && count <= 4
            case "M", "L", "E": count <= 4
            case "d", "H", "k", "h", "K", "m", "s": count <= 2
            case "a", "X", "x", "z": count <= 3
            case "Z": count <= 5
            case "S": true
            default: false
            }
        }

        /// What the field says of a date; no pattern of common fields says one thing twice.
        var subject: Unicode.Scalar {
            switch letter {
            case "L": "M"
            case "k": "H"
            case "K": "h"
            case "X", "x", "z": "Z"
            default: letter
            }
        }
    }

    private enum Token: Equatable, Sendable {
        case field(Field)
        case literal(UInt8)

        var field: Field? { if case .field(let field) = self { field } else { nil } }
    }

    private let tokens: [Token]
    /// The rules read the pattern.
    let isCommon: Bool
    /// Nil when the rules suffice: they read offsets and UTC, but no names of zones.
    private let foundation: FoundationDateFormat?
    private let zone: LocalZone

    /// - Parameter zone: the zone of dates without one.
    init(pattern: String, zone: LocalZone) throws(Fault) {
        tokens = try Self.tokens(of: pattern)
        self.zone = zone
        let fields = tokens.compactMap(\.field)
        let subjects = Set(fields.map(\.subject))
        // The half of the day says something of an hour of the half day alone.
        let hasHour = !subjects.contains("a") || subjects.contains("h")
        isCommon =
            fields.allSatisfy(\.isCommon) && subjects.count == fields.count && subjects.contains("y") && hasHour
            && !subjects.isSuperset(of: ["h", "H"])
        let isRead = isCommon && !fields.contains { $0.letter == "z" }
        foundation = isRead ? nil : FoundationDateFormat(pattern: pattern, zone: zone)
    }

    /// The pattern names a year, a month and a day, and the rules read it.
    var readsDays: Bool { isCommon && Set(tokens.compactMap(\.field?.subject)).isSuperset(of: ["y", "M", "d"]) }

    // MARK: - Patterns

    /// The pattern letters of UTS 35, revision 72. `j`, `J` and `C` belong to skeletons and are not valid in a pattern.
    private static let letters = Set("GyYuUrQqMLlwWdDFgEecabBhHkKmsSAzZOvVXx".unicodeScalars)

    private static func tokens(of pattern: String) throws(Fault) -> [Token] {
        let bytes = Array(pattern.utf8)
        var tokens: [Token] = []
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
            } else if !isQuoted, (byte | 0x20) &- UInt8(ascii: "a") < 26 {
                let (letter, count) = (Unicode.Scalar(byte), bytes[index...].prefix { $0 == byte }.count)
                guard letters.contains(letter) else {
                    throw Fault(
                        message:
                            "\"\(letter)\" is no field of a date pattern (Unicode TR 35); put text in single quotes")
                }
                tokens.append(.field(Field(letter: letter, count: count)))
                index += count
            } else {
                tokens.append(.literal(byte))
                index += 1
            }
        }
        guard !isQuoted else { throw Fault(message: "a single quote is opened and never closed") }
        guard tokens.contains(where: { $0.field != nil }) else {
            throw Fault(message: "it names no field of a date, such as yyyy")
        }
        return tokens.indices.map { index in
            guard var field = tokens[index].field else { return tokens[index] }
            let neighbors = [index - 1, index + 1].filter(tokens.indices.contains)
            field.isAdjacent = field.isNumber && neighbors.contains { tokens[$0].field?.isNumber ?? false }
            return .field(field)
        }
    }

    // MARK: - Reading

    /// Returns nil when the text does not match the pattern, or names a day or time that does not exist.
    func instant(_ text: UnsafeBufferPointer<UInt8>) -> Instant? {
        if isCommon, let instant = fields(text)?.instant(in: zone) { return instant }
        return foundation?.instant(text)
    }

    /// Returns the day that the text names, in whatever zone it is.
    ///
    /// - Precondition: ``readsDays``.
    func day(_ text: UnsafeBufferPointer<UInt8>) -> CivilDate? {
        guard var fields = fields(text) else { return nil }
        fields.zoneOffset = nil
        guard fields.instant(in: .utc) != nil else { return nil }
        return CivilDate(year: fields.year, month: fields.month, day: fields.day)
    }

    private func fields(_ text: UnsafeBufferPointer<UInt8>) -> DateFields? {
        var cursor = TextCursor(text)
        var fields = DateFields()
        let space = UInt8(ascii: " ")
        for index in tokens.indices {
            switch tokens[index] {
            case .field(let field): guard Self.take(field, from: &cursor, into: &fields) else { return nil }
            case .literal(space):
                // The first of several spaces has taken all of them.
                guard cursor.take(space) || index > 0 && tokens[index - 1] == .literal(space) else { return nil }
                while cursor.take(space) {}
            case .literal(let byte): guard cursor.take(byte) else { return nil }
            }
        }
        return cursor.isAtEnd ? fields : nil
    }

    private static func take(_ field: Field, from cursor: inout TextCursor, into fields: inout DateFields) -> Bool {
        switch field.letter {
        case "y" where field.count == 2:
            guard take(2, 2, 0...99, from: &cursor, into: &fields.year) else { return false }
            fields.year += fields.year < 50 ? 2000 : 1900
            return true
        case "y": return take(field.count, 4, 1...9999, from: &cursor, into: &fields.year)
        case "M" where field.count > 2, "L" where field.count > 2:
            guard let month = monthNames.firstIndex(where: { take(name: $0, from: &cursor) }) else { return false }
            fields.month = month + 1
            return true
        case "E": return weekdayNames.contains { take(name: $0, from: &cursor) }
        case "a":
            fields.isAfternoon = cursor.take(anyCase: "pm")
            return fields.isAfternoon || cursor.take(anyCase: "am")
        case "S":
            guard let nanosecond = cursor.nanoseconds(upTo: field.isAdjacent ? field.count : .max) else { return false }
            fields.nanosecond = nanosecond
            fields.hasFurtherDigits = cursor.hasDroppedDigits
            return true
        case "Z", "X", "x", "z":
            fields.zoneOffset = zoneOffset(&cursor)
            return fields.zoneOffset != nil
        default: break
        }
        let digits = field.isAdjacent ? field.count : 1
        switch field.letter {
        case "M", "L": return take(digits, 2, 1...12, from: &cursor, into: &fields.month)
        case "d": return take(digits, 2, 1...31, from: &cursor, into: &fields.day)
        case "H": return take(digits, 2, 0...24, from: &cursor, into: &fields.hour)
        case "k", "h":
            let most = field.letter == "k" ? 24 : 12
            guard take(digits, 2, 1...most, from: &cursor, into: &fields.hour) else { return false }
            fields.hour %= most
            return true
        case "K": return take(digits, 2, 0...11, from: &cursor, into: &fields.hour)
        case "m": return take(digits, 2, 0...59, from: &cursor, into: &fields.minute)
        case "s": return take(digits, 2, 0...59, from: &cursor, into: &fields.second)
        default: preconditionFailure("a pattern with other fields is Foundation's")
        }
    }

    @inline(__always) private static func take(
        _ digits: Int, _ most: Int, _ range: ClosedRange<Int>, from cursor: inout TextCursor, into field: inout Int
    ) -> Bool {
        guard let value = cursor.number(digits: digits, upTo: most), range.contains(value) else { return false }
        field = value
        return true
    }

    /// Reads a name, or its first three letters, in either case.
    private static func take(name: StaticString, from cursor: inout TextCursor) -> Bool {
        cursor.take(anyCase: name) || cursor.take(anyCase: name, first: 3)
    }

    /// Reads an offset, `UTC`, `GMT`, or an offset after one of these.
    private static func zoneOffset(_ cursor: inout TextCursor) -> Int? {
        if let offset = cursor.zoneOffset() { return offset }
        guard cursor.take(anyCase: "gmt") || cursor.take(anyCase: "utc") else { return nil }
        return cursor.next == UInt8(ascii: "+") || cursor.next == UInt8(ascii: "-") ? cursor.zoneOffset() : 0
    }

    private static let monthNames: [StaticString] = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]
    private static let weekdayNames: [StaticString] = [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]

    // MARK: - Writing

    /// Returns the text of a date, as far as the pattern has its fields.
    func text(of instant: Instant) -> [UInt8] {
        if let foundation { return Array(foundation.text(of: instant).utf8) }
        let fields = DateFields(instant, offset: zone.offset(at: instant.seconds))
        var text: [UInt8] = []
        for token in tokens {
            switch token {
            case .literal(let byte): text.append(byte)
            case .field(let field): text += Self.text(of: field, fields).utf8
            }
        }
        return text
    }

    private static func text(of field: Field, _ date: DateFields) -> String {
        let count = field.count
        switch field.letter {
        case "y" where count == 2: return digits(date.year % 100, 2)
        case "y": return digits(date.year, count)
        case "M" where count > 2, "L" where count > 2: return name(monthNames[date.month - 1], isLong: count > 3)
        case "M", "L": return digits(date.month, count)
        case "d": return digits(date.day, count)
        case "E": return name(weekdayNames[date.weekday], isLong: count > 3)
        case "H": return digits(date.hour, count)
        case "k": return digits(date.hour == 0 ? 24 : date.hour, count)
        case "h": return digits(date.hour % 12 == 0 ? 12 : date.hour % 12, count)
        case "K": return digits(date.hour % 12, count)
        case "a": return date.hour < 12 ? "AM" : "PM"
        case "m": return digits(date.minute, count)
        case "s": return digits(date.second, count)
        case "S":
            // Further digits are zeros.
            return String((digits(date.nanosecond, 9) + String(repeating: "0", count: max(0, count - 9))).prefix(count))
        case "Z", "X", "x": return zone(date.zoneOffset ?? 0, field)
        default: preconditionFailure("a pattern with other fields is Foundation's")
        }
    }

    private static func digits(_ number: Int, _ least: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, least - text.utf8.count)) + text
    }

    private static func name(_ name: StaticString, isLong: Bool) -> String {
        isLong ? name.description : String(name.description.prefix(3))
    }

    /// `+0200` for `Z`, `GMT+02:00` for `ZZZZ`, `+02:00` and UTC as `Z` for `ZZZZZ`; `+02` for `X` and `x`, `+0200` for two,
    /// `+02:00` for three, and `X` writes UTC as `Z`.
    private static func zone(_ offset: Int, _ field: Field) -> String {
        let (isZ, count) = (field.letter == "Z", field.count)
        if offset == 0, isZ ? count == 5 : field.letter == "X" { return "Z" }
        let prefix = isZ && count == 4 ? "GMT" : ""
        if offset == 0, !prefix.isEmpty { return prefix }
        let hours = prefix + (offset < 0 ? "-" : "+") + digits(abs(offset) / 3600, 2)
        let minutes = abs(offset) / 60 % 60
        if !isZ, count == 1, minutes == 0 { return hours }
        return hours + (count > 3 || !isZ && count == 3 ? ":" : "") + digits(minutes, 2)
    }
}

/// Recognises the texts that a date pattern reads or, without one, those of ISO 8601.
package struct DateRecognizer: Sendable {
    private let format: DateFormat?

    /// - Precondition: the pattern can be read.
    package init(pattern: String?) {
        do {
            format = try pattern.map { pattern throws(DateFormat.Fault) in try DateFormat(pattern: pattern, zone: .utc)
            }
        } catch {
            preconditionFailure("\(pattern ?? ""): \(error.message)")
        }
    }

    package func matches(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        (format.map { $0.instant(text) } ?? ISO8601.instant(text, zone: .utc)) != nil
    }
}

/// The slow path of date patterns: Foundation's formatter, strict, in English, one caller at a time.
private final class FoundationDateFormat: Sendable {
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
            case .named(let zone): zone
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

/// Parts of the system that decide how values are converted and compared, each with a text that differs when they may decide
/// otherwise.
package enum ConversionFacts {
    /// - Returns: for each part its name and its text, in a fixed order.
    package static func of(_ model: Model) -> [(name: String, text: String)] {
        let zones = Set(model.entities.flatMap { $0.attributes.compactMap(\.timeZone) }).sorted()
        return [
            // Foundation, its ICU and the tables of Unicode belong to the version of Swift.
            ("swift", "\(_SwiftStdlibVersion.current)"), ("timeZoneData", TimeZone.timeZoneDataVersion), ("re2", re2),
        ]
            + zones.compactMap { name in
                // A zone of a fixed offset is the same everywhere.
                guard let local = LocalZone(name), case .named(let zone) = local else { return nil }
                return ("timeZone \(name)", offsets(of: zone, local))
            }
    }

    /// RE2 reports no version. The sizes of these programs change with its tables of Unicode and with its compiler, and the
    /// work budget counts instructions.
    private static var re2: String {
        [#"\p{L}"#, #"\p{N}"#, #"\p{Lu}\p{Ll}"#, #"\p{Greek}"#, #"\pP"#, #"\pS"#, #"(?i)\p{L}"#, #"(a+|b?){3,9}$"#]
            .map { pattern in (try? RegularExpression(pattern)).map { "\($0.instructions)" } ?? "none" }
            .joined(separator: " ")
    }

    /// The years whose changes of the offset count.
    private static let years = (1900, 2100)
    /// The offset is read so often besides, so that a change counts that Foundation does not list.
    private static let step = 10 * Instant.secondsPerDay

    /// The changes of the offset, by the tables that Foundation uses: it has its own, and does not read those of the system.
    private static func offsets(of zone: TimeZone, _ local: LocalZone) -> String {
        let bounds = [years.0, years.1].map {
            CivilDate(year: $0, month: 1, day: 1)!.daysSince1970 * Instant.secondsPerDay
        }
        var facts = "\(local.offset(at: bounds[0]))"
        var last = bounds[0]
        while let date = zone.nextDaylightSavingTimeTransition(after: Date(timeIntervalSince1970: Double(last))) {
            let change = Int(date.timeIntervalSince1970.rounded())
            guard change > last, change < bounds[1] else { break }
            facts += " \(change):\(local.offset(at: change))"
            last = change
        }
        var before: Int?
        for time in stride(from: bounds[0], to: bounds[1], by: step) {
            let now = local.offset(at: time)
            if now != before { facts += " \(now)" }
            before = now
        }
        return facts
    }
}
