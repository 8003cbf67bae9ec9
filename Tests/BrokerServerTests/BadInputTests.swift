import BrokerWire
import TestSupport
import Testing

/// Each bad input gets its own clear error, and the server serves the next client.
@Suite(.timeLimit(.minutes(5)), .server({ $0.frameLimits = FrameLimits(maximumContentCount: 1 << 20) }))
struct BadInputTests {
    private let running = RunningServer.current

    /// Sends bytes that end the connection, expects one error, the end, and that the next client is served.
    private func expectRefusal(
        _ bytes: [UInt8], _ code: String, mentioning words: String..., endSending: Bool = false
    ) throws {
        let client = try running.connect()
        try client.send(bytes: bytes)
        if endSending { client.endSending() }
        let error = try client.next()
        #expect(error.type == "error")
        #expect(error.code == code)
        for word in words { #expect(error["error.message"]?.contains(word) == true, "\(error.text)") }
        #expect(try client.receive() == nil)
        #expect(try running.connect().ask(#"{"type": "ping", "n": 1}"#)["n"] == "1")
    }

    @Test func `a bare JSON text is refused with the remedy`() throws {
        try expectRefusal(
            Array(#"{"entity": "Employee", "json": []}"#.utf8), "malformedFrame", mentioning: "JSON", "length")
    }

    @Test func `a bare LZ4 frame is refused with the remedy`() throws {
        let frame = try RawClient.frame(Array(#"{"type": "ping"}"#.utf8))
        try expectRefusal(Array(frame.dropFirst(4)), "malformedFrame", mentioning: "LZ4", "length")
    }

    @Test func `a length of 4 GiB is refused before anything is read`() throws {
        try expectRefusal([0xFF, 0xFF, 0xFF, 0xFF], "frameTooLarge")
    }

    @Test func `a truncated frame is refused when the client ends`() throws {
        let frame = try RawClient.frame(Array(#"{"type": "ping"}"#.utf8))
        try expectRefusal(Array(frame.dropLast(5)), "malformedFrame", mentioning: "5", endSending: true)
    }

    @Test func `bytes that are no LZ4 frame are refused`() throws {
        try expectRefusal([0, 0, 0, 8] + Array("{\"a\": 1}".utf8), "malformedLZ4")
    }

    @Test func `a bomb of zeros is refused at the cap`() throws {
        let bomb = try RawClient.frame([UInt8](repeating: 0, count: 8 << 20))
        #expect(bomb.count < 64 << 10)
        try expectRefusal(bomb, "contentTooLarge")
    }

    /// Sends a message that is answered by an error, after which the connection goes on.
    private func expectError(_ json: String, _ code: String, _ check: (Message) -> Void = { _ in }) throws {
        let client = try running.connect()
        let error = try client.ask(json)
        #expect(error.type == "error")
        #expect(error.code == code)
        check(error)
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `100,000 nested arrays are malformed JSON and the connection goes on`() throws {
        let nested = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
        try expectError(#"{"entity": "Employee", "json": \#(nested)}"#, "malformedJSON") { error in
            #expect(error["error.message"]?.contains("512") == true)
        }
    }

    @Test func `malformed JSON is reported with line, column and offset`() throws {
        try expectError("{\"entity\": \"Employee\",\n \"json\": [1 2]}", "malformedJSON") { error in
            #expect(error["error.line"] == "2")
            #expect(error["error.column"] == "13")
            #expect(error["error.offset"] == "35")
        }
    }

    @Test func `content that is no object is malformed JSON`() throws {
        try expectError("[1, 2]", "malformedJSON")
    }

    @Test func `a message of an unknown type is refused with a list of the types`() throws {
        try expectError(#"{"type": "frobnicate", "tag": 7}"#, "unsupportedMessage") { error in
            #expect(error["tag"] == "7")
            #expect(error["error.message"]?.contains("frobnicate") == true)
        }
    }

    @Test(arguments: [
        #"{"type": "unsubscribe"}"#
    ])
    func `features of later versions are refused, not ignored`(json: String) throws {
        try expectError(json, "unsupportedMessage")
    }

    @Test func `an unknown entity fails its job alone`() throws {
        let client = try running.connect()
        let failed = try client.ask(#"{"id": "a", "entity": "Employe", "json": {"id": 1}}"#)
        #expect(failed.type == "failed")
        #expect(failed.code == "unknownEntity")
        #expect(failed["id"] == "a")
        #expect(failed.sequence == 1)
        #expect(failed["error.message"]?.contains(#""Employe"; did you mean "Employee"? It has: "#) == true)
        let completed = try client.ask(#"{"entity": "Employee", "json": {"id": 1, "name": "Ann"}}"#)
        #expect(completed.type == "completed")
        #expect(completed.sequence == 2)
    }

    @Test func `frames before a framing error are answered before the connection ends`() throws {
        let client = try running.connect()
        let job = try RawClient.frame(Array(#"{"id": "a", "entity": "Department", "json": {"id": 1}}"#.utf8))
        try client.send(bytes: job + Array("nonsense".utf8))
        let types = Set([try client.next().type, try client.next().type])
        #expect(types == ["completed", "error"])
        #expect(try client.receive() == nil)
    }
}
