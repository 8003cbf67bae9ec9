import BrokerFastJSON
import BrokerJSON
import TestSupport

/// The tape: it takes exactly what the grammar takes, holds every value in its place, and what is written from it reads
/// the same; both parsers agree; trailing commas are all that leniency forgives.
final class JSONTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        let text = JSONText(copying: input)
        let document = try parse(text, CountingAllowance())
        var difference: String?
        _ = try? BothParsers.parse(text) { difference = $0 }
        if let difference { throw FuzzFinding(description: "the parsers differ: \(difference)") }
        let isJSON = JSONGrammar.accepts(text.bytes, maximumDepth: JSONDocument.defaultMaximumDepth)
        try require(isJSON == (document != nil), isJSON ? "JSON is refused" : "what is no JSON is taken for it")
        if let document { try check(document) }
        try checkLeniency(text, isJSON: isJSON)
    }

    /// Nil when the text is refused.
    private func parse(_ text: JSONText, _ allowance: CountingAllowance) throws -> JSONDocument? {
        do {
            let document = try JSONDocument(fast: text, allowance: allowance)
            try require(allowance.taken == document.memory, "\(allowance.taken) bytes are taken for \(document.memory)")
            // Every value has a byte of its own, and an unescaped string is no longer than it was written.
            try require(document.memory <= 64 + text.count * 32, "\(document.memory) bytes for \(text.count) of text")
            return document
        } catch let refusal as JSONRefusal {
            try require(allowance.taken == 0, "\(allowance.taken) bytes stay taken for a text that was refused")
            guard case .fault(let error) = refusal else {
                throw FuzzFinding(description: "an allowance without a limit was refused")
            }
            try require((0...text.count).contains(error.position.offset), "a fault is outside of the text: \(error)")
            return nil
        }
    }

    private func check(_ document: JSONDocument) throws {
        defer { withExtendedLifetime(document) {} }
        let count = try check(document.root, in: document.text)
        try require(count == document.elementCount, "\(count) of \(document.elementCount) values are reached")
        let written = document.root.jsonText
        guard let again = try parse(JSONText(copying: written), CountingAllowance()) else {
            throw FuzzFinding(description: "what was written from a document is no JSON")
        }
        defer { withExtendedLifetime(again) {} }
        try require(Self.isEqual(document.root, again.root), "what was written from a document reads otherwise")
        try require(again.root.jsonText == written, "what was written is written otherwise the second time")
    }

    /// How many values there are in this one, itself and keys included.
    private func check(_ value: JSONValue, in text: JSONText) throws -> Int {
        try require(value.offset <= text.count, "a value is outside of the text")
        switch value.kind {
        case .object:
            var count = 1
            for (key, member) in value.members {
                try require(key.kind == .string, "a key is no string")
                count += try check(key, in: text) + check(member, in: text)
            }
            return count
        case .array: return try value.elements.reduce(1) { try $0 + check($1, in: text) }
        case .string:
            try require(String(validating: value.bytes, as: UTF8.self) != nil, "a string is no UTF-8")
            try checkWriting(of: value)
        case .number:
            let text = String(decoding: value.bytes, as: UTF8.self)
            try require(value.int64 == Int64(text), "a number is another integer than Swift's")
            let double = Double(text)
            try require(
                value.double == (double?.isFinite == true ? double : nil), "a number is another double than Swift's")
        case .null, .true, .false: break
        }
        return 1
    }

    private func checkWriting(of string: JSONValue) throws {
        guard let again = try parse(JSONText(copying: string.jsonText), CountingAllowance()) else {
            throw FuzzFinding(description: "a string that was written is no JSON")
        }
        defer { withExtendedLifetime(again) {} }
        try require(again.root.hasBytes(string.bytes), "a string that was written reads otherwise")
    }

    private static func isEqual(_ left: JSONValue, _ right: JSONValue) -> Bool {
        guard left.kind == right.kind else { return false }
        switch left.kind {
        case .object:
            var others = right.members
            for (key, value) in left.members {
                guard let other = others.next(), key.hasBytes(other.key.bytes), isEqual(value, other.value) else {
                    return false
                }
            }
            return others.next() == nil
        case .array:
            var others = right.elements
            for value in left.elements {
                guard let other = others.next(), isEqual(value, other) else { return false }
            }
            return others.next() == nil
        case .string, .number: return left.hasBytes(right.bytes)
        case .null, .true, .false: return true
        }
    }

    private func checkLeniency(_ text: JSONText, isJSON: Bool) throws {
        guard let blanked = text.blankingTrailingCommas() else { return }
        try require(!isJSON, "trailing commas are found in JSON, which has none")
        try require(blanked.count == text.count, "places are others once commas are blanked")
        for (before, after) in zip(text.bytes, blanked.bytes) where before != after {
            try require(before == UInt8(ascii: ",") && after == UInt8(ascii: " "), "more than commas is blanked")
        }
        guard let document = try parse(blanked, CountingAllowance()) else { return }
        try check(document)
        try require(blanked.blankingTrailingCommas() == nil, "trailing commas are left")
    }
}

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
