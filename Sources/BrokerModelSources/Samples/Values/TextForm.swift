internal import BrokerJSON

/// The possible types of a text, by its form.
///
/// Each form is one that the type's conversion reads. The bytes are read at most a few times, without copies; a text longer
/// than ``longest`` has no form.
struct TextForm: OptionSet, Hashable {
    let rawValue: Int

    static let uuid = TextForm(rawValue: 1)
    /// A day, or a day and a time, as ISO 8601 writes them.
    static let iso8601 = TextForm(rawValue: 2)
    /// `2012-09-24`, which is ``iso8601`` as well.
    static let day = TextForm(rawValue: 4)
    /// `2012/09/24`.
    static let dayWithSlashes = TextForm(rawValue: 8)
    /// `Mon Sep 24 03:35:21 +0000 2012`, as Twitter writes it.
    static let twitter = TextForm(rawValue: 16)
    /// `Mon, 24 Sep 2012 03:35:21 GMT`, as mail and HTTP write it (RFC 1123).
    static let mail = TextForm(rawValue: 32)
    /// `2012/09/24 03:35:21 +0000`, as Rails writes it.
    static let slashes = TextForm(rawValue: 64)
    /// `-12.5`, `12` or `1.5e-7`: a number of JSON that a person would not take for a code. ``integer`` is one as well.
    static let number = TextForm(rawValue: 128)
    /// A number without fraction and exponent that fits 64 bits.
    static let integer = TextForm(rawValue: 256)
    /// `true` or `false`, in any case.
    static let trueOrFalse = TextForm(rawValue: 512)
    /// `yes` or `no`, in any case.
    static let yesOrNo = TextForm(rawValue: 1024)
    /// `24.9.2012`, `24/9/2012` and `24-09-2012`.
    static let dayFirstWithDots = TextForm(rawValue: 1 << 11)
    static let dayFirstWithSlashes = TextForm(rawValue: 1 << 12)
    static let dayFirstWithDashes = TextForm(rawValue: 1 << 13)
    /// `9/24/2012` and `09-24-2012`.
    static let monthFirstWithSlashes = TextForm(rawValue: 1 << 14)
    static let monthFirstWithDashes = TextForm(rawValue: 1 << 15)

    /// Bytes. A date of nanoseconds has 35.
    static let longest = 64

    static let all = TextForm(rawValue: 1 << 16 - 1)

    init(rawValue: Int) { self.rawValue = rawValue }

    init(of text: UnsafeBufferPointer<UInt8>) {
        guard (1...Self.longest).contains(text.count) else {
            self = []
            return
        }
        let form = Self.plainForm(of: text)
        self = form.isEmpty && Self.isUUID(text) ? .uuid : form
    }

    /// The form, UUIDs aside. The first byte decides which forms are worth a try.
    private static func plainForm(of text: UnsafeBufferPointer<UInt8>) -> TextForm {
        switch text[0] {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
            let form = number(text)
            return form.isEmpty ? date(text) : form
        default: return text.count <= 5 ? boolean(text) : dateWithWeekday(text)
        }
    }

    private static func isUUID(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count == 36 else { return false }
        for index in 0..<36 {
            switch index {
            case 8, 13, 18, 23: guard text[index] == UInt8(ascii: "-") else { return false }
            default: guard text[index].isHexadecimalDigit else { return false }
            }
        }
        return true
    }

    private static func boolean(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        var scan = ByteScan(text)
        if scan.takeWord("true") || scan.takeWord("false") { return scan.isAtEnd ? .trueOrFalse : [] }
        if scan.takeWord("yes") || scan.takeWord("no") { return scan.isAtEnd ? .yesOrNo : [] }
        return []
    }

    /// Numbers as JSON writes them. Leading zeros and a plus occur in codes and telephone numbers, and `12E5` may be a
    /// code, too: an exponent has a sign, or follows a fraction.
    private static func number(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        var scan = ByteScan(text)
        let isNegative = scan.take(UInt8(ascii: "-"))
        let start = scan.index
        guard scan.takeDigits(), scan.index - start == 1 || text[start] != UInt8(ascii: "0") else { return [] }
        // -0 is 0: the sign would be lost.
        let isNegativeZero = isNegative && text[start] == UInt8(ascii: "0")
        if scan.isAtEnd {
            guard !isNegativeZero else { return [] }
            return Int64(decimalDigits: text) != nil ? [.number, .integer] : .number
        }
        let hasFraction = scan.take(UInt8(ascii: "."))
        if hasFraction, !scan.takeDigits() { return [] }
        if scan.take(UInt8(ascii: "e")) || scan.take(UInt8(ascii: "E")) {
            let hasSign = scan.take(UInt8(ascii: "-")) || scan.take(UInt8(ascii: "+"))
            guard hasFraction || hasSign, scan.takeDigits() else { return [] }
        }
        return scan.isAtEnd ? .number : []
    }
}

