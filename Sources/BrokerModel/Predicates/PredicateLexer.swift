internal import BrokerJSON

/// Divides a predicate's text into tokens, one at a time.
struct PredicateLexer {
    private let text: [UInt8]
    private var place = 0

    init(_ text: [UInt8]) {
        self.text = text
    }

    mutating func next() throws(PredicateFault) -> PredicateToken {
        while let byte = peek(), Self.isSpace(byte) { place += 1 }
        let start = place
        return PredicateToken(kind: try kind(), offset: start)
    }

    private mutating func kind() throws(PredicateFault) -> PredicateToken.Kind {
        guard let byte = peek() else { return .end }
        switch byte {
        case _ where Self.beginsWord(byte): return word()
        case _ where Self.isDigit(byte) || beginsNumber(byte): return .number(try number())
        case UInt8(ascii: "'"), UInt8(ascii: "\""): return .string(try string(until: byte))
        case UInt8(ascii: "#"): return try escapedWord()
        case UInt8(ascii: "@"): return try collectionOperator()
        case UInt8(ascii: "%"): return try argument()
        case UInt8(ascii: "["): return try options()
        default: return try sign(byte)
        }
    }

    private func peek(_ ahead: Int = 0) -> UInt8? { place + ahead < text.count ? text[place + ahead] : nil }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
    private static func isDigit(_ byte: UInt8?) -> Bool { byte.map { $0 &- UInt8(ascii: "0") <= 9 } ?? false }

    private static func beginsWord(_ byte: UInt8) -> Bool {
        (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte == UInt8(ascii: "_") || byte >= 0x80
    }
}

// MARK: - Words and signs

extension PredicateLexer {
    private mutating func word() -> PredicateToken.Kind {
        let word = takeWord()
        guard word.utf8.count <= 10 else { return .word(word) }
        let keyword = word.uppercased()
        if let sign = PredicateToken.Sign(rawValue: keyword) { return .sign(sign) }
        return PredicateRelation.Kind(rawValue: keyword).map { .relation($0) } ?? .word(word)
    }

    private mutating func takeWord() -> String {
        let start = place
        while let byte = peek(), Self.beginsWord(byte) || Self.isDigit(byte) { place += 1 }
        return String(decoding: text[start..<place], as: UTF8.self)
    }

    private mutating func escapedWord() throws(PredicateFault) -> PredicateToken.Kind {
        guard let byte = peek(1), Self.beginsWord(byte) else {
            throw PredicateFault("\"#\" goes before a name that is also a keyword, as in #in", at: place)
        }
        place += 1
        return .escapedWord(takeWord())
    }

    private mutating func collectionOperator() throws(PredicateFault) -> PredicateToken.Kind {
        let start = place
        place += 1
        let name = "@" + takeWord()
        guard name == PredicateName.count else {
            throw PredicateFault(
                "\(name.quotedBriefly) is not supported; of the collection operators there is @count alone", at: start)
        }
        return .escapedWord(name)
    }

    private mutating func argument() throws(PredicateFault) -> PredicateToken.Kind {
        let mark = peek(1)
        guard mark == UInt8(ascii: "@") || mark == UInt8(ascii: "K") else {
            throw PredicateFault(
                "only %@ (for a value) and %K (for a name) are filled from the arguments, whatever the value's type",
                at: place)
        }
        place += 2
        return mark == UInt8(ascii: "@") ? .argument : .nameArgument
    }

    private mutating func options() throws(PredicateFault) -> PredicateToken.Kind {
        guard let end = text[place...].prefix(16).firstIndex(of: UInt8(ascii: "]")) else {
            throw PredicateFault("\"[\" begins the options of an operator, which are [c], [d] or [cd]", at: place)
        }
        defer { place = end + 1 }
        return .options(String(decoding: text[(place + 1)..<end], as: UTF8.self))
    }

    private static let signs: [(sign: StaticString, kind: PredicateToken.Kind)] = [
        ("==", .relation(.equal)), ("=<", .relation(.atMost)), ("=>", .relation(.atLeast)), ("=", .relation(.equal)),
        ("!=", .relation(.notEqual)), ("!", .sign(.not)), ("<>", .relation(.notEqual)), ("<=", .relation(.atMost)),
        ("<", .relation(.less)), (">=", .relation(.atLeast)), (">", .relation(.greater)), ("&&", .sign(.and)),
        ("||", .sign(.or)), ("(", .sign(.open)), (")", .sign(.close)), ("{", .sign(.openList)),
        ("}", .sign(.closeList)), (",", .sign(.comma)), (".", .sign(.point)),
    ]

    private mutating func sign(_ byte: UInt8) throws(PredicateFault) -> PredicateToken.Kind {
        for (sign, kind) in Self.signs where stands(sign) {
            place += sign.utf8CodeUnitCount
            return kind
        }
        let message =
            switch byte {
            case UInt8(ascii: "$"): "variables are not supported; write %@ and send the value in the arguments"
            case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "/"):
                "arithmetic is not supported; send the result as a constant"
            default: "\(String(UnicodeScalar(byte)).quotedBriefly) means nothing here"
            }
        throw PredicateFault(message, at: place)
    }

    private func stands(_ sign: StaticString) -> Bool {
        (0..<sign.utf8CodeUnitCount).allSatisfy { peek($0) == sign.utf8Start[$0] }
    }
}

// MARK: - Numbers

