import BrokerJSON
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
