import Broker
import BrokerJSON
import BrokerWire
import Testing

@Suite(.timeLimit(.minutes(5))) struct JobMessageTests {
    private func expect(
        _ json: String, at path: String?, _ fact: String, source: SourceLocation = #_sourceLocation
    ) {
        let error = refusal(
            { () throws(WireError) in _ = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json))) },
            at: source)
        #expect(error?.code == .unsupportedMessage, sourceLocation: source)
        #expect(error?.path == path, sourceLocation: source)
        #expect(error?.message.contains(fact) == true, "\(error?.message ?? "-")", sourceLocation: source)
    }

    @Test func `one operation's fields in the job are a whole job`() throws {
        let (job, document) = try job(#"{"entity":"Employee","json":[{"id":1}]}"#)
        try withExtendedLifetime(document) {
            let operation = try #require(job.operations.first)
            #expect(job.operations.count == 1)
            #expect(operation.entity == "Employee")
            #expect(operation.entityPointer == "/entity")
            #expect(Array(operation.json.bytes) == utf8(#"[{"id":1}]"#))
        }
        #expect(job.id == nil)
        #expect(job.onInvalid == .fail)
        #expect(job.reply == .summary)
        #expect(job.notify == .completed)
        #expect(!job.isLenient)
    }

    @Test func `every option is read`() throws {
        let (job, _) = try job(
            """
            {"type":"job","id":"emp-1","onInvalid":"skip","reply":"keys","notify":["accepted","progress"],
             "lenient":true,"operations":[{"op":"process","entity":"A","json":{}},{"entity":"B","json":null}]}
            """)
        #expect(job.id == "emp-1")
        #expect(job.onInvalid == .skip)
        #expect(job.reply == .keys)
        #expect(job.notify == [.accepted, .progress])
        #expect(job.isLenient)
        #expect(job.operations.map(\.entity) == ["A", "B"])
        #expect(job.operations.map(\.entityPointer) == ["/operations/0/entity", "/operations/1/entity"])
    }

    @Test func `a limit of deletions is a number or a percentage of three digits after the point`() throws {
        func limit(_ value: String) throws -> JobMessage.DeletionLimit? {
            try job(#"{"entity":"A","json":{},"maximumDeletions":\#(value)}"#).job.maximumDeletions
        }
        #expect(try limit("0") == .objects(0))
        #expect(try limit("1e3") == .objects(1_000))
        #expect(try limit(#""0%""#) == .percent(thousandths: 0))
        #expect(try limit(#""2.5%""#) == .percent(thousandths: 2_500))
        #expect(try limit(#""100.000%""#) == .percent(thousandths: 100_000))
        for wrong in [
            "-1", "1.5", #""10""#, #""%""#, #""100.001%""#, #""101%""#, #""1.%""#, #"".5%""#, #""1.0000%""#, #""-1%""#,
            "null",
        ] {
            expect(
                #"{"entity":"A","json":{},"maximumDeletions":\#(wrong)}"#, at: "/maximumDeletions", "maximumDeletions")
        }
        expect(#"{"entity":"A","json":{},"dryRun":1}"#, at: "/dryRun", "true or false")
    }

    @Test func `a bookmark has a name and a text or null, within their limits`() throws {
        func text(_ bookmark: String) -> String { #"{"entity":"A","json":{},"bookmark":\#(bookmark)}"# }
        func bookmark(_ json: String) throws -> JobMessage.Bookmark? { try job(text(json)).job.bookmark }
        let (name, value) = (String(repeating: "é", count: 512), String(repeating: "é", count: 4_096))
        #expect(try job(#"{"entity":"A","json":{}}"#).job.bookmark == nil)
        let deletion = try bookmark(#"{"name":"a","value":null}"#)
        #expect(deletion?.name == "a" && deletion?.value == nil)
        let longest = try bookmark(#"{"value":"\#(value)","name":"\#(name)"}"#)
        #expect(longest?.name == name && longest?.value == value)
        expect(text("null"), at: "/bookmark", "`name` and `value`")
        for wrong in [
            "{}", #"{"name":1,"value":null}"#, #"{"name":"","value":""}"#, #"{"name":"\#(name)x","value":""}"#,
        ] {
            expect(text(wrong), at: "/bookmark/name", "name")
        }
        for wrong in [#"{"name":"a"}"#, #"{"name":"a","value":1}"#, #"{"name":"a","value":"\#(value)x"}"#] {
            expect(text(wrong), at: "/bookmark/value", "value")
        }
        expect(#"{"type":"bookmark"}"#, at: "/name", "name")
        expect(#"{"type":"bookmark","name":""}"#, at: "/name", "1 to 1,024 bytes")
    }

    @Test func `fire and forget asks for no answer`() throws {
        #expect(try job(#"{"entity":"A","json":[],"notify":[],"reply":"none"}"#).job.notify == [])
        #expect(
            try job(#"{"entity":"A","json":[],"notify":["completed","accepted"]}"#).job.notify == [
                .accepted, .completed,
            ])
    }

    @Test func `collections are one process per key, in order, with pointers that are escaped`() throws {
        let (job, _) = try job(#"{"collections":{"B":[],"A/x~y":[{}],"C":{}}}"#)
        #expect(job.operations.map(\.entity) == ["B", "A/x~y", "C"])
        #expect(job.operations.map(\.entityPointer) == ["/collections/B", "/collections/A~1x~0y", "/collections/C"])
    }

    @Test func `a collection that comes twice keeps its first place and its last value`() throws {
        let (job, document) = try job(#"{"collections":{"A":[1],"B":[2],"A":[3]}}"#)
        withExtendedLifetime(document) {
            #expect(job.operations.map(\.entity) == ["A", "B"])
            #expect(job.operations.map { String(decoding: $0.json.bytes, as: UTF8.self) } == ["[3]", "[2]"])
        }
    }

    @Test func `ids that begin as the server's own do are refused to a job, and may be asked about`() throws {
        for id in ["broker-", "broker-1a2b-3", "broker-é"] {
            expect(#"{"id":"\#(id)","entity":"A","json":{}}"#, at: "/id", "or omit it")
            let question = JSONText(copying: utf8(#"{"type":"await","id":"\#(id)"}"#))
            let envelope = try ClientEnvelope.decode(parsing: question)
            guard case .await(id, nil) = envelope.message else {
                Issue.record("\(id) cannot be awaited")
                continue
            }
        }
        for id in ["broker", "Broker-1", " broker-1", "brokerage-1"] {
            #expect(try job(#"{"id":"\#(id)","entity":"A","json":{}}"#).0.id == id)
        }
    }

    @Test func `ids have 1 to 128 bytes`() throws {
        let longest = String(repeating: "x", count: 128)
        #expect(try job(#"{"id":"\#(longest)","entity":"A","json":[]}"#).job.id == longest)
        expect(#"{"id":"\#(longest)y","entity":"A","json":[]}"#, at: "/id", "this one has 129")
        expect(#"{"id":"","entity":"A","json":[]}"#, at: "/id", "this one has 0")
        expect(#"{"id":5,"entity":"A","json":[]}"#, at: "/id", "`id` must be a string, not a number")
    }

    @Test func `forms are not mixed`() {
        expect(#"{"operations":[],"json":[]}"#, at: "/json", "both `operations` and `json`")
        expect(#"{"operations":[],"entity":"A"}"#, at: "/entity", "both `operations` and `entity`")
        expect(#"{"operations":[],"collections":{}}"#, at: "/collections", "both `operations` and `collections`")
        expect(#"{"collections":{},"json":[]}"#, at: "/json", "both `collections` and `json`")
    }

    @Test func `a job with nothing to do is refused`() {
        expect("{}", at: nil, "needs `entity` and `json`")
        expect(#"{"operations":[]}"#, at: "/operations", "is empty")
        expect(#"{"collections":{}}"#, at: "/collections", "is empty")
    }

    @Test func `a missing field, or one of the wrong kind, is reported with its position`() {
        expect(#"{"json":[]}"#, at: "/entity", "needs `entity`")
        expect(#"{"entity":"A"}"#, at: "/json", "needs `json`")
        expect(#"{"operations":[{"entity":"A","json":[]},{"json":[]}]}"#, at: "/operations/1/entity", "needs `entity`")
        expect(#"{"operations":[{"entity":"A"}]}"#, at: "/operations/0/json", "needs `json`")
        expect(#"{"operations":[{"entity":7,"json":[]}]}"#, at: "/operations/0/entity", "must be a string")
        expect(#"{"operations":[7]}"#, at: "/operations/0", "must be an object")
        expect(#"{"operations":{}}"#, at: "/operations", "must be an array")
        expect(#"{"collections":[]}"#, at: "/collections", "must be an object")
        expect(#"{"entity":"A","json":[],"lenient":1}"#, at: "/lenient", "must be true or false")
        expect(#"{"entity":"A","json":[],"notify":"completed"}"#, at: "/notify", "must be an array")
        expect(#"{"entity":"A","json":[],"notify":[7]}"#, at: "/notify/0", "must be a string")
    }

    @Test func `each operation says what it needs`() {
        expect(#"{"op":"relate","entity":"A","json":{}}"#, at: "/object", "`relate` needs `object`")
        expect(#"{"op":"relate","entity":"A","object":1,"json":{}}"#, at: "/relationship", "needs `relationship`")
        expect(
            #"{"op":"relate","entity":"A","object":1,"relationship":2,"json":{}}"#, at: "/relationship",
            "must be a string")
        expect(#"{"op":"relate","entity":"A","object":1,"relationship":"b"}"#, at: "/json", "`relate` needs `json`")
        expect(#"{"op":"sync","entity":"A"}"#, at: "/json", "`sync` needs `json`")
        expect(#"{"op":"sync","entity":"A","json":{}}"#, at: "/json", "must be an array of records")
        expect(#"{"op":"sync","entity":"A","json":[],"actions":["erase"]}"#, at: "/actions/0", "no action \"erase\"")
        expect(#"{"op":"sync","entity":"A","json":[],"actions":"delete"}"#, at: "/actions", "must be an array")
        expect(#"{"op":"sync","entity":"A","json":[],"where":1}"#, at: "/where", "must be a string")
        expect(#"{"op":"sync","entity":"A","json":[],"arguments":{}}"#, at: "/arguments", "must be an array")
        expect(#"{"op":"sync","entity":"A","json":[],"part":{}}"#, at: "/part/id", "needs `part/id`")
        expect(#"{"op":"sync","entity":"A","json":[],"part":{"id":""}}"#, at: "/part/id", "1 to 128 bytes")
        expect(#"{"op":"sync","entity":"A","json":[],"part":{"id":"a","last":1}}"#, at: "/part/last", "true or false")
        expect(#"{"op":"sync","entity":"A","json":[],"part":1}"#, at: "/part", "must be an object")
        expect(#"{"op":"delete","entity":"A"}"#, at: "/objects", "needs `objects` (keys) or `where`")
        expect(#"{"op":"delete","entity":"A","objects":1}"#, at: "/objects", "must be an array of keys")
        expect(#"{"op":"delete","entity":"A","objects":[],"where":"a == 1"}"#, at: "/where", "has both")
        expect(#"{"op":"delete","objects":[1]}"#, at: "/entity", "`delete` needs `entity`")
    }

    @Test func `an unknown word is refused with a list of the words`() {
        expect(#"{"entity":"A","json":[],"onInvalid":"ignore"}"#, at: "/onInvalid", "`fail` and `skip`")
        expect(#"{"entity":"A","json":[],"reply":"all"}"#, at: "/reply", "`none`, `summary`, `keys` and `objects`")
        expect(#"{"entity":"A","json":[],"notify":["done"]}"#, at: "/notify/0", "`progress` and `completed`")
        expect(#"{"op":"upsert","entity":"A","json":[]}"#, at: "/op", "no operation \"upsert\"")
    }

    @Test func `a map needs its payload, and one way of reading it`() {
        expect(#"{"op":"map"}"#, at: "/json", "`map` needs `json`")
        expect(#"{"operations":[{"op":"map","json":[],"mapping":1}]}"#, at: "/operations/0/mapping", "a string")
        expect(#"{"op":"map","json":[],"path":[]}"#, at: "/path", "a string")
        expect(#"{"op":"map","json":[],"path":"/x","mapping":"m"}"#, at: "/path", "this one has both")
    }

    @Test func `the path of a map has a limit, and so has the id of a part, before they are decoded`() throws {
        let longest = String(repeating: "/a", count: 4_096)
        guard case .job(let job) = try message(#"{"op":"map","json":{},"path":"\#(longest)"}"#).message,
            case .map(nil, let path?) = job.operations[0].action
        else { throw TestFault("no map") }
        #expect(path.bytes.count == 8_192)
        for (text, place) in [
            (#"{"op":"map","json":{},"path":"\#(longest)a"}"#, "/path"),
            (#"{"operations":[{"op":"map","json":{},"path":"\#(longest)a"}]}"#, "/operations/0/path"),
            (#"{"op":"sync","entity":"E","json":[],"part":{"id":"\#(longest)"}}"#, "/part/id"),
        ] {
            let error = try #require(throws: WireError.self) { try message(text) }
            #expect(error.code == .unsupportedMessage)
            #expect(error.path == place)
            #expect(error.message.utf8.count < 300)
        }
    }
}

/// Messages that one side writes and the other reads.
@Suite(.timeLimit(.minutes(5))) struct MessageWriterTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func raw(_ json: String) throws -> ProvenJSON { try ProvenJSON(proving: utf8(json)) }

    private func server(_ content: [UInt8]) throws -> ServerEnvelope {
        try ServerEnvelope.decode(parsing: JSONText(copying: content))
    }

    @Test func `every other client message is read as it was meant`() throws {
        guard case .hello(version: 1, client: "me") = try message(text(ClientMessageWriter.hello(client: "me"))).message
        else { throw TestFault("no hello") }
        guard case .await(id: "x", after: nil) = try message(text(ClientMessageWriter.await(id: "x"))).message else {
            throw TestFault("no await")
        }
        #expect(
            try text(ClientMessageWriter.ping(members: [("n", raw("1"))], tag: raw("2")))
                == #"{"type":"ping","n":1,"tag":2}"#)
        #expect(try text(ClientMessageWriter.stats(tag: raw("3"))) == #"{"type":"stats","tag":3}"#)
        #expect(text(ClientMessageWriter.model()) == #"{"type":"model"}"#)
    }

    @Test func `a pong bears the fields of its ping`() throws {
        let ping = try message(#"{"n": {"a": 1}, "type":"ping","tag":"t","say \"hi\"":"\n"}"#)
        #expect(
            text(ServerMessageWriter.pong(to: ping.document))
                == #"{"type":"pong","n":{"a": 1},"tag":"t","say \"hi\"":"\n"}"#)
    }

    @Test func `a server that violates the protocol is distinguished from one that follows it`() {
        for (json, path) in [
            (#"{"id":"a"}"#, "/type"), (#"{"type":"completed","sequence":1}"#, "/id"),
            (#"{"type":"completed","id":"a","sequence":"1"}"#, "/sequence"), (#"{"type":"failed"}"#, "/error"),
        ] {
            let error = refusal { () throws(WireError) in
                _ = try ServerEnvelope.decode(parsing: JSONText(copying: utf8(json)))
            }
            #expect(error?.code == .unsupportedMessage)
            #expect(error?.path == path)
        }
    }

    @Test func `a completed is read with its whole outcome`() throws {
        let members = #"""
            "changes":{"Employee":{"inserted":2,"updated":1,"unchanged":7,"deleted":0,"rejected":3}},
            "rejected":[{"code":"invalidValue","message":"m","path":"/json/3/hired_at","entity":"Employee","attribute":"hiredAt"}],
            "warnings":[{"code":"unknownKey","entity":"Employee","key":"bunk","count":10}],
            "timing":{"queued":12,"staged":340,"merged":95,"committed":180},"keys":{"Employee":{"inserted":[1,2]}},"new":1
            """#
        let content = ServerMessageWriter.completed(
            id: "emp-1", sequence: 42, duplicate: true, members: utf8(members), tag: utf8("9"))
        let envelope = try server(content)
        guard case .completed(let completed) = envelope.message else { throw TestFault("no completed") }
        #expect(envelope.tag == utf8("9"))
        #expect(completed.id == "emp-1")
        #expect(completed.sequence == 42)
        #expect(completed.isDuplicate)
        #expect(completed.changes == ["Employee": .init(inserted: 2, updated: 1, unchanged: 7, rejected: 3)])
        #expect(completed.rejections.map(\.description) == ["invalidValue at /json/3/hired_at: m"])
        #expect(completed.rejections.first?.attribute == "hiredAt")
        #expect(completed.warnings.first?.key == "bunk")
        #expect(completed.warnings.first?.count == 10)
        #expect(completed.timing?.merged == .microseconds(95))
        #expect(completed.keys?.bytes == utf8(#"{"Employee":{"inserted":[1,2]}}"#))
    }

    @Test func `with reply none a completed is id and sequence alone`() throws {
        let content = ServerMessageWriter.completed(
            id: "a", sequence: 1, duplicate: true, members: [UInt8](), tag: utf8("9"))
        #expect(text(content) == #"{"type":"completed","id":"a","sequence":1,"tag":9}"#)
        guard case .completed(let completed) = try server(content).message else { throw TestFault("no completed") }
        #expect(completed == Completion(id: "a", sequence: 1))
    }

    @Test func `the other answers are read as they were meant`() throws {
        guard
            case .accepted(id: "a", sequence: 7) = try server(
                ServerMessageWriter.accepted(id: "a", sequence: 7, tag: nil)
            ).message
        else { throw TestFault("no accepted") }
        let failed = ServerMessageWriter.failed(
            id: nil, sequence: nil, error: utf8(#"{"code":"busy","message":"later","retryAfterMilliseconds":50}"#),
            tag: nil)
        #expect(text(failed).hasPrefix(#"{"type":"failed","error":{"#))
        guard case .failed(let failure) = try server(failed).message else { throw TestFault("no failed") }
        #expect(failure.id == nil && failure.sequence == nil && failure.retryAfter == .milliseconds(50))
        let welcome = ServerMessageWriter.welcome(
            server: "broker", keepsJournal: true, durability: "disk", replica: "r1",
            limits: utf8(#""maximumDepth":4,"new":1"#), role: "read", entities: ["A", "B"],
            tag: nil)
        guard case .welcome(let greeting) = try server(welcome).message else { throw TestFault("no welcome") }
        #expect(greeting.protocolVersion == 1 && greeting.name == "broker" && greeting.entities == ["A", "B"])
        #expect(greeting.hasJournal == true && greeting.durability == "disk" && greeting.replica == "r1")
        #expect(greeting.role == "read" && greeting.features == ["dryRun", "maximumDeletions", "bookmark"])
        #expect(greeting.limits.maximumDepth == 4 && greeting.limits.jobMemory == nil)
        #expect(text(ServerMessageWriter.stats(members: utf8(#""jobs":1"#), tag: nil)) == #"{"type":"stats","jobs":1}"#)
        guard case .model(let json) = try server(ServerMessageWriter.model(utf8(#"{"entities":{}}"#), tag: nil)).message
        else { throw TestFault("no model") }
        #expect(json == utf8(#"{"entities":{}}"#))
        guard case .other("moved") = try server(utf8(#"{"type":"moved"}"#)).message else {
            throw TestFault("an unknown type was read as something else")
        }
    }

    @Test func `an error has code, position, id and tag`() throws {
        var error = WireError(
            .malformedJSON, "m", path: "/a", position: JSONPosition(offset: 3, in: JSONText(copying: utf8("\n\n\n\n"))))
        error.id = "a"
        error.tag = utf8("null")
        #expect(
            text(error.encoded())
                == #"{"type":"error","error":{"code":"malformedJSON","message":"m","path":"/a","line":4,"column":1,"#
                + #""offset":3},"id":"a","tag":null}"#)
        guard case .error(let read) = try server(error.encoded()).message else { throw TestFault("no error") }
        #expect(read.id == "a" && read.fault.code == .malformedJSON && read.fault.line == 4)
    }
}
