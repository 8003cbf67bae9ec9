import BrokerJSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct JSONDocumentTests {
    @Test func `numbers keep their text`() throws {
        let json = "[12345678901234567890.10, 9223372036854775807, -0, 1E+2]"
        let values = try withRoot(of: json) { $0.elements.map { String(decoding: $0.bytes, as: UTF8.self) } }
        #expect(values == ["12345678901234567890.10", "9223372036854775807", "-0", "1E+2"])
    }

    @Test(arguments: [
        ("9223372036854775807", Int64.max), ("-9223372036854775808", .min), ("0", 0), ("-0", 0),
        ("9223372036854775808", nil), ("-9223372036854775809", nil), ("99999999999999999999", nil),
        ("1.0", nil), ("1e2", nil), ("\"1\"", nil),
    ])
    func `a 64-bit integer is exact or nothing`(json: String, expected: Int64?) throws {
        #expect(try withRoot(of: "[\(json)]") { $0.elements.map(\.int64) } == [expected])
    }

    @Test(arguments: [
        ("1.5", 1.5), ("-2e3", -2000), ("1e-400", 0), ("0.1", 0.1), ("1e400", nil), ("-1e400", nil), ("true", nil),
    ])
    func `a double is the nearest one, or nothing when there is none`(json: String, expected: Double?) throws {
        #expect(try withRoot(of: "[\(json)]") { $0.elements.map(\.double) } == [expected])
    }

    @Test func `a text may be any value with white space around it`() throws {
        let texts = [" null ", "true", "\tfalse\r\n", "0", "\"\"", "[]", "{}", "\n[ ]\n", "{ }"]
        let kinds = try texts.map { try withRoot(of: $0) { $0.kind } }
        #expect(kinds == [.null, .true, .false, .number, .string, .array, .object, .array, .object])
    }

    @Test func `members and elements come in order, containers with their text`() throws {
        try withRoot(of: #"{"a": [1, {"b": 2}], "c": {}, "d": "x"}"#) { root in
            #expect(root.members.map { $0.key.string } == ["a", "c", "d"])
            let elements = root["a"]?.elements.map { String(decoding: $0.bytes, as: UTF8.self) }
            #expect(elements == ["1", #"{"b": 2}"#])
            #expect(root["a"]?.elements.map { $0["b"]?.int64 } == [nil, 2])
            #expect(root["c"]?.members.map { $0.key.string } == [])
        }
    }

    @Test func `the last of duplicate keys wins, whether escaped or not`() throws {
        try withRoot(of: #"{"k": 1, "k": 2, "\u006b": 3}"#) { root in
            #expect(root["k"]?.int64 == 3)
            #expect(root["other"] == nil)
        }
    }

    @Test(arguments: [
        (#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{C}\n\r\t"),
        (#"\u0041\u00e9\u20AC"#, "Aé€"),
        (#"\ud83d\ude00"#, "😀"),
        (#"a\u0000b"#, "a\u{0}b"),
        (#"é€😀 \u0020"#, "é€😀  "),
        ("\u{7F}\u{2028}", "\u{7F}\u{2028}"),
    ])
    func `escapes become what they mean`(json: String, expected: String) throws {
        #expect(try withRoot(of: "\"\(json)\"") { $0.string } == expected)
    }

    @Test func `a value knows its place in the text, with escapes and without`() throws {
        try withRoot(of: #"["ab", "\n", 7, {"k": "\t\t"}, "\u0041bc"]"#) { root in
            #expect(root.elements.map(\.offset) == [2, 8, 13, 16, 32])
            #expect(root.elements.map(\.hadEscapes) == [false, true, false, false, true])
            #expect(root.elements.compactMap { $0["k"]?.offset } == [23])
        }
    }

    @Test func `a string of a thousand lengths is read to its end`() throws {
        for length in 0...1_000 {
            let plain = String(repeating: "x", count: length)
            let strings = try withRoot(of: "[\"\(plain)\", \"\(plain)\\n\"]") { $0.elements.map(\.string) }
            #expect(strings == [plain, plain + "\n"])
        }
    }

    @Test func `512 levels are parsed and 513 are refused`() throws {
        let nested = { (depth: Int) in String(repeating: "[", count: depth) + String(repeating: "]", count: depth) }
        #expect(refusal(of: nested(512).utf8) == nil)
        let fault = try #require(refusal(of: nested(513).utf8))
        #expect(Place(fault.position) == Place(1, 513, 512))
        #expect(fault.reason.contains("512 levels"))
        #expect(refusal(of: #"{"a":{"b":[1]}}"#.utf8, maximumDepth: 3) == nil)
        #expect(refusal(of: #"{"a":{"b":[1]}}"#.utf8, maximumDepth: 2)?.position.offset == 10)
    }

    @Test(arguments: ["[", "{\"a\":", "[{\"a\":"])
    func `100000 nested containers are refused without a crash`(opening: String) throws {
        let fault = try #require(refusal(of: String(repeating: opening, count: 100_000).utf8))
        #expect(fault.reason.contains("512 levels"))
    }
}

/// Text that RFC 8259 does not allow is refused with the exact position of the fault.
@Suite(.timeLimit(.minutes(5))) struct JSONFaultTests {
    @Test(arguments: [
        ("", Place(1, 1, 0)), ("  \n ", Place(2, 2, 4)),
        ("tru", Place(1, 1, 0)), ("[nul]", Place(1, 2, 1)), ("[truee]", Place(1, 2, 1)), ("True", Place(1, 1, 0)),
        ("[NaN]", Place(1, 2, 1)), ("[Infinity]", Place(1, 2, 1)), ("undefined", Place(1, 1, 0)),
        ("'a'", Place(1, 1, 0)), ("[a]", Place(1, 2, 1)), ("// x\n1", Place(1, 1, 0)), ("[1 /* x */]", Place(1, 4, 3)),
        ("\u{FEFF}1", Place(1, 1, 0)), ("[\u{A0}1]", Place(1, 2, 1)), ("[\u{C}1]", Place(1, 2, 1)),
        ("\u{0}", Place(1, 1, 0)),
    ])
    func `a text that is no value is refused at its beginning`(json: String, place: Place) {
        #expect(refusal(of: json.utf8).map { Place($0.position) } == place)
    }

    @Test(arguments: [
        "-", "01", "-01", "1.", ".5", "+1", "1e", "1e+", "1.e2", "0x10", "1_000", "--1", "1.2.3", "1e2e3", "1a",
        "1\u{0}",
        "-a", "1.5f", "0-", "2-1",
    ])
    func `a number that JSON does not write is refused at its beginning`(number: String) {
        #expect(refusal(of: "[0,\n \(number)]".utf8).map { Place($0.position) } == Place(2, 2, 5))
    }

    @Test(arguments: [
        ("[1 2]", Place(1, 4, 3)), ("[1,]", Place(1, 4, 3)), ("[,1]", Place(1, 2, 1)), ("[1,,2]", Place(1, 4, 3)),
        ("[1", Place(1, 1, 0)), ("[1,", Place(1, 4, 3)), ("[[1]", Place(1, 1, 0)), ("[1}", Place(1, 3, 2)),
        ("]", Place(1, 1, 0)), ("[]]", Place(1, 3, 2)), ("{}{}", Place(1, 3, 2)), ("1 2", Place(1, 3, 2)),
        ("{\"a\" 1}", Place(1, 6, 5)), ("{\"a\":}", Place(1, 6, 5)), ("{\"a\":1,}", Place(1, 8, 7)),
        ("{\"a\":1 \"b\":2}", Place(1, 8, 7)), ("{a:1}", Place(1, 2, 1)), ("{1:2}", Place(1, 2, 1)),
        ("{\"a\":1]", Place(1, 7, 6)), ("{\"a\":\n{\"b\":1", Place(2, 1, 6)), ("{\"a\"}", Place(1, 5, 4)),
        ("{\"a\"", Place(1, 5, 4)), ("{,}", Place(1, 2, 1)), ("[:]", Place(1, 2, 1)), ("{:1}", Place(1, 2, 1)),
        ("\"a\" \"b\"", Place(1, 5, 4)), ("[\"a\"x]", Place(1, 5, 4)),
        ("{\n  \"a\": 1\n  \"b\": 2\n}", Place(3, 3, 13)),
    ])
    func `a wrong bracket, comma or colon is refused at its position`(json: String, place: Place) {
        #expect(refusal(of: json.utf8).map { Place($0.position) } == place)
    }

    @Test(arguments: [
        (#""\x""#, 1), (#""ab\u12""#, 3), (#""\u12G4""#, 1), (#""\'""#, 1), (#""\U0041""#, 1), (#""\""#, 0),
        (#""\ud83d""#, 1), (#""a\ud83dx""#, 2), (#""\ud83d\n""#, 1), (#""\ud83d\ud83d""#, 1), (#""\ude00""#, 1),
        (#""\ud83d\u0041""#, 1), (#""\n\ude00\ud83d""#, 3),
    ])
    func `an escape that is none, or half a surrogate pair, is refused`(json: String, offset: Int) {
        #expect(refusal(of: json.utf8)?.position.offset == offset)
    }

    @Test(arguments: Array(UInt8(0)..<0x20))
    func `a control character in a string must be escaped`(byte: UInt8) {
        let fault = refusal(of: [0x22, 0x61, byte, 0x22])
        #expect(fault?.position.offset == 2)
        #expect(fault?.reason.contains("must be escaped") == true)
        #expect(refusal(of: [0x22, 0x5C, byte, 0x22])?.position.offset == 2)
    }

    @Test(
        arguments: [
            [0x80], [0xC0, 0xAF], [0xC1, 0x81], [0xE0, 0x80, 0xAF], [0xED, 0xA0, 0x80], [0xF0, 0x80, 0x80, 0xAF],
            [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xC3],
        ] as [[UInt8]])
    func `bytes that are no UTF-8 are refused at their position`(bytes: [UInt8]) throws {
        let before = Array("[\n  \"é".utf8)
        let fault = try #require(refusal(of: before + bytes + Array("\"]".utf8)))
        #expect(Place(fault.position) == Place(2, 6, 7))
        #expect(fault.reason.contains("not UTF-8"))
        #expect(refusal(of: Array("[1, ".utf8) + bytes)?.position.offset == 4)
    }

    @Test func `a string without an end is refused where it begins`() {
        #expect(refusal(of: "{\"a\":\n\"bc".utf8).map { Place($0.position) } == Place(2, 1, 6))
        #expect(refusal(of: #"["a", "b\"]"#.utf8)?.position.offset == 6)
    }

    @Test func `every beginning of a text is refused, and the text is not`() {
        let json = Array(#"{"a": [1.5e3, "x\n\ud83d\ude00é", true, null, {"b": {}}], "c": false}"#.utf8)
        for count in json.indices { #expect(refusal(of: json.prefix(count)) != nil, "the first \(count) bytes") }
        #expect(refusal(of: json) == nil)
    }

    @Test func `columns count bytes from 1, lines begin after line feeds`() {
        let position = JSONPosition(offset: 7, in: text("é\n\r\nab".utf8))
        #expect(Place(position) == Place(3, 3, 7))
    }

    @Test func `a fault says what, where and which byte`() {
        #expect(
            refusal(of: "{\"a\": 1,\n \"b\" 2}".utf8)?.description
                == "expected a colon after the key, saw '2', at line 2, column 6 (byte 14)")
    }
}

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

@Suite(.timeLimit(.minutes(5))) struct WholeNumberTests {
    private func whole(_ text: String) throws -> Int64? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
        return withExtendedLifetime(document) { document.root.wholeNumber }
    }

    @Test(arguments: [
        ("5", 5), ("5.0", 5), ("-5.000", -5), ("50e-1", 5), ("0.5e1", 5), ("5E+0", 5), ("0", 0), ("-0.0", 0),
        ("0e99999", 0),
        ("120e2", 12_000), ("9223372036854775807.0", .max), ("-9223372036854775808.0", .min),
        ("0.00000000000000000005e20", 5), ("922337203685477580700e-2", .max),
    ])
    func `a number with a whole value is whole however it is written`(_ text: String, _ value: Int64) throws {
        #expect(try whole(text) == value)
    }

    @Test(arguments: [
        "5.5", "1e-1", "9223372036854775808", "9223372036854775808.0", "-9223372036854775809.0", "1e19",
        "1e999999999999",
        "1e-999999999999", "\"5\"", "[5]", "null",
    ])
    func `any other value is not`(_ text: String) throws { #expect(try whole(text) == nil) }
}

/// The bytes as an immutable text.
func text(_ bytes: some Sequence<UInt8>) -> JSONText { JSONText(copying: Array(bytes)) }

/// Parses a text, by both parsers, and passes its root to `body`: values are indices in a document that must be retained.
@discardableResult
func withRoot<Result>(
    of bytes: some Sequence<UInt8>, _ body: (JSONValue) throws -> Result
) throws -> Result {
    let document = try BothParsers.parse(text(bytes)) { Issue.record("the parsers differ: \($0)") }
    return try withExtendedLifetime(document) { try body(document.root) }
}

func withRoot<Result>(of json: String, _ body: (JSONValue) throws -> Result) throws -> Result {
    try withRoot(of: json.utf8, body)
}

/// Why and where a text is refused; nil when it is not.
func refusal(of bytes: some Sequence<UInt8>, maximumDepth: Int = JSONDocument.defaultMaximumDepth) -> JSONError? {
    do throws(JSONError) {
        _ = try BothParsers.parse(text(bytes), maximumDepth: maximumDepth) {
            Issue.record("the parsers differ: \($0)")
        }
        return nil
    } catch {
        return error
    }
}

/// A place of a fault; the reason is in the fault's own words.
struct Place: Equatable, CustomStringConvertible {
    let line: Int
    let column: Int
    let offset: Int

    init(_ line: Int, _ column: Int, _ offset: Int) {
        self.line = line
        self.column = column
        self.offset = offset
    }

    init(_ position: JSONPosition) { self.init(position.line, position.column, position.offset) }

    var description: String { "line \(line), column \(column), offset \(offset)" }
}
