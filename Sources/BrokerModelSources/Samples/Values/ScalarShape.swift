internal import BrokerJSON

/// The common shape of the scalar values at one key.
struct ScalarShape {
    private(set) var count = 0
    private var integers = 0
    private var wideIntegers = 0
    private var fractions = 0
    private var longFractions = 0
    private var booleans = 0
    private var texts = 0
    private var emptyTexts = 0
    /// Texts that are `yes`.
    private var affirmations = 0
    /// Texts that are numbers other than 64 bit integers, and have more digits than a double holds.
    private var longTexts = 0
    /// The forms that all texts have which are not empty.
    private var forms = TextForm.all
    /// The least and the greatest number, also among the texts as long as all of them are numbers.
    private var range: ClosedRange<Double>?

    /// A double keeps so many digits of any decimal (IEEE 754).
    private static let digitsOfDoubles = 15

    mutating func observe(_ value: JSONValue) {
        count += 1
        switch value.kind {
        case .number:
            if let integer = value.int64 {
                integers += 1
                note(Double(integer))
            } else {
                if value.isIntegral { wideIntegers += 1 } else { fractions += 1 }
                if Self.isLong(value.bytes) { longFractions += 1 }
                note(value.double ?? .infinity)
            }
        case .true, .false: booleans += 1
        case .string: observe(text: value.bytes)
        default: break
        }
    }

    private mutating func observe(text: UnsafeBufferPointer<UInt8>) {
        texts += 1
        guard !text.isEmpty else {
            emptyTexts += 1
            return
        }
        guard !forms.isEmpty else { return }
        let form = TextForm(of: text)
        forms.formIntersection(form)
        if form.contains(.yesOrNo), text.count == 3 { affirmations += 1 }
        guard forms.contains(.number) else { return }
        if let integer = Int64(decimalDigits: text) {
            note(Double(integer))
        } else {
            if Self.isLong(text) { longTexts += 1 }
            note(Double(jsonNumber: text) ?? .infinity)
        }
    }

    private static func isLong(_ number: UnsafeBufferPointer<UInt8>) -> Bool {
        let mantissa = number.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }
        return mantissa.count(where: \.isDigit) > digitsOfDoubles
    }

    private mutating func note(_ number: Double) {
        range = min(range?.lowerBound ?? number, number)...max(range?.upperBound ?? number, number)
    }

    mutating func merge(_ other: ScalarShape) {
        count += other.count
        integers += other.integers
        wideIntegers += other.wideIntegers
        fractions += other.fractions
        longFractions += other.longFractions
        booleans += other.booleans
        texts += other.texts
        emptyTexts += other.emptyTexts
        affirmations += other.affirmations
        longTexts += other.longTexts
        forms.formIntersection(other.forms)
        if let bounds = other.range {
            note(bounds.lowerBound)
            note(bounds.upperBound)
        }
    }

    /// All are whole numbers, of any length, or all are texts.
    var isKey: Bool { count > 0 && (integers + wideIntegers == count || texts == count) }
    /// All are booleans.
    var areBooleans: Bool { booleans == count }
    /// All are numbers.
    var areNumbers: Bool { integers + wideIntegers + fractions == count }
}

// MARK: - Types

extension ScalarShape {
    typealias TypeGuess = (name: String, members: [(key: String, json: String)], reason: String)

    /// The reason for the type of values that were never seen.
    static let alwaysNull = "always null"

    /// The type of the values of a key in JSON, whatever the key is.
    var type: TypeGuess { type(key: "") }

    /// The type of all these values.
    ///
    /// - Parameters:
    ///   - key: the key that holds them. Numbers are dates only if the key says so.
    ///   - readsTexts: the values are of a format that has nothing but texts (CSV, XML, forms). Texts that are all
    ///     numbers or all booleans are these then; in JSON they remain texts.
    func type(key: String, readsTexts: Bool = false) -> TypeGuess {
        let numbers = integers + wideIntegers + fractions
        switch count {
        case 0: return ("transformable", [], "\(Self.alwaysNull), so anything may come")
        case numbers: return Self.unixTime(key, range) ?? numberType
        case booleans: return ("boolean", [], "")
        // The type of an empty text is string.
        case texts where emptyTexts > 0: return ("string", [], "")
        case texts: return forms.type ?? (readsTexts ? readType(key) : nil) ?? ("string", [], "")
        default: return ("string", [], "values of several kinds, stored as text")
        }
    }

