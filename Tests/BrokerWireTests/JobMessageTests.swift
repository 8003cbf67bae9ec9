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
        #expect(try bookmark(#"{"name":"a","value":null}"#) == .init(name: "a", value: nil))
        #expect(try bookmark(#"{"value":"\#(value)","name":"\#(name)"}"#) == .init(name: name, value: value))
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
