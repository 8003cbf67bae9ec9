import BrokerJSON
import Testing

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
