import Testing

@testable import BrokerConsole

/// Pages as texts: values without a server.
@Suite(.timeLimit(.minutes(5))) struct HTMLTests {
    @Test func `any text is shown, and never read as markup`() {
        let hostile: [(String, String)] = [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            (#"" onclick='x'"#, "&quot; onclick=&#39;x&#39;"), ("a&b", "a&amp;b"), ("a\u{0}b", "a\\u{0}b"),
            ("\u{202E}gpj.exe", "\\u{202E}gpj.exe"), ("\u{2066}x\u{2069}\u{200B}", "\\u{2066}x\\u{2069}\\u{200B}"),
            ("\u{1B}[2J\r\t", "\\u{1B}[2J\\u{D}\\u{9}"), ("שלום 日本 😀", "שלום 日本 😀"),
        ]
        for (text, wanted) in hostile {
            #expect(escaped(text) == wanted)
            let html: HTML = "<a title=\"\(text)\">\(text)</a>"
            #expect(html.text == "<a title=\"\(wanted)\">\(wanted)</a>")
        }
        #expect(String(repeating: "ä", count: 1 << 20).cut(to: 120) == String(repeating: "ä", count: 120) + "…")
        #expect("short".cut(to: 5) == "short" && "e\u{301}".cut(to: 1) == "e…")
    }
}