// MARK: - Dates

extension TextForm {
    private static func date(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        var scan = ByteScan(text)
        guard let year = scan.number(4) else { return dayWithYearLast(&scan) }
        let separator = scan.next
        guard separator == UInt8(ascii: "-") || separator == UInt8(ascii: "/"), scan.take(separator),
            let month = scan.number(2), scan.take(separator), let day = scan.number(2), isDay(year, month, day)
        else { return [] }
        let hasSlashes = separator == UInt8(ascii: "/")
        if scan.isAtEnd { return hasSlashes ? .dayWithSlashes : [.day, .iso8601] }
        if hasSlashes {
            guard scan.take(UInt8(ascii: " ")), scan.takeTime(), scan.take(UInt8(ascii: " ")), scan.takeOffset(),
                scan.isAtEnd, yearsWithOffset.contains(year)
            else { return [] }
            return .slashes
        }
        guard scan.take(UInt8(ascii: "T")) || scan.take(UInt8(ascii: " ")), scan.takeTime(isPrecise: true) else {
            return []
        }
        guard !scan.isAtEnd else { return .iso8601 }
        _ = scan.take(UInt8(ascii: " "))
        if scan.take(UInt8(ascii: "Z")) { return scan.isAtEnd ? .iso8601 : [] }
        return scan.takeOffset() && scan.isAtEnd && yearsWithOffset.contains(year) ? .iso8601 : []
    }

    /// A day that fits both forms fits none of them alone: the other texts decide.
    private static func dayWithYearLast(_ scan: inout ByteScan) -> TextForm {
        guard let first = scan.number(1, upTo: 2) else { return [] }
        let separator = scan.next
        guard scan.take(separator), let second = scan.number(1, upTo: 2), scan.take(separator),
            let year = scan.number(4), scan.isAtEnd
        else { return [] }
        let forms: (dayFirst: TextForm, monthFirst: TextForm)
        switch separator {
        case UInt8(ascii: "."): forms = (.dayFirstWithDots, [])
        case UInt8(ascii: "/"): forms = (.dayFirstWithSlashes, .monthFirstWithSlashes)
        case UInt8(ascii: "-"): forms = (.dayFirstWithDashes, .monthFirstWithDashes)
        default: return []
        }
        return (isDay(year, second, first) ? forms.dayFirst : [])
            .union(isDay(year, first, second) ? forms.monthFirst : [])
    }

    private static func dateWithWeekday(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        var scan = ByteScan(text)
        guard scan.position(in: weekdays) != nil else { return [] }
        let isMail = scan.take(UInt8(ascii: ","))
        guard scan.take(UInt8(ascii: " ")) else { return [] }
        return isMail ? mail(&scan) : twitter(&scan)
    }

    private static func mail(_ scan: inout ByteScan) -> TextForm {
        guard let day = scan.number(1, upTo: 2), scan.take(UInt8(ascii: " ")),
            let month = scan.position(in: months), scan.take(UInt8(ascii: " ")),
            let year = scan.number(4), isDay(year, month + 1, day), scan.take(UInt8(ascii: " ")), scan.takeTime(),
            scan.take(UInt8(ascii: " ")), scan.takeWord("gmt") || scan.takeWord("utc") || scan.takeOffset(),
            scan.isAtEnd, yearsWithOffset.contains(year)
        else { return [] }
        return .mail
    }

    private static func twitter(_ scan: inout ByteScan) -> TextForm {
        guard let month = scan.position(in: months), scan.take(UInt8(ascii: " ")),
            let day = scan.number(1, upTo: 2), scan.take(UInt8(ascii: " ")), scan.takeTime(),
            scan.take(UInt8(ascii: " ")), scan.takeOffset(), scan.take(UInt8(ascii: " ")),
            let year = scan.number(4), isDay(year, month + 1, day), scan.isAtEnd, yearsWithOffset.contains(year)
        else { return [] }
        return .twitter
    }

    private static let weekdays: [StaticString] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    private static let months: [StaticString] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// In UTC, an instant of another year may be outside of 0001 to 9999, and is refused then.
    private static let yearsWithOffset = 2...9998

    /// The month has such a day.
    private static func isDay(_ year: Int, _ month: Int, _ day: Int) -> Bool {
        guard year >= 1, (1...12).contains(month), day >= 1 else { return false }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        switch month {
        case 2: return day <= (isLeap ? 29 : 28)
        case 4, 6, 9, 11: return day <= 30
        default: return day <= 31
        }
    }

