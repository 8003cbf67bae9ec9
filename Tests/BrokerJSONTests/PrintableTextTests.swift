import BrokerJSON
import Testing

@Suite(.timeLimit(.minutes(5))) struct PrintableTextTests {
    @Test(arguments: [
        ("plain, \"quoted\" \\ text", "plain, \"quoted\" \\ text"),
        ("Grüße 日本 👍🏽", "Grüße 日本 👍🏽"),
        ("a\nb\r\tc", #"a\u{A}b\u{D}\u{9}c"#),
        ("\u{1B}[2Jx\u{7F}\u{9B}", #"\u{1B}[2Jx\u{7F}\u{9B}"#),
        ("a\u{2028}b\u{2029}c", #"a\u{2028}b\u{2029}c"#),
        ("\u{202E}gnp\u{2066}\u{200B}\u{FEFF}", #"\u{202E}gnp\u{2066}\u{200B}\u{FEFF}"#),
        ("a\r\nb", #"a\u{D}\u{A}b"#), ("\0", #"\u{0}"#), ("", ""),
    ])
    func `characters that a terminal interprets are replaced and all others stay`(_ text: String, _ printable: String) {
        #expect(text.printable == printable)
    }

    @Test(arguments: [
        ("job-1", "job-1"), ("/var/lib/a.sqlite", "/var/lib/a.sqlite"), ("", "\"\""), ("two words", "\"two words\""),
        ("a=b", "\"a=b\""), (#"say "x" \n"#, #""say \"x\" \\n""#), ("x\ny", #""x\u{A}y""#), ("ü", "\"ü\""),
    ])
    func `a token of a log line is quoted unless it is plain`(_ text: String, _ token: String) {
        #expect(text.quotedForLog == token)
    }

    @Test func `no scalar passes that starts a line or an escape sequence`() {
        var wrong: [String] = []
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(Character(scalar))
            let isDangerous =
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: true
                default: false
                }
            if (text.printable != text) != isDangerous { wrong.append("U+\(String(value, radix: 16))") }
        }
        #expect(wrong == [])
    }
}
