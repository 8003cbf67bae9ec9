import BrokerCoordinator
import BrokerWire
import TestSupport
import Testing

/// The `id`, the `tag` and the position of the frame at fault, by which a client finds what an error is about.
@Suite(.timeLimit(.minutes(5)), .server) struct ErrorReferenceTests {
    private let running = RunningServer.current

    @Test func `an error bears the id, the tag and the position of its frame`() async throws {
        let client = try running.connect()
        let messages: [(String, String, id: String?, tag: String?)] = [
            (#"{"type": "fetch", "entity": "Nothing", "tag": [1], "id": "a"}"#, "unknownEntity", "a", "[1]"),
            (#"{"tag": 2, "id": "b", "entity": "Department", "json": [1 2]}"#, "malformedJSON", "b", "2"),
            (#"{"entity": "Department", "json": [1 2], "tag": 2, "id": "b"}"#, "malformedJSON", nil, nil),
            (
                #"{"entity": "Department", "json": [], "notify": 7, "tag": {"x": 1}, "id": "c"}"#,
                "unsupportedMessage", "c", #"{"x": 1}"#
            ),
            (#"{"type": "nothing", "id": "d", "tag": "t"}"#, "unsupportedMessage", "d", "t"),
            (#"{"type": 1, "tag": "t", "id": "d"}"#, "unsupportedMessage", "d", "t"),
            (#"{"type": "await", "id": "e", "tag": 5}"#, "unknownJob", "e", "5"),
            (#"{"type": "await", "id": "e", "after": -1, "tag": 5}"#, "unsupportedMessage", "e", "5"),
            (#"{"type": "cancel", "id": "f", "tag": 6}"#, "unknownJob", "f", "6"),
            (
                #"{"type": "admin", "action": "backup", "file": "/", "id": "g", "tag": 7}"#, "unsupportedMessage",
                "g", "7"
            ),
            (#"{"type": "admin", "action": "reload", "id": "h", "tag": 8}"#, "unsupportedMessage", "h", "8"),
            (#"{"type": "hello", "version": 9, "id": "i", "tag": 9}"#, "unsupportedVersion", "i", "9"),
            (#"{"id": 7, "tag": 10, "entity": "Department", "json": []}"#, "unsupportedMessage", nil, "10"),
            (#"{"id": "k", "tag": "\#(String(repeating: "t", count: 2_000))"}"#, "unsupportedMessage", "k", nil),
            (#"{"id": "l", "id": "m", "tag": 1, "tag": 2, "type": "x"}"#, "unsupportedMessage", "m", "2"),
            ("[1]", "malformedJSON", nil, nil),
            (
                #"{"type": "ping", "id": "n", "tag": 3, "x": "\#(String(repeating: "x", count: 65_536))"}"#,
                "unsupportedMessage", "n", "3"
            ),
        ]
        #expect(try client.ask(#"{"type": "ping"}"#)["frame"] == nil)
        for (number, message) in messages.enumerated() {
            let error = try client.ask(message.0)
            #expect(error.type == "error", "\(error.text)")
            if error.code != message.1 { #expect(message.0.contains("admin"), "\(error.text)") }
            #expect(error["id"] == message.id, "\(error.text)")
            #expect(error["tag"] == message.tag, "\(error.text)")
            #expect(error["frame"] == "\(number + 2)")
        }
    }

    @Test func `an error of the framing bears the position of the frame`() throws {
        let client = try running.connect()
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        try client.send(bytes: Array("nonsense".utf8))
        let error = try client.next()
        #expect(error.code == "malformedFrame")
        #expect(error["frame"] == "2")
        let broken = try running.connect()
        try broken.send(bytes: [0, 0, 0, 8] + Array("{\"a\": 1}".utf8))
        #expect(try broken.next()["frame"] == "1")
    }

    @Test(.server({ $0.connections = 1 })) func `an error about the connection bears no frame`() throws {
        let first = try running.connect()
        #expect(try first.ask(#"{"type": "ping"}"#).type == "pong")
        let error = try running.connect().next()
        #expect(error.code == "busy")
        #expect(error["frame"] == nil)
    }

    private static func limits(jobMemory: Int) -> CoordinatorLimits {
        var limits = CoordinatorLimits(workers: 2)
        limits.jobMemory = jobMemory
        limits.memory = jobMemory
        return limits
    }

    @Test(.server(limits: Self.limits(jobMemory: 2 << 20)))
    func `a job that is too large for the memory of one job fails with its id, and the connection goes on`()
        async throws
    {
        let client = try running.connect()
        #expect(try client.ask(#"{"type": "hello"}"#)["limits.jobMemory"] == "\(2 << 20)")
        let long = String(repeating: "x", count: 8 << 20)
        let many = Array(repeating: "1", count: 500_000).joined(separator: ",")
        for (number, json) in [#"{"id": 1, "name": "\#(long)"}"#, "[\(many)]"].enumerated() {
            // The id and the tag are before the large value, or after it.
            for (id, message) in [
                ("a\(number)", #"{"id": "a\#(number)", "tag": [7], "entity": "Department", "json": \#(json)}"#),
                ("b\(number)", #"{"entity": "Department", "json": \#(json), "tag" : [7] , "id": "b\#(number)"}"#),
                (
                    "c\(number)",
                    #"{"type": "job", "tag": [7], "entity": "Department", "json": \#(json), "id": "c\#(number)"}"#
                ),
            ] {
                let failed = try client.ask(message)
                #expect(failed.type == "failed", "\(failed.text)")
                #expect(failed.code == "busy")
                #expect(failed["id"] == id)
                #expect(failed["tag"] == "[7]")
                #expect(failed["sequence"] == nil)
            }
            let error = try client.ask(
                #"{"type": "fetch", "entity": "Department", "x": \#(json), "id": "f", "tag": 1}"#)
            #expect(error.type == "error")
            #expect(error.code == "unsupportedMessage")
            #expect(error["id"] == "f")
            #expect(error["tag"] == "1")
            #expect(error["frame"] == "\(5 + 4 * number)")
        }
        #expect(try client.ask(#"{"id": "z", "entity": "Department", "json": {"id": 1}}"#).type == "completed")
        #expect(try client.ask(#"{"type": "await", "id": "a0"}"#).code == "unknownJob")
    }

    @Test(.server(limits: Self.limits(jobMemory: 1 << 20)))
    func `a frame that is too large for the memory and broken as well is refused as a broken one`() throws {
        let client = try running.connect()
        var frame = try RawClient.frame(
            Array(#"{"id": "a", "json": "\#(String(repeating: "x", count: 8 << 20))"}"#.utf8))
        frame[frame.count - 1] ^= 1
        try client.send(bytes: frame)
        let error = try client.next()
        #expect(error.code == "malformedLZ4")
        #expect(error["frame"] == "1")
        #expect(try client.receive() == nil)
    }

    @Test func `a ping of 64 KiB is answered and a longer one is refused`() throws {
        let client = try running.connect()
        let empty = #"{"type": "ping", "x": ""}"#
        let most = 65_536 - empty.utf8.count
        for (count, type) in [(most, "pong"), (most + 1, "error"), (1 << 20, "error")] {
            let text = String(repeating: "x", count: count)
            let answer = try client.ask(#"{"type": "ping", "x": "\#(text)"}"#)
            #expect(answer.type == type)
            #expect(answer["x"]?.utf8.count == (type == "pong" ? count : nil))
        }
    }
}
