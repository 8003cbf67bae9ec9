import BrokerJSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct JSONTrailingCommaTests {
    private func blanked(_ json: String) -> String? {
        text(json.utf8).blankingTrailingCommas().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test func `a comma right before a closing bracket becomes a space`() {
        #expect(blanked(#"{"a": [1, 2 , ], "b": {"c": 1,},}"#) == #"{"a": [1, 2   ], "b": {"c": 1 } }"#)
        #expect(blanked("[1,\r\n\t]") == "[1 \r\n\t]")
    }

    @Test func `commas and brackets inside of strings are left alone`() {
        #expect(blanked(#"["a,]", "b\",}", "\\", 1]"#) == nil)
        #expect(blanked(#"[",]",]"#) == #"[",]" ]"#)
        #expect(blanked(#"["\\",]"#) == #"["\\" ]"#)
    }

    @Test func `nothing is copied when there is no such comma`() {
        #expect(blanked("[1, 2]") == nil)
        #expect(blanked("") == nil)
    }

    @Test(arguments: ["[,]", "[1,,]", "{,}", "{\"a\":,}", "[ , ]", "[[],,]", "{\"a\":1,,}", "[[1,],[,]]"])
    func `a comma that follows no value stays, and is refused`(json: String) {
        #expect(refusal(of: (blanked(json) ?? json).utf8) != nil)
    }

    @Test func `random texts are accepted as an independent reader says`() {
        var generator = SeededGenerator(for: "trailing commas")
        let pieces = [
            "[", "]", "{", "}", ",", ",", ":", "1", "\"a\"", "\"a\":", "\",]\"", " ", "\n", "null", "[]", "{}",
        ]
        var accepted = 0
        let count = Cases.count(10_000, of: 60_000)
        for _ in 0..<count {
            let inner = (0..<Int.random(in: 1...8, using: &generator)).map { _ in
                pieces.randomElement(using: &generator)!
            }.joined()
            for json in ["[\(inner)]", "{\"k\":\(inner)}"] {
                let isAccepted = refusal(of: (blanked(json) ?? json).utf8) == nil
                #expect(isAccepted == LenientReader.accepts(json), "\(json)")
                accepted += isAccepted ? 1 : 0
            }
        }
        #expect(accepted > count / 60)
    }
}

/// JSON's grammar with one comma allowed after the last value of a container, read by descent; numbers and escapes as
/// the test above writes them.
private struct LenientReader {
    private var rest: Substring

    static func accepts(_ json: String) -> Bool {
        var reader = LenientReader(rest: json[...])
        return reader.value() && reader.next() == nil
    }

    private mutating func next() -> Character? {
        rest = rest.drop { $0.isWhitespace }
        return rest.first
    }

    private mutating func take(_ token: String) -> Bool {
        guard next() != nil, rest.hasPrefix(token) else { return false }
        rest.removeFirst(token.count)
        return true
    }

    private mutating func value() -> Bool {
        if take("[") { return values("]") { $0.value() } }
        if take("{") { return values("}") { $0.string() && $0.take(":") && $0.value() } }
        if take("null") { return true }
        guard take("1") else { return string() }
        // Digits that touch are one number; a literal that touches it is none.
        while rest.first == "1" { rest.removeFirst() }
        return rest.first != "n"
    }

    private mutating func string() -> Bool {
        guard take("\""), let end = rest.firstIndex(of: "\"") else { return false }
        rest = rest[rest.index(after: end)...]
        return true
    }

    private mutating func values(_ end: String, _ element: (inout LenientReader) -> Bool) -> Bool {
        if take(end) { return true }
        while element(&self) {
            if take(end) { return true }
            guard take(",") else { return false }
            if take(end) { return true }
        }
        return false
    }
}
