import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct LogEscapingTests {
    private let running = RunningServer.current

    private static let forged = #"x\" user=0\n2026-01-01T00:00:00+0000 critical brokerd: \u001b[2J\u2028\u202e\u009b"#

    @Test func `texts of clients cannot forge a line or a field of the log`() async throws {
        let lines = try await offThePool {
            let client = try running.connect()
            try client.send(#"{"type": "hello", "client": "\#(Self.forged)"}"#)
            _ = try client.next()
            try client.send(#"{"id": "\#(Self.forged)", "entity": "Employee", "json": [{"id": 1}]}"#)
            _ = try client.next()
            try client.send(#"{"type": "\#(Self.forged)"}"#)
            _ = try client.next()
            return running.log.lines
        }
        let id = #"id="x\" user=0\u{A}2026-01-01T00:00:00+0000 critical brokerd: \u{1B}[2J\u{2028}\u{202E}\u{9B}""#
        #expect(lines.contains { $0.hasPrefix("notice A job failed. ") && $0.contains(id) }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("info A message was not understood: ") && $0.contains(#"\u{A}"#) })
        #expect(lines.contains { $0.hasPrefix("debug A client said hello. ") && $0.contains(#"\u{A}"#) })
        for line in lines {
            #expect(!line.unicodeScalars.contains { "\n\u{1B}\u{2028}\u{202E}\u{9B}".unicodeScalars.contains($0) })
        }
    }
}
