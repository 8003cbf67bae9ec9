internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The common shape of the scalar values at one key.
struct ScalarShape {
    private(set) var count = 0
    private var integers = 0
    /// Whole numbers that a column of integers holds as they are written.
    private var plainIntegers = 0
    /// Whole numbers that a double does not hold.
    private var bigIntegers = 0
    private var wideIntegers = 0
    private var fractions = 0
    private var longFractions = 0
    private var booleans = 0
    private var texts = 0
    private(set) var emptyTexts = 0
    /// Bytes.
    private(set) var longestText = 0
    /// Texts that are `yes`.
    private var affirmations = 0
    /// Texts that are numbers other than 64 bit integers, and have more digits than a double holds.
    private var longTexts = 0
    /// The forms that all texts have which are not empty.
    private var forms = TextForm.all
    /// What all dates among the texts have: days, or times with a zone or without one.
    private var dateKinds: Set<DateKind> = []
    /// The most digits of a second's fraction, or of a number's, without zeros at the end.
    private var fractionDigits = 0
    /// The numbers of digits after the point, of texts that are numbers with other fractions than 0.
    private var fractionLengths: ClosedRange<Int>?
    private var hasFinalZero = false
    /// The least and the greatest number, also among the texts as long as all of them are numbers.
    private var range: ClosedRange<Double>?

    /// A double keeps so many digits of any decimal (IEEE 754).
    private static let digitsOfDoubles = 15

    mutating func observe(_ value: JSONValue) {
        count += 1
        switch value.kind {
        case .number: note(number: value.bytes)
        case .true, .false: booleans += 1
        case .string: observe(text: value.bytes)
        default: break
        }
    }

    /// A number, which may be written as a text.
    mutating func observe(number text: UnsafeBufferPointer<UInt8>) {
        count += 1
        note(number: text)
    }

    private mutating func note(number text: UnsafeBufferPointer<UInt8>) {
        guard let integer = Int64(wholeNumber: text) else {
            if Self.isIntegral(text) { wideIntegers += 1 } else { fractions += 1 }
            if note(decimal: text, NumberText(text)) { longFractions += 1 }
            return
        }
        integers += 1
        if Self.isPlain(text) { plainIntegers += 1 }
        note(integer)
    }

    /// - Returns: whether a double does not hold it.
    private mutating func note(decimal text: UnsafeBufferPointer<UInt8>, _ number: NumberText?) -> Bool {
        let value = Double(fastJSONNumber: text) ?? .infinity
        if let number { noteFraction(number.fraction) }
        note(value)
        guard Self.isLong(text) else { return Self.isUnderflow(text, value) }
        // A program that prints doubles writes up to 17 digits of them.
        return !(number?.isSame(as: value.description) ?? false)
    }

    private static func isIntegral(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        !text.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
    }