    /// - Precondition: all values are numbers.
    private var numberType: TypeGuess {
        if integers == count { return ("integer64", [], "") }
        return longFractions > 0 || wideIntegers > 0 || !(range?.upperBound.isFinite ?? true)
            ? ("decimal", [], "more digits than other numbers hold") : ("double", [], "")
    }

    /// The type of texts that are numbers or booleans; nil when they are not.
    private func readType(_ key: String) -> TypeGuess? {
        if forms.contains(.trueOrFalse) { return ("boolean", [], "all texts are true or false") }
        // `NO` alone may be Norway.
        if forms.contains(.yesOrNo), affirmations > 0, affirmations < count {
            return ("boolean", [], "all texts are yes or no")
        }
        guard forms.contains(.number) else { return nil }
        if let date = Self.unixTime(key, range) { return date }
        if KeyHint.isOfCode(key) {
            return ("string", [], "all texts are numbers; later ones may have leading zeros, as the key says")
        }
        if forms.contains(.integer) { return ("integer64", [], "all texts are whole numbers") }
        return longTexts > 0
            ? ("decimal", [], "all texts are numbers, with more digits than other types hold")
            : ("double", [], "all texts are numbers")
    }

    /// From 1990 to 2100.
    private static let plausibleSeconds = 631_152_000.0...4_102_444_800.0
    /// From the first number of 13 digits, in September 2001, to 2100: the conversion takes shorter ones for seconds.
    private static let plausibleMilliseconds = 1e12...4_102_444_800_000.0

    /// The type of seconds or milliseconds since 1970: the key must say so, and all values be plausible.
    private static func unixTime(_ key: String, _ range: ClosedRange<Double>?) -> TypeGuess? {
        guard let range, KeyHint.isOfTime(key) else { return nil }
        let members = [("format", ImportedModel.json("UnixTime"))]
        let from = "since 1970, by the key and the values"
        if plausibleSeconds.contains(range.lowerBound), plausibleSeconds.contains(range.upperBound) {
            return ("date", members, "seconds \(from)")
        }
        if plausibleMilliseconds.contains(range.lowerBound), plausibleMilliseconds.contains(range.upperBound) {
            return ("date", members, "milliseconds \(from)")
        }
        return nil
    }
}

/// Meanings of a key that its words show.
enum KeyHint {
    /// The key ends in a word for a time, or begins with one: `created_at`, `lastModified`, `dateAdded`.
    static func isOfTime(_ key: String) -> Bool {
        let words = words(of: key)
        guard let last = words.last else { return false }
        return timeWords.contains(last) || words[0] == "date" || words[0] == "time"
    }

    private static let timeWords: Set<String> = [
        "accessed", "added", "at", "changed", "closed", "created", "date", "datetime", "deleted", "dt", "ended",
        "epoch",
        "expires", "expiry", "finished", "modified", "on", "opened", "published", "pushed", "since", "started",
        "sunrise",
        "sunset", "time", "timestamp", "ts", "until", "updated", "utc",
    ]

    /// The values are codes that are written with digits, such as postal codes and telephone numbers: a leading zero is
    /// part of them.
    static func isOfCode(_ key: String) -> Bool { words(of: key).contains { codeWords.contains($0) } }

    private static let codeWords: Set<String> = [
        "account", "barcode", "cell", "code", "ean", "fax", "gtin", "iban", "isbn", "issn", "mobile", "phone", "plz",
        "postal", "postcode", "sku", "ssn", "tel", "telephone", "upc", "vat", "zip", "zipcode",
    ]

    /// In small letters: `createdAt`, `created_at` and `Created at` have the words `created` and `at`.
    private static func words(of key: String) -> [String] {
        var words: [String] = []
        var word = ""
        var wasSmall = false
        for character in key {
            let isPart = character.isLetter || character.isNumber
            if !isPart || (character.isUppercase && wasSmall), !word.isEmpty {
                words.append(word)
                word = ""
            }
            if isPart { word += character.lowercased() }
            wasSmall = character.isLowercase || character.isNumber
        }
        return word.isEmpty ? words : words + [word]
    }
}
