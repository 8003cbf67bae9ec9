/// Whether a text is JSON by RFC 8259, in UTF-8 and with surrogates in pairs: the plain way, for comparison.
struct JSONGrammar {
    private let text: UnsafeRawBufferPointer
    private let maximumDepth: Int
    private var place = 0
    private var depth = 0

    static func accepts(_ text: UnsafeRawBufferPointer, maximumDepth: Int) -> Bool {
        guard String(validating: text, as: UTF8.self) != nil else { return false }
        var grammar = JSONGrammar(text: text, maximumDepth: maximumDepth)
        guard grammar.value() else { return false }
        grammar.skipSpace()
        return grammar.place == text.count
    }

    private init(text: UnsafeRawBufferPointer, maximumDepth: Int) {
        self.text = text
        self.maximumDepth = maximumDepth
    }

    private var next: Character? { place < text.count ? Character(UnicodeScalar(text[place])) : nil }

    private mutating func skipSpace() {
        while place < text.count, [0x20, 0x09, 0x0A, 0x0D].contains(text[place]) { place += 1 }
    }

    private mutating func take(_ wanted: Character) -> Bool {
        guard next == wanted else { return false }
        place += 1
        return true
    }

    private mutating func take(word: String) -> Bool { word.allSatisfy { take($0) } }

    private mutating func value() -> Bool {
        skipSpace()
        switch next {
        case "{": return container("}") { $0.string() && $0.colon() && $0.value() }
        case "[": return container("]") { $0.value() }
        case "\"": return string()
        case "t": return take(word: "true")
        case "f": return take(word: "false")
        case "n": return take(word: "null")
        default: return number()
        }
    }

    private mutating func colon() -> Bool {
        skipSpace()
        return take(":")
    }

    private mutating func container(_ end: Character, _ element: (inout JSONGrammar) -> Bool) -> Bool {
        guard depth < maximumDepth else { return false }
        depth += 1
        defer { depth -= 1 }
        place += 1
        skipSpace()
        if take(end) { return true }
        repeat {
            skipSpace()
            guard element(&self) else { return false }
            skipSpace()
        } while take(",")
        return take(end)
    }

    private mutating func digits() -> Bool {
        let start = place
        while place < text.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[place]) { place += 1 }
        return place > start
    }

    private mutating func number() -> Bool {
        _ = take("-")
        guard take("0") || digits() else { return false }
        if take("."), !digits() { return false }
        guard take("e") || take("E") else { return true }
        _ = take("+") || take("-")
        return digits()
    }

    private mutating func string() -> Bool {
        guard take("\"") else { return false }
        while place < text.count {
            let byte = text[place]
            place += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case UInt8(ascii: "\\"): guard escape() else { return false }
            case 0..<0x20: return false
            default: break
            }
        }
        return false
    }

    private mutating func escape() -> Bool {
        guard let letter = next else { return false }
        place += 1
        guard letter == "u" else { return "\"\\/bfnrt".contains(letter) }
        guard let unit = hexadecimal(), !(0xDC00...0xDFFF).contains(unit) else { return false }
        guard (0xD800...0xDBFF).contains(unit) else { return true }
        guard take("\\"), take("u"), let low = hexadecimal() else { return false }
        return (0xDC00...0xDFFF).contains(low)
    }

    private mutating func hexadecimal() -> Int? {
        guard place + 4 <= text.count else { return nil }
        defer { place += 4 }
        let digits = String(decoding: text[place..<place + 4], as: UTF8.self)
        return digits.allSatisfy(\.isHexDigit) && digits.utf8.count == 4 ? Int(digits, radix: 16) : nil
    }
}