    private static func isUnderflow(_ text: UnsafeBufferPointer<UInt8>, _ value: Double) -> Bool {
        value == 0 && text.contains { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) }
    }

    /// As an integer is written: without a fraction, an exponent, and a sign of zero.
    private static func isPlain(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let digits = text.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
        return digits.allSatisfy(\.isDigit) && (digits.first != UInt8(ascii: "0") || text.count == 1)
    }

    private mutating func note(_ integer: Int64) {
        if integer.magnitude > 1 << 53 { bigIntegers += 1 }
        note(Double(integer))
    }

    private mutating func noteFraction(_ digits: some BidirectionalCollection<UInt8>) {
        let zeros = digits.reversed().prefix { $0 == UInt8(ascii: "0") }.count
        fractionDigits = max(fractionDigits, digits.count - zeros)
    }

    private mutating func observe(text: UnsafeBufferPointer<UInt8>) {
        texts += 1
        longestText = max(longestText, text.count)
        if text.isEmpty { emptyTexts += 1 }
        guard !text.isEmpty, !forms.isEmpty else { return }
        forms = TextForm(of: text, among: forms)
        if forms.contains(.yesOrNo), text.count == 3 { affirmations += 1 }
        if forms.contains(.iso8601) { note(date: text) }
        guard forms.contains(.number) else { return }
        if let integer = Int64(decimalDigits: text) {
            plainIntegers += 1
            note(integer)
        } else if let number = NumberText(text) {
            if note(decimal: text, number) { longTexts += 1 }
            if number.fraction.contains(where: { $0 != UInt8(ascii: "0") }) || number.fraction.count > 1 {
                let count = number.fraction.count
                note(fractionLengths: count...count)
                if number.fraction.last == UInt8(ascii: "0") { hasFinalZero = true }
            }
        }
    }

    private mutating func note(date text: UnsafeBufferPointer<UInt8>) {
        guard text.count > 10 else {
            dateKinds.insert(.day)
            return
        }
        let time = text.dropFirst(11)
        let hasZone = time.contains {
            $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") || $0 | 0x20 == UInt8(ascii: "z")
        }
        dateKinds.insert(hasZone ? .zoned : .local)
        if let point = time.firstIndex(where: { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ",") }) {
            noteFraction(time[time.index(after: point)...].prefix(while: \.isDigit))
        }
    }

    private static func isLong(_ number: UnsafeBufferPointer<UInt8>) -> Bool {
        let mantissa = number.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }
        return mantissa.count(where: \.isDigit) > digitsOfDoubles
    }

    private mutating func note(fractionLengths theirs: ClosedRange<Int>) {
        let mine = fractionLengths ?? theirs
        fractionLengths = min(mine.lowerBound, theirs.lowerBound)...max(mine.upperBound, theirs.upperBound)
    }

    private mutating func note(_ number: Double) {
        range = min(range?.lowerBound ?? number, number)...max(range?.upperBound ?? number, number)
    }

    mutating func merge(_ other: ScalarShape) {
        count += other.count
        integers += other.integers
        plainIntegers += other.plainIntegers
        bigIntegers += other.bigIntegers
        dateKinds.formUnion(other.dateKinds)
        fractionDigits = max(fractionDigits, other.fractionDigits)
        hasFinalZero = hasFinalZero || other.hasFinalZero
        if let theirs = other.fractionLengths { note(fractionLengths: theirs) }
        wideIntegers += other.wideIntegers
        fractions += other.fractions
        longFractions += other.longFractions
        booleans += other.booleans
        texts += other.texts
        emptyTexts += other.emptyTexts
        longestText = max(longestText, other.longestText)
        affirmations += other.affirmations
        longTexts += other.longTexts
        forms.formIntersection(other.forms)
        if let bounds = other.range {
            note(bounds.lowerBound)
            note(bounds.upperBound)
        }
    }

    /// Texts and numbers, not all of them with fractions.
    var isKey: Bool { count > 0 && booleans == 0 && fractions < count }
    /// Whole numbers, or texts that are no numbers and no dates.
    var isPlainKey: Bool {
        isKey
            && (plainIntegers == count
                || texts == count && (forms.contains(.integer) || forms.isDisjoint(with: .notNamed)))
    }
    /// Both have the same type as identities.
    func isLike(_ other: ScalarShape) -> Bool { isKey && other.isKey && keyType() == other.keyType() }

    /// The type of an identity with these values: integers, or the texts that were sent.
    func keyType(key: String = "", readsTexts: Bool = false) -> AttributeType {
        plainIntegers == count && (texts == 0 || readsTexts && texts == count && !KeyHint.isOfCode(key))
            ? .integer64 : .string
    }

    /// All are booleans.
    var areBooleans: Bool { booleans == count }
    /// All are numbers.
    var areNumbers: Bool { numbers == count }

    private var numbers: Int { integers + wideIntegers + fractions }
}

// MARK: - Types

extension ScalarShape {
    /// The reason for the type of values that were never seen.
    static let alwaysNull = "always null"

    /// The type of all these values. This is the one place where a type is chosen.
    ///
    /// - Parameters:
    ///   - key: the key that holds them. Numbers are dates only if the key says so.
    ///   - readsTexts: the values are of a format that has nothing but texts (CSV, XML, forms). Texts that are all
    ///     numbers or all booleans are these then; in JSON they remain texts.
    func type(key: String = "", readsTexts: Bool = false) -> TypeGuess {
        switch count {
        case 0: TypeGuess(.transformable, "\(Self.alwaysNull), so anything may come")
        case numbers: unixTime(key) ?? numberType
        case booleans: TypeGuess(.boolean)
        // The type of an empty text is string.
        case texts where emptyTexts > 0: TypeGuess(.string)
        case texts:
            (forms.isDateOfISO ? isoType : forms.type) ?? (readsTexts ? readType(key) : nil) ?? TypeGuess(.string)
        default: TypeGuess(.string, "values of several kinds, stored as text")
        }
    }

    /// - Precondition: all values are numbers.
    private var numberType: TypeGuess {
        if integers == count { return TypeGuess(.integer64, hasBigIntegers: bigIntegers > 0) }
        return longFractions > 0 || wideIntegers > 0 || bigIntegers > 0 || !isFinite
            ? TypeGuess(.decimal, "more digits than other numbers hold") : TypeGuess(.double)
    }