    /// The type that all texts of these forms have, with its members, and why; nil when they are texts.
    var type: (name: String, members: [(key: String, json: String)], reason: String)? {
        // 5/9/2012 is in May or in September.
        guard !isSuperset(of: [.dayFirstWithSlashes, .monthFirstWithSlashes]),
            !isSuperset(of: [.dayFirstWithDashes, .monthFirstWithDashes])
        else { return nil }
        let types: [(TextForm, type: String, format: String?, reason: String)] = [
            (.uuid, "uuid", nil, "all texts are UUIDs, which are stored in upper case"),
            (.day, "calendarDate", nil, "all texts are days"),
            (.iso8601, "date", nil, "all texts are dates as ISO 8601 writes them; without a zone they are in UTC"),
            (.dayWithSlashes, "calendarDate", "yyyy/MM/dd", "all texts are days"),
            (.dayFirstWithDots, "calendarDate", "dd.MM.yyyy", "all texts are days"),
            (.dayFirstWithSlashes, "calendarDate", "dd/MM/yyyy", "all texts are days, and some could be no others"),
            (.dayFirstWithDashes, "calendarDate", "dd-MM-yyyy", "all texts are days, and some could be no others"),
            (.monthFirstWithSlashes, "calendarDate", "MM/dd/yyyy", "all texts are days, and some could be no others"),
            (.monthFirstWithDashes, "calendarDate", "MM-dd-yyyy", "all texts are days, and some could be no others"),
            (.twitter, "date", "EEE MMM dd HH:mm:ss Z yyyy", "all texts are dates, as Twitter writes them"),
            (.mail, "date", "EEE, dd MMM yyyy HH:mm:ss Z", "all texts are dates, as mail and HTTP write them"),
            (.slashes, "date", "yyyy/MM/dd HH:mm:ss Z", "all texts are dates"),
        ]
        return types.first { contains($0.0) }.map { found in
            (found.type, found.format.map { [("format", ImportedModel.json($0))] } ?? [], found.reason)
        }
    }
}

/// Reads tokens from the front of a text of bytes. A token that is not there leaves the position as it is.
struct ByteScan {
    private let bytes: UnsafeBufferPointer<UInt8>
    private(set) var index = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// The next byte, 0 at the end.
    var next: UInt8 { index < bytes.count ? bytes[index] : 0 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// Reads an ASCII word in any case.
    ///
    /// - Parameter word: in small letters.
    mutating func takeWord(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - index >= count else { return false }
        for position in 0..<count where bytes[index + position] | 0x20 != word.utf8Start[position] { return false }
        index += count
        return true
    }

    /// Reads one of the words, and returns its position among them.
    mutating func position(in words: [StaticString]) -> Int? {
        for position in words.indices where takeWord(words[position]) { return position }
        return nil
    }

    /// Reads a number of so many digits, and not more.
    mutating func number(_ count: Int, upTo most: Int? = nil) -> Int? {
        var value = 0
        var end = index
        while end < bytes.count, bytes[end].isDigit, end - index < (most ?? count) {
            value = value * 10 + Int(bytes[end] - UInt8(ascii: "0"))
            end += 1
        }
        guard end - index >= count else { return nil }
        index = end
        return value
    }

    /// Reads one digit or more.
    mutating func takeDigits() -> Bool {
        let start = index
        while index < bytes.count, bytes[index].isDigit { index += 1 }
        return index > start
    }

    /// Reads `03:35:21`.
    ///
    /// - Parameter isPrecise: the seconds may be missing, or have a fraction.
    mutating func takeTime(isPrecise: Bool = false) -> Bool {
        let start = index
        guard let hour = number(2), hour < 24, take(UInt8(ascii: ":")), let minute = number(2), minute < 60 else {
            index = start
            return false
        }
        guard take(UInt8(ascii: ":")) else { return isPrecise }
        guard let second = number(2), second < 60 else { return false }
        guard isPrecise, take(UInt8(ascii: ".")) || take(UInt8(ascii: ",")) else { return true }
        return takeDigits()
    }

    /// Reads `+02:00`, `+0200` or `+02`.
    mutating func takeOffset() -> Bool {
        guard take(UInt8(ascii: "+")) || take(UInt8(ascii: "-")), let hours = number(2), hours < 24 else {
            return false
        }
        let hasColon = take(UInt8(ascii: ":"))
        guard let minutes = number(2) else { return !hasColon }
        return minutes < 60
    }
}

extension UInt8 {
    var isDigit: Bool { self &- UInt8(ascii: "0") <= 9 }

    var isHexadecimalDigit: Bool { isDigit || (self | 0x20) &- UInt8(ascii: "a") < 6 }
}
