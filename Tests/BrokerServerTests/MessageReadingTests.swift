import Broker
import BrokerCoordinator
import BrokerJSON
import BrokerMessages
import BrokerModel
import BrokerStaging
import BrokerStore
import BrokerWire
import Foundation
import Testing

@testable import BrokerServer

/// The job of a message, as a client's frame is read.
private func job(_ json: String) throws(WireError) -> (job: BrokerCoordinator.Job, reply: JobReply) {
    let content = JSONText(copying: utf8(json))
    let envelope = try ClientEnvelope.decode(parsing: content)
    guard case .job = envelope.message else { throw WireError(.internal, "no job: \(envelope.message)") }
    var reply: JobReply?
    let job = try BrokerCoordinator.Job.read(envelope, content: content) {
        reply = $0
        return { _ in }
    }
    return (job, reply!)
}

private func fetch(_ json: String) throws(WireError) -> (fetch: FetchDescription, document: JSONDocument) {
    let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json)))
    guard case .fetch = envelope.message else { throw WireError(.internal, "no fetch: \(envelope.message)") }
    return (try FetchDescription(envelope.document.root), envelope.document)
}

/// The error that `body` throws; nil when it throws none.
private func refusal(_ body: () throws(WireError) -> Void) -> WireError? {
    do throws(WireError) {
        try body()
        return nil
    } catch {
        return error
    }
}

private func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