    private var isFinite: Bool { range.map { $0.lowerBound.isFinite && $0.upperBound.isFinite } ?? true }

    /// The type of texts that are numbers or booleans; nil when they are not.
    private func readType(_ key: String) -> TypeGuess? {
        if forms.contains(.trueOrFalse) { return TypeGuess(.boolean, "all texts are true or false") }
        // `NO` alone may be Norway.
        if forms.contains(.yesOrNo), affirmations > 0, affirmations < count {
            return TypeGuess(.boolean, "all texts are yes or no")
        }
        guard forms.contains(.number) else { return nil }
        if let date = unixTime(key) { return date }
        if KeyHint.isOfCode(key) {
            return TypeGuess(.string, "all texts are numbers; later ones may have leading zeros, as the key says")
        }
        if forms.contains(.integer) { return TypeGuess(.integer64, "all texts are whole numbers") }
        if let fractionLengths, hasFinalZero, fractionLengths.count > 1 {
            return TypeGuess(.string, "all texts are numbers, and as such 1.1 and 1.10 would be the same")
        }
        return longTexts > 0 || bigIntegers > 0 || !isFinite
            ? TypeGuess(.decimal, "all texts are numbers, with more digits than other types hold")
            : TypeGuess(.double, "all texts are numbers")
    }

    /// From 1990 to 2100.
    private static let plausibleSeconds = 631_152_000.0...4_102_444_800.0
    /// From the first number of 13 digits, in September 2001, to 2100: the conversion takes shorter ones for seconds.
    private static let plausibleMilliseconds = 1e12...4_102_444_800_000.0

    /// The type of seconds or milliseconds since 1970: the key must say so, and all values be plausible.
    private func unixTime(_ key: String) -> TypeGuess? {
        guard let range, KeyHint.isOfTime(key) else { return nil }
        let units = [("seconds", Self.plausibleSeconds), ("milliseconds", Self.plausibleMilliseconds)]
        let unit = units.first { $0.1.contains(range.lowerBound) && $0.1.contains(range.upperBound) }
        return unit.flatMap { unit in
            precision(unit.0 == "seconds" ? fractionDigits : fractionDigits == 0 ? 0 : fractionDigits + 3).map {
                TypeGuess(
                    .date, "\(unit.0) since 1970, by the key and the values", format: TypeGuess.unixTime, precision: $0)
            }
        }
    }

    /// The digits of a second that a date must keep; nil where that is more than it can.
    private func precision(_ digits: Int) -> Int? { digits <= 3 ? 3 : digits <= 6 ? 6 : digits <= 9 ? 9 : nil }

    /// The type of texts that are dates as ISO 8601 writes them; nil where it would not say what all of them say.
    private var isoType: TypeGuess? {
        guard dateKinds.count == 1, let kind = dateKinds.first, let precision = precision(fractionDigits) else {
            return nil
        }
        let zone = kind == .local ? "; without a zone they are in UTC" : ""
        return kind == .day
            ? nil : TypeGuess(.date, "all texts are dates as ISO 8601 writes them\(zone)", precision: precision)
    }

    private enum DateKind { case day, zoned, local }
}

/// The possible types of a text, by its form.
///
/// Each form is one that the type's conversion reads. The bytes are read at most a few times, without copies; a text longer
/// than ``longest`` has no form. The forms of dates with a format are the bits from ``firstFormat`` on.
struct TextForm: OptionSet, Hashable {
    let rawValue: Int

    static let uuid = TextForm(rawValue: 1)
    /// A day, or a day and a time, as ISO 8601 writes them.
    static let iso8601 = TextForm(rawValue: 2)
    /// `-12.5`, `12` or `1.5e-7`: a number of JSON that a person would not take for a code. ``integer`` is one as well.
    static let number = TextForm(rawValue: 4)
    /// A number without fraction and exponent that fits 64 bits.
    static let integer = TextForm(rawValue: 8)
    /// `true` or `false`, in any case.
    static let trueOrFalse = TextForm(rawValue: 16)
    /// `yes` or `no`, in any case.
    static let yesOrNo = TextForm(rawValue: 32)

