import BrokerCoordinator
import BrokerStore
import BrokerWire
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct MessageTests {
    private let running = RunningServer.current
    private let client: RawClient

    init() throws { client = try running.connect() }

    @Test func `hello is answered by what the server is and holds`() throws {
        let welcome = try running.connect().ask(#"{"type": "hello", "version": 1, "client": "test", "tag": [1]}"#)
        #expect(welcome.type == "welcome")
        #expect(welcome["version"] == "1")
        #expect(welcome["limits.maximumFrameBytes"] == "16777215")
        #expect(welcome["entities"] == #"["Department","Employee"]"#)
        #expect(welcome["tag"] == "[1]")
    }

    @Test func `a later version of the protocol is refused`() throws {
        let answer = try running.connect().ask(#"{"type": "hello", "version": 2}"#)
        #expect(answer.code == "unsupportedVersion")
    }

    @Test func `a completion has the changes, warnings and times of its job`() throws {
        let job =
            #"{"id": "a", "entity": "Employee", "json": [{"id": 1, "name": "Ann", "bunk": 1, "department": {"id": 7}}]}"#
        let completed = try client.ask(job)
        #expect(completed["changes.Employee.inserted"] == "1")
        #expect(completed["changes.Department.inserted"] == "1")
        #expect(completed["duplicate"] == "false")
        #expect(completed["warnings.0.key"] == "bunk")
        #expect(completed["warnings.0.count"] == "1")
        #expect(completed["timing.committed"] != nil)
    }

    @Test func `the shorthands are whole jobs`() throws {
        let collections =
            #"{"collections": {"Department": [{"id": 1}], "Employee": [{"id": 2, "name": "B", "department": 1}]}}"#
        let completed = try client.ask(collections)
        #expect(completed["changes.Department.inserted"] == "1")
        #expect(completed["changes.Employee.inserted"] == "1")
    }

    @Test func `reply none bears only id and sequence`() throws {
        let answer = try running.connect().ask(
            #"{"id": "a", "reply": "none", "entity": "Department", "json": {"id": 1}}"#)
        #expect(answer.text == #"{"type":"completed","id":"a","sequence":1}"#)
    }

    @Test func `reply keys names what was inserted and updated`() throws {
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#)
        let answer = try client.ask(
            #"{"reply": "keys", "entity": "Department", "json": [{"id": 3}, {"id": 2, "name": "c"}, {"id": 1, "name": "a"}]}"#
        )
        #expect(answer["keys.Department"] == #"{"inserted":[3],"updated":[2],"deleted":[]}"#)
    }

    @Test func `accepted comes before completed, with the same sequence`() throws {
        let accepted = try client.ask(
            #"{"notify": ["accepted", "completed"], "tag": "t", "entity": "Department", "json": {"id": 1}}"#)
        let completed = try client.next()
        #expect(accepted.type == "accepted")
        #expect(completed.type == "completed")
        #expect(accepted.sequence == completed.sequence)
        #expect(accepted["id"] == completed["id"])
        #expect(accepted["tag"] == "t")
        #expect(completed["tag"] == "t")
    }

    @Test func `a job that wants no answer gets none, unless it fails`() throws {
        try client.send(#"{"notify": [], "entity": "Department", "json": {"id": 1}}"#)
        try client.send(#"{"id": "bad", "notify": [], "entity": "Department", "json": {"id": "x"}}"#)
        let failed = try client.ask(#"{"id": "last", "entity": "Department", "json": {"id": 2}}"#)
        #expect(failed.type == "failed")
        #expect(failed["id"] == "bad")
        #expect(failed["error.path"] == "/json/id")
        let completed = try client.next()
        #expect(completed["id"] == "last")
        #expect(completed.sequence == 3)
    }

    @Test func `skip rejects the invalid record and lists it by its path`() throws {
        let completed = try running.connect().ask(
            #"{"onInvalid": "skip", "entity": "Employee", "json": [{"id": 1, "name": "A"}, {"id": 2, "name": "B", "age": "old"}]}"#
        )
        #expect(completed["changes.Employee.inserted"] == "1")
        #expect(completed["changes.Employee.rejected"] == "1")
        #expect(completed["rejected.0.path"] == "/json/1/age")
        #expect(completed["rejected.0.code"] == "invalidValue")
    }

    @Test func `trailing commas are forgiven only to lenient jobs`() throws {
        #expect(try client.ask(#"{"entity": "Department", "json": [{"id": 1,},]}"#).code == "malformedJSON")
        let lenient = try client.ask(
            #"{"lenient": true, "entity": "Department", "json": [{"id": 1, "name": ",]",},],}"#)
        #expect(lenient["changes.Department.inserted"] == "1")
    }

    @Test func `the same id with the same content is applied once, with other content refused`() throws {
        let job = #"{"id": "once", "entity": "Department", "json": {"id": 1, "name": "a"}}"#
        let first = try running.connect().ask(job)
        let second = try running.connect().ask(job)
        #expect(second["duplicate"] == "true")
        #expect(second.sequence == first.sequence)
        #expect(second["changes"] == first["changes"])
        #expect(second["timing.queued"] != nil)
        let other = try running.connect().ask(
            #"{"id": "once", "entity": "Department", "json": {"id": 1, "name": "b"}}"#)
        #expect(other.type == "failed")
        #expect(other.code == "idConflict")
    }

    @Test func `a job can be awaited from another connection, by its id`() async throws {
        _ = try running.connect().ask(#"{"id": "j", "entity": "Department", "json": {"id": 1}}"#)
        let other = try running.connect()
        let awaited = try other.ask(#"{"type": "await", "id": "j", "tag": 1}"#)
        #expect(awaited.type == "completed")
        #expect(awaited["changes.Department.inserted"] == "1")
        #expect(awaited["tag"] == "1")
        #expect(try other.ask(#"{"type": "await", "id": "nobody"}"#).code == "unknownJob")
    }

    @Test func `a job can be awaited in the very next message, however long it takes to read`() async throws {
        let records = (0..<20_000).map { #"{"id": \#($0), "name": "department \#($0)"}"# }.joined(separator: ",")
        try client.send(#"{"id": "long", "notify": [], "entity": "Department", "json": [\#(records)]}"#)
        let awaited = try client.ask(#"{"type": "await", "id": "long"}"#)
        #expect(awaited.type == "completed", "\(awaited.text)")
        #expect(awaited["changes.Department.inserted"] == "20000")
    }

    @Test func `stats and model are answered`() throws {
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1, "x": 1}, {"id": 1, "x": 2}]}"#)
        let stats = try client.ask(#"{"type": "stats"}"#)
        #expect(stats["jobs.completed"] == "1")
        #expect(stats["warnings.Department.unknownKey"] == "2", "\(stats.text)")
        #expect(stats["store.maximumOutcomes"] == "1000000", "\(stats.text)")
        #expect(stats["jobs.inFlight"] == "0")
        #expect(stats["objects.inserted"] == "1")
        #expect(stats["memory.residentBytes"].flatMap { Int($0) } ?? 0 > 0)
        #expect(try client.ask(#"{"type": "model"}"#)["model.entities.Employee.identity"] != nil)
    }
}

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

@Suite(.timeLimit(.minutes(5)), .server) struct NumberFieldTests {
    private let running = RunningServer.current
    private let client: RawClient

    init() throws { client = try running.connect() }

    @Test(arguments: ["1", "1.0", "1e0", "10e-1"])
    func `a whole number of a message may be written with a fraction of zero`(_ one: String) throws {
        #expect(try client.ask(#"{"type": "hello", "version": \#(one)}"#).type == "welcome")
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}"#)
        let found = try client.ask(#"{"type": "fetch", "entity": "Department", "limit": \#(one), "offset": \#(one)}"#)
        #expect(found["objects"] == #"[{"id":2,"name":null,"employees":[]}]"# || found["objects.0.id"] == "2")
        #expect(found["objects.1"] == nil)
        #expect(found["more"] == "true")
    }

    @Test(arguments: ["1.5", "-1", "1e30", "\"1\""])
    func `any other number is refused`(_ number: String) throws {
        for field in ["limit", "offset"] {
            let error = try client.ask(#"{"type": "fetch", "entity": "Department", "\#(field)": \#(number)}"#)
            #expect(error.code == "unsupportedMessage")
            #expect(error["error.path"] == "/\(field)")
        }
        let hello = try client.ask(#"{"type": "hello", "version": \#(number)}"#)
        #expect(hello.code == (number.hasPrefix("\"") ? "unsupportedMessage" : "unsupportedVersion"))
    }

    private static let lengths = """
        {"entities": {"Word": {"identity": "text", "attributes": {
          "text": {"type": "string", "minLength": 2.0, "maxLength": 30e-1}}}}}
        """

    @Test(.server(model: lengths)) func `the lengths of a model may be written with a fraction of zero`() throws {
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "abc"}}"#).type == "completed")
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "abcd"}}"#).type == "failed")
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "a"}}"#).type == "failed")
    }

    @Test func `a fetch with the limit 0 leaves nothing out`() throws {
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1}, {"id": 2}]}"#)
        for limit in ["0", "0.0"] {
            let found = try client.ask(#"{"type": "fetch", "entity": "Department", "limit": \#(limit)}"#)
            #expect(found["objects"] == "[]")
            #expect(found["more"] == nil)
        }
        #expect(try client.ask(#"{"type": "fetch", "entity": "Department", "limit": 1}"#)["more"] == "true")
    }
}

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

/// "The same id with the same content": what is content.
@Suite(.timeLimit(.minutes(5)), .server) struct JobContentTests {
    private let running = RunningServer.current

    private static let record = #"{"id": 1, "name": "a"}"#

    @Test(arguments: [
        #"{"id": "j", "entity": "Department", "json": \#(record), "tag": 7}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "reply": "none"}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "reply": "objects"}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "notify": ["accepted", "completed"]}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "onInvalid": "fail"}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "lenient": true}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "unknown": "warn"}"#,
        #"{"id": "j", "entity": "Department", "json": \#(record), "op": "process", "other": [1]}"#,
        #" {"json" :\#(record),"entity": "Dep\u0061rtment","type":"job", "id": "j" }"#,
        #"{"id": "j", "collections": {"Department": \#(record)}}"#,
        #"{"id": "j", "operations": [{"json": \#(record), "entity": "Department", "other": 1}]}"#,
    ])
    func `another envelope or another form is the same content`(_ again: String) throws {
        let client = try running.connect()
        let first = try client.ask(#"{"id": "j", "entity": "Department", "json": \#(Self.record)}"#)
        #expect(first.type == "completed")
        try client.send(again)
        var second = try client.next()
        if second.type == "accepted" { second = try client.next() }
        #expect(second.type == "completed", "\(second.text)")
        if !again.contains("none") { #expect(second["duplicate"] == "true") }
        #expect(second.sequence == first.sequence)
    }

    /// Jobs of which no two do the same.
    private static let different = [
        #""entity": "Employee", "json": {"id": 1, "name": "a"}"#,
        #""entity": "Employee", "json": {"id": 1, "name": "a"}, "onInvalid": "skip""#,
        #""entity": "Employee", "json": {"id": 1, "name": "a"}, "unknown": "fail""#,
        #""entity": "Employee", "json": {"id": 1, "name": "a"}, "unknown": "fail", "onInvalid": "skip""#,
        #""entity": "Employee", "json": [{"id": 1, "name": "a"}]"#,
        #""entity": "Employee", "json": {"id": 1,"name": "a"}"#,
        #""entity": "Department", "json": {"id": 1, "name": "a"}"#,
        #""entity": "Employee", "json": {"id": 1, "name": "a"}, "object": 1"#,
        #""entity": "Employee", "json": {"id": 1, "name": "a"}, "object": "1""#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}]"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "actions": ["insert"]"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "actions": ["update"]"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "where": "id == 1""#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "where": "id == %@", "arguments": [1]"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "where": "id == %@", "arguments": [2]"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "part": {"id": "p"}"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "part": {"id": "q"}"#,
        #""op": "sync", "entity": "Employee", "json": [{"id": 1, "name": "a"}], "part": {"id": "p", "last": true}"#,
        #""op": "relate", "entity": "Employee", "object": 1, "relationship": "department", "json": 1"#,
        #""op": "relate", "entity": "Employee", "object": 2, "relationship": "department", "json": 1"#,
        #""op": "relate", "entity": "Department", "object": 1, "relationship": "employees", "json": 1"#,
        #""op": "relate", "entity": "Employee", "object": 1, "relationship": "department", "json": 2"#,
        #""op": "delete", "entity": "Employee", "objects": [1]"#,
        #""op": "delete", "entity": "Employee", "objects": [2]"#,
        #""op": "delete", "entity": "Employee", "where": "id == 1""#,
        #""op": "delete", "entity": "Employee", "where": "id == 2""#,
        #""op": "delete", "entity": "Employee", "where": "id == %@", "arguments": [1]"#,
        #""op": "map", "json": []"#, #""op": "map", "json": {}"#, #""op": "map", "json": [], "mapping": "m""#,
        #""op": "map", "json": [], "path": "m""#, #""op": "map", "json": [], "path": "n""#,
        #""collections": {"Employee": [], "Department": []}"#, #""collections": {"Department": [], "Employee": []}"#,
        #""operations": [{"op": "delete", "entity": "Employee", "objects": [1]}, {"op": "delete", "entity": "Employee", "objects": [1]}]"#,
    ]

    @Test func `each field that determines the effect is content`() throws {
        let client = try running.connect()
        _ = try client.ask(#"{"entity": "Department", "json": {"id": 1}}"#)
        for (number, body) in Self.different.enumerated() {
            let first = try client.ask(#"{"id": "\#(number)", \#(body)}"#)
            guard first.type == "completed" else {
                #expect(body.contains(#""map""#) || body.contains("object") || body.contains("relate"), "\(first.text)")
                continue
            }
            for (other, body) in Self.different.enumerated() {
                let again = try client.ask(#"{"id": "\#(number)", \#(body)}"#)
                if other == number {
                    #expect(again["duplicate"] == "true", "\(body): \(again.text)")
                } else {
                    #expect(again.type == "failed", "\(number) \(other): \(again.text)")
                    if !body.contains(#""mapping""#) {
                        #expect(again.code == "idConflict", "\(body): \(again.text)")
                    }
                }
            }
        }
    }

    private static let mapped = """
        {"entities": {"Word": {"identity": "text", "attributes": {"text": "string"}}},
         "mappings": {"a": {"entity": "Word"}, "b": {"entity": "Word"}},
         "routes": [{"path": "/a", "mapping": "a"}, {"path": "/b", "mapping": "a"}]}
        """

    @Test(.server(model: mapped)) func `the mapping and the path of a payload are content`() throws {
        let client = try running.connect()
        let fields = [#""mapping": "a""#, #""mapping": "b""#, #""path": "/a""#, #""path": "/b""#]
        for field in fields.indices {
            for other in [field] + fields.indices {
                let answer = try client.ask(
                    #"{"id": "\#(field)", "op": "map", "json": {"text": "x"}, \#(fields[other])}"#)
                #expect(answer.code == (other == field ? "" : "idConflict"), "\(fields[other]): \(answer.text)")
            }
        }
    }
}