@Suite(.timeLimit(.minutes(5))) struct JobReadingTests {
    private func expect(
        _ json: String, at path: String?, _ fact: String, source: SourceLocation = #_sourceLocation
    ) {
        let error = refusal { () throws(WireError) in
            // What is no job is refused before that.
            if json.hasPrefix(#"{"type""#) {
                _ = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json)))
            } else {
                _ = try job(json)
            }
        }
        #expect(error?.code == .unsupportedMessage, sourceLocation: source)
        #expect(error?.path == path, sourceLocation: source)
        #expect(error?.message.contains(fact) == true, "\(error?.message ?? "-")", sourceLocation: source)
    }

    @Test func `a limit of deletions is a number or a percentage of three digits after the point`() throws {
        func limit(_ value: String) throws -> BrokerModel.DeletionLimit? {
            try job(#"{"entity":"A","json":{},"maximumDeletions":\#(value)}"#).job.terms.maximumDeletions
        }
        #expect(try limit("0") == .objects(0))
        #expect(try limit("1e3") == .objects(1_000))
        #expect(try limit(#""0%""#) == .share(thousandthsOfPercent: 0))
        #expect(try limit(#""2.5%""#) == .share(thousandthsOfPercent: 2_500))
        #expect(try limit(#""100.000%""#) == .share(thousandthsOfPercent: 100_000))
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
        func bookmark(_ json: String) throws -> BrokerStore.Bookmark? { try job(text(json)).job.terms.bookmark }
        let (name, value) = (String(repeating: "é", count: 512), String(repeating: "é", count: 4_096))
        #expect(try job(#"{"entity":"A","json":{}}"#).job.terms.bookmark == nil)
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
        let (silent, reply) = try job(#"{"entity":"A","json":[],"notify":[],"reply":"none"}"#)
        #expect(!silent.wantsAcceptance && !silent.wantsProgress && !reply.wantsCompletion && reply.isBrief)
        let both = try job(#"{"entity":"A","json":[],"notify":["completed","accepted"],"reply":"objects"}"#)
        #expect(both.job.wantsAcceptance && both.reply.wantsCompletion && both.job.terms.wantsObjects)
        #expect(!(try job(#"{"entity":"A","json":[],"notify":["accepted"],"reply":"objects"}"#).job.terms.wantsObjects))
    }

    @Test func `collections are one process per key, in order, with pointers that are escaped`() throws {
        let (job, _) = try job(#"{"collections":{"B":[],"A/x~y":[{}],"C":{}}}"#)
        #expect(job.operations.map(\.entity) == ["B", "A/x~y", "C"])
        #expect(job.operations.map(\.entityPointer) == ["/collections/B", "/collections/A~1x~0y", "/collections/C"])
    }

    @Test func `a collection that comes twice keeps its first place and its last value`() throws {
        let job = try job(#"{"collections":{"A":[1],"B":[2],"A":[3]}}"#).job
        withExtendedLifetime(job) {
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
        let map = try job(#"{"op":"map","json":{},"path":"\#(longest)"}"#).job
        guard case .map(nil, let path?) = map.operations[0].action else { throw WireError(.internal, "no map") }
        #expect(path.bytes.count == 8_192)
        for (text, place) in [
            (#"{"op":"map","json":{},"path":"\#(longest)a"}"#, "/path"),
            (#"{"operations":[{"op":"map","json":{},"path":"\#(longest)a"}]}"#, "/operations/0/path"),
            (#"{"op":"sync","entity":"E","json":[],"part":{"id":"\#(longest)"}}"#, "/part/id"),
        ] {
            let error = try #require(throws: WireError.self) { try job(text) }
            #expect(error.code == .unsupportedMessage)
            #expect(error.path == place)
            #expect(error.message.utf8.count < 300)
        }
    }

    @Test(arguments: [
        (Job.DeletionLimit.percent(12.05), BrokerModel.DeletionLimit.share(thousandthsOfPercent: 12_050)),
        (.percent(100), .share(thousandthsOfPercent: 100_000)), (.percent(0.001), .share(thousandthsOfPercent: 1)),
        (.objects(7), .objects(7)),
    ])
    func `a client's job with every option is read as it was meant`(
        _ limit: Broker.Job.DeletionLimit, _ expected: BrokerModel.DeletionLimit
    ) throws {
        var sent = Broker.Job([.process(json: "[1]", as: "A"), .process(json: "{}", as: "B")], id: "a\"b")
        sent.onInvalid = .skip
        sent.unknownKeys = .fail
        sent.reply = .none
        sent.allowsTrailingCommas = true
        sent.isDryRun = true
        sent.maximumDeletions = limit
        sent.bookmark = Broker.Job.Bookmark("n\"", "\u{1}")
        sent.trace = "t"
        let content = try sent.content(id: sent.id, wantsAcceptance: true)
        let (read, reply) = try job(String(decoding: content, as: UTF8.self))
        #expect(read.id == "a\"b")
        #expect(read.terms.policy == .skip && read.terms.refusesUnknownKeys && read.terms.isDryRun)
        #expect(reply.isBrief && reply.wantsCompletion && read.wantsAcceptance && reply.trace == "t")
        #expect(read.terms.maximumDeletions == expected)
        #expect(read.terms.bookmark?.name == "n\"" && read.terms.bookmark?.value == "\u{1}")
        #expect(read.operations.map(\.entity) == ["A", "B"])
        #expect(read.operations.map { String(decoding: $0.json.bytes, as: UTF8.self) } == ["[1]", "{}"])
    }

    /// What is read of an operation.
    private func action(_ operation: Broker.Job.Operation) throws -> String {
        let content = try Broker.Job(operation).content(id: nil, wantsAcceptance: false)
        let read = try job(String(decoding: content, as: UTF8.self)).job
        func text(_ value: JSONValue?) -> String {
            value.map { String(decoding: $0.jsonText, as: UTF8.self) } ?? "-"
        }
        let operation = read.operations[0]
        let conditions = [
            operation.expectation.map { "expect \(text($0.json))" },
            operation.adjustment.map {
                "increment \(text($0.increment)) append \(text($0.append)) \($0.hasRecord)"
            },
            operation.links.map { "links \($0)" },
        ].compactMap { $0.map { " " + $0 } }.joined()
        let action =
            switch operation.action {
            case .process(let object): "process \(text(object))"
            case .relate(let object, let relationship): "relate \(text(object)) \(text(relationship))"
            case .sync(let predicate, let arguments, let actions, let part):
                "sync \(predicate ?? "-") \(text(arguments)) \(actions) \(part.map { "\($0)" } ?? "-")"
            case .map(let mapping, let path): "map \(text(mapping)) \(text(path))"
            case .delete: "delete"
            case .deleteMatching(let predicate, let arguments): "delete \(predicate ?? "-") \(text(arguments))"
            }
        return "\(operation.entity): \(action) \(operation.entityPointer) \(text(operation.json))\(conditions)"
    }

    @Test func `what an operation of a client depends on is read as it was meant`() throws {
        let version = String(repeating: "0", count: 32)
        #expect(
            try action(.process(json: "{}", as: "A").expecting(.absent)) == #"A: process - /entity {} expect "absent""#)
        #expect(
            try action(.delete("A", keys: [1]).expecting(.matching("a == \(1)")))
                == #"A: delete /entity [1] expect {"where":"a == %@","arguments":[1]}"#)
        #expect(
            try action(.set("r", of: "A", key: 1, json: "[2]").changing(links: .remove).expecting(.version(version)))
                == #"A: relate 1 "r" /entity [2] expect {"version":"\#(version)"} links remove"#)
        #expect(
            try action(.increment("A", key: 1, by: ["b": 2, "a": -1]).expecting(.present))
                == #"A: process 1 /entity 1 expect "present" increment {"a":-1,"b":2} append - false"#)
        #expect(
            try action(.append("A", key: 1, with: ["t": ["x"]]))
                == #"A: process 1 /entity 1 increment - append {"t":["x"]} false"#
        )
    }

    @Test func `every operation of a client is read as it was meant`() throws {
        let part = Broker.Job.Operation.SyncPart(id: "p", isLast: true)
        #expect(try action(.update("A", key: 1, json: "{}")) == "A: process 1 /entity {}")
        #expect(try action(.set("r\"s", of: "B", key: "k", json: "null")) == #"B: relate "k" "r\"s" /entity null"#)
        #expect(
            try action(.sync(json: "[]", as: "C", where: "a == \(1)", actions: [.delete, .insert]))
                == "C: sync a == %@ [1] (inserts: true, updates: false, deletes: true) - /entity []")
        #expect(
            try action(.sync(json: "[]", as: "D", part: part))
                == #"D: sync - - (inserts: true, updates: true, deletes: true) (id: "p", isLast: true) /entity []"#)
        #expect(
            try action(.sync(json: "[]", as: "D", actions: [.insert], part: .init(id: "p", isLast: false)))
                == #"D: sync - - (inserts: true, updates: false, deletes: false) (id: "p", isLast: false) /entity []"#)
        #expect(try action(.delete("E", keys: [1, 2])) == "E: delete /entity [1,2]")
        #expect(
            try action(.delete("F", where: "TRUEPREDICATE"))
                == #"F: delete TRUEPREDICATE - /entity {"op":"delete","entity":"F","where":"TRUEPREDICATE"}"#)
        #expect(try action(.processPayload(json: "{}", by: .mapping("m"))) == #": map "m" -  {}"#)
        #expect(try action(.processPayload(json: "[]", by: .path("/x?y"))) == #": map - "/x?y"  []"#)
    }

    @Test func `every example of a job and of a fetch is read`() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../protocol/examples")
        var count = 0
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name.hasSuffix(".json") {
            let json = String(decoding: try Data(contentsOf: folder.appending(path: name)), as: UTF8.self)
            if name.hasPrefix("job-") || name == "job.json" {
                _ = try job(json)
            } else if name.hasPrefix("fetch") {
                _ = try fetch(json)
            } else {
                continue
            }
            count += 1
        }
        #expect(count > 3)
    }
}

@Suite(.timeLimit(.minutes(5))) struct FetchReadingTests {
    @Test func `a fetch of an entity alone asks for an array with remote names`() throws {
        let (fetch, _) = try fetch(#"{"type": "fetch", "entity": "Employee"}"#)
        #expect(fetch.entity == "Employee")
        #expect(fetch.predicate == nil && fetch.object == nil && fetch.arguments == nil)
        #expect(
            fetch.sort == [] && fetch.include == [] && fetch.select == [] && fetch.limit == nil && fetch.offset == 0)
        #expect(fetch.names == .remote && fetch.result == .collection)
        #expect(fetch.after == nil && !fetch.isStreamed)
    }

    @Test(arguments: [
        (#""limit": 1"#, "/entity"), (#""entity": 7"#, "/entity"), (#""entity": "E", "where": 7"#, "/where"),
        (#""entity": "E", "arguments": [1]"#, "/arguments"), (#""entity": "E", "sort": "name""#, "/sort"),
        (#""entity": "E", "sort": ["a", 1]"#, "/sort/1"), (#""entity": "E", "include": [null]"#, "/include/0"),
        (#""entity": "E", "select": ["a", 1]"#, "/select/1"), (#""entity": "E", "limit": -1"#, "/limit"),
        (#""entity": "E", "limit": "1""#, "/limit"),
        (#""entity": "E", "offset": 99999999999999999999"#, "/offset"), (#""entity": "E", "names": "x""#, "/names"),
        (#""entity": "E", "result": []"#, "/result"), (#""entity": "E", "stream": 1"#, "/stream"),
        (#""entity": "E", "stream": "true""#, "/stream"),
    ])
    func `an invalid field is unsupportedMessage with its path`(fields: String, path: String) {
        let error = refusal { () throws(WireError) in
            _ = try fetch(#"{"type": "fetch", \#(fields)}"#)
        }
        #expect(error?.code == .unsupportedMessage)
        #expect(error?.path == path)
    }

    @Test func `a client's fetch is read as it was written`() throws {
        var query = Query("E", where: "a == \(1)")
        query.limit = 3
        query.sortKeys = ["-b"]
        query.resultForm = .dictionary
        query.minimumSequence = 9
        let json = try MessageWriter.message("fetch", tag: utf8("2")) { try query.write(to: &$0) }
        let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: json))
        guard case .fetch(after: 9) = envelope.message else { throw WireError(.internal, "\(envelope.message)") }
        let fetch = try FetchDescription(envelope.document.root)
        #expect(fetch.entity == "E" && fetch.limit == 3 && fetch.predicate == "a == %@" && fetch.sort == ["-b"])
        #expect(fetch.dates == .iso8601 && fetch.result == .dictionary && envelope.tag == utf8("2"))
    }
}

/// Texts that would take minutes if they were compared as Unicode, because normalisation takes time by the square of a
/// run of combining marks.
@Suite(.timeLimit(.minutes(5))) struct HostileTextTests {
    private static let text = "a" + String(repeating: "\u{301}\u{316}", count: 200_000)

    private func refusal(_ json: String) -> WireError? {
        do throws(WireError) {
            _ = try job(json)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        #"{"type": "#, #"{"entity": "E", "json": [], "reply": "#, #"{"entity": "E", "json": [], "onInvalid": "#,
        #"{"entity": "E", "json": [], "op": "#,
    ])
    func `an unknown word is refused at once, and quoted briefly`(start: String) throws {
        let error = try #require(refusal(start + "\"\(Self.text)\"}"))
        #expect(error.code == .unsupportedMessage)
        #expect(error.message.utf8.count < 1_000)
    }

    @Test func `an unknown word of notify is refused at once`() throws {
        let error = try #require(refusal(#"{"entity": "E", "json": [], "notify": [""# + Self.text + "\"]}"))
        #expect(error.path == "/notify/0")
        #expect(error.message.utf8.count < 1_000)
    }

    @Test func `entities with such names are distinguished by their bytes`() throws {
        let other = "a" + String(repeating: "\u{316}\u{301}", count: 200_000)
        let json = "{\"collections\": {\"\(Self.text)\": [1], \"\(other)\": [2], \"\(Self.text)\": [3]}}"
        let job = try job(json).job
        try withExtendedLifetime(job) {
            #expect(job.operations.map { $0.json.elements.map(\.int64) } == [[3], [2]])
            // A text too long for a model's name is not copied.
            #expect(job.operations.allSatisfy { $0.entity.utf8.count < 2_000 && $0.entityPointer == "/collections" })
            _ = try #require(job.operations.first)
        }
    }
}