    private static let firstFormat = 6
    /// The formats of dates and days, the preferred ones first.
    static let formats: [(pattern: StaticString, type: AttributeType, reason: String)] = [
        ("yyyy-MM-dd", .calendarDate, "all texts are days"),
        ("yyyy/MM/dd", .calendarDate, "all texts are days"),
        ("dd.MM.yyyy", .calendarDate, "all texts are days"),
        ("dd/MM/yyyy", .calendarDate, "all texts are days, and some could be no others"),
        ("dd-MM-yyyy", .calendarDate, "all texts are days, and some could be no others"),
        ("MM/dd/yyyy", .calendarDate, "all texts are days, and some could be no others"),
        ("MM-dd-yyyy", .calendarDate, "all texts are days, and some could be no others"),
        ("EEE MMM dd HH:mm:ss Z yyyy", .date, "all texts are dates, as Twitter writes them"),
        ("EEE, dd MMM yyyy HH:mm:ss Z", .date, "all texts are dates, as mail and HTTP write them"),
        ("yyyy/MM/dd HH:mm:ss Z", .date, "all texts are dates"),
    ]
    /// Formats that none is chosen of as long as all texts fit both: 5/9/2012 is in May or in September.
    private static let ambiguous = [format(3).union(format(5)), format(4).union(format(6))]

    static let all = TextForm(rawValue: 1 << (firstFormat + formats.count) - 1)

    /// Bytes. A date of nanoseconds has 35.
    private static let longest = 64

    init(rawValue: Int) { self.rawValue = rawValue }

    static func format(_ index: Int) -> TextForm { TextForm(rawValue: 1 << (firstFormat + index)) }

    /// The forms of a text among those that are still possible. Its first byte decides which are worth a try.
    init(of text: UnsafeBufferPointer<UInt8>, among possible: TextForm = .all) {
        self = []
        guard (1...Self.longest).contains(text.count) else { return }
        let isNumeric = text[0].isDigit || text[0] == UInt8(ascii: "-")
        formUnion(isNumeric ? Self.numberForms(text) : text.count <= 5 ? Self.wordForms(text) : [])
        if isEmpty, possible.contains(.iso8601), Self.iso8601Dates.matches(text) { insert(.iso8601) }
        if !contains(.number), !contains(.trueOrFalse), !contains(.yesOrNo) {
            for index in Self.formats.indices {
                let form = Self.format(index)
                if possible.contains(form), Self.dates[index].matches(text) { insert(form) }
            }
        }
        // The type has upper case alone.
        if isEmpty, possible.contains(.uuid), text.isUUID, !text.contains(where: { $0 >= UInt8(ascii: "a") }) {
            insert(.uuid)
        }
        formIntersection(possible)
    }

    /// The type that all texts of these forms have; nil when they are texts.
    var type: TypeGuess? {
        guard !Self.ambiguous.contains(where: isSuperset) else { return nil }
        if contains(.uuid) { return TypeGuess(.uuid, "all texts are UUIDs in upper case") }
        let format = Self.formats.indices.first { contains(Self.format($0)) }
        if contains(.iso8601) { return format == 0 ? TypeGuess(.calendarDate, Self.formats[0].reason) : nil }
        return format.map {
            TypeGuess(Self.formats[$0].type, Self.formats[$0].reason, format: "\(Self.formats[$0].pattern)")
        }
    }

    /// Days and times as ISO 8601 writes them, not all of them days.
    var isDateOfISO: Bool { contains(.iso8601) && !contains(.format(0)) }

    /// Forms of numbers with fractions, of dates, and of answers.
    static let notNamed = all.subtracting([.uuid, .integer])
}

// MARK: - Reading

extension TextForm {
    private static let iso8601Dates = DateRecognizer(pattern: nil)
    /// By the index of their format.
    private static let dates = formats.map { DateRecognizer(pattern: "\($0.pattern)") }

    private static func wordForms(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        func isWord(_ word: StaticString) -> Bool {
            var cursor = TextCursor(text)
            return cursor.take(anyCase: word) && cursor.isAtEnd
        }
        if isWord("true") || isWord("false") { return .trueOrFalse }
        return isWord("yes") || isWord("no") ? .yesOrNo : []
    }

    /// Numbers as JSON writes them. Leading zeros and a plus occur in codes and telephone numbers, and `12E5` may be a
    /// code, too: an exponent has a sign, or follows a fraction.
    private static func numberForms(_ text: UnsafeBufferPointer<UInt8>) -> TextForm {
        guard let number = NumberText(text), number.isJSON(text) else { return [] }
        if let exponent = text.firstIndex(where: { $0 | 0x20 == UInt8(ascii: "e") }) {
            return number.fraction.isEmpty && text[exponent + 1].isDigit ? [] : .number
        }
        guard number.fraction.isEmpty else { return .number }
        // -0 is 0: the sign would be lost.
        if text[0] == UInt8(ascii: "-"), number.integer[0] == UInt8(ascii: "0") { return [] }
        return Int64(decimalDigits: text) != nil ? [.number, .integer] : .number
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { self &- UInt8(ascii: "0") <= 9 }
}