extension PredicateLexer {
    /// A sign or a point followed by a digit.
    private func beginsNumber(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "."): Self.isDigit(peek(1))
        case UInt8(ascii: "-"), UInt8(ascii: "+"):
            Self.isDigit(peek(1)) || (peek(1) == UInt8(ascii: ".") && Self.isDigit(peek(2)))
        default: false
        }
    }

    private mutating func number() throws(PredicateFault) -> [UInt8] {
        let start = place
        var number: [UInt8] = []
        if peek() == UInt8(ascii: "-") { number.append(UInt8(ascii: "-")) }
        if peek() == UInt8(ascii: "-") || peek() == UInt8(ascii: "+") { place += 1 }
        let integer = digits().drop { $0 == UInt8(ascii: "0") }
        number += integer.isEmpty ? [UInt8(ascii: "0")] : integer
        if peek() == UInt8(ascii: "."), Self.isDigit(peek(1)) {
            place += 1
            number.append(UInt8(ascii: "."))
            number += digits()
        }
        if let exponent = peek(), exponent | 0x20 == UInt8(ascii: "e") {
            let isSigned = peek(1) == UInt8(ascii: "-") || peek(1) == UInt8(ascii: "+")
            if Self.isDigit(peek(isSigned ? 2 : 1)) {
                number += text[place..<place + (isSigned ? 2 : 1)]
                place += isSigned ? 2 : 1
                number += digits()
            }
        }
        if let byte = peek(), Self.beginsWord(byte) || byte == UInt8(ascii: ".") {
            throw PredicateFault("this is no number; numbers are decimal, like 12, -0.5 or 3e8", at: start)
        }
        return number
    }

    private mutating func digits() -> ArraySlice<UInt8> {
        let start = place
        while Self.isDigit(peek()) { place += 1 }
        return text[start..<place]
    }
}

// MARK: - Strings

extension PredicateLexer {
    private mutating func string(until quote: UInt8) throws(PredicateFault) -> [UInt8] {
        let start = place
        place += 1
        var content: [UInt8] = []
        while let byte = peek() {
            place += 1
            if byte == quote { return content }
            if byte == UInt8(ascii: "\\") { try appendEscape(to: &content) } else { content.append(byte) }
        }
        throw PredicateFault("the string that begins here has no end; close it with \(UnicodeScalar(quote))", at: start)
    }

    /// The meaning of the escape after a backslash.
    private mutating func appendEscape(to content: inout [UInt8]) throws(PredicateFault) {
        let start = place - 1
        guard let byte = peek() else { return }
        place += 1
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "'"), UInt8(ascii: "\""): content.append(byte)
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "u"): content += try unicodeEscape(from: start)
        default:
            throw PredicateFault(
                "the string has an escape that means nothing; write \\\\ for a backslash, and know \\\" \\' \\n \\r "
                    + "\\t and \\u with four hexadecimal digits", at: start)
        }
    }

    /// `\u00e9`, or a pair of surrogates.
    private mutating func unicodeEscape(from start: Int) throws(PredicateFault) -> [UInt8] {
        var units = [UInt16]()
        if let unit = codeUnit() { units.append(unit) }
        if let first = units.first, UTF16.isLeadSurrogate(first), peek() == UInt8(ascii: "\\"),
            peek(1) == UInt8(ascii: "u")
        {
            place += 2
            if let second = codeUnit() { units.append(second) }
        }
        guard let text = String(validating: units, as: UTF16.self), !units.isEmpty else {
            throw PredicateFault("\\u is followed by four hexadecimal digits, and surrogates come in pairs", at: start)
        }
        return Array(text.utf8)
    }

    private mutating func codeUnit() -> UInt16? {
        guard place + 4 <= text.count,
            text[place..<place + 4].allSatisfy({ UnicodeScalar($0).properties.isASCIIHexDigit })
        else { return nil }
        defer { place += 4 }
        return UInt16(String(decoding: text[place..<place + 4], as: UTF8.self), radix: 16)
    }
}

/// The words and signs of predicates.
struct PredicateToken {
    enum Kind: Equatable {
        case word(String)
        /// Written with `#`, so that it is always a name; or `@count`.
        case escapedWord(String)
        /// A string's content.
        case string([UInt8])
        /// In JSON's notation.
        case number([UInt8])
        case relation(PredicateRelation.Kind)
        /// The text between brackets.
        case options(String)
        case sign(Sign)
        /// `%@` and `%K`.
        case argument, nameArgument
        case end
    }

    /// As messages show them.
    enum Sign: String {
        case and = "AND", or = "OR", not = "NOT"
        case open = "(", close = ")", openList = "{", closeList = "}", comma = ",", point = "."
    }

    let kind: Kind
    /// In bytes.
    let offset: Int
}

extension PredicateToken {
    /// The token as in a sentence.
    var shown: String {
        switch kind {
        case .word(let word): word.quotedBriefly
        case .escapedWord(let word): (word == PredicateName.count ? word : "#\(word)").quotedBriefly
        case .string: "a string"
        case .number(let digits): String(decoding: digits, as: UTF8.self).briefly
        case .relation(let relation): "\"\(relation.rawValue)\""
        case .options(let options): "[\(options)]".quotedBriefly
        case .sign(let sign): "\"\(sign.rawValue)\""
        case .argument: "%@"
        case .nameArgument: "%K"
        case .end: "the end"
        }
    }

    /// The keyword's upper-case form; nil for a token that is no word.
    var keyword: String? {
        guard case .word(let word) = kind, word.utf8.count <= 14 else { return nil }
        return word.uppercased()
    }
}
