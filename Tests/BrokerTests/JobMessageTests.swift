import BrokerJSON
import BrokerWire
import Foundation
import Testing

@testable import Broker

@Suite(.timeLimit(.minutes(5))) struct JobMessageTests {
    private func content(_ job: Job) throws -> String {
        String(decoding: try job.content(id: job.id, wantsAcceptance: false), as: UTF8.self)
    }

    private func query(_ query: Query) throws -> [UInt8] {
        var writer = JSONWriter()
        try query.write(to: &writer)
        return writer.bytes
    }

    @Test func `a job of one operation is the shorthand`() throws {
        #expect(
            try content(Job(.process(json: "[{}]", as: "Employee"), id: "a"))
                == #"{"id":"a","entity":"Employee","json":[{}]}"#)
    }

    @Test func `a percentage is written with the digits that it needs, and a bookmark with its value or null`() throws {
        for (limit, text) in [
            (Job.DeletionLimit.percent(12.05), #""12.050%""#), (.percent(100), #""100%""#),
            (.percent(0.001), #""0.001%""#),
            (.objects(7), "7"),
        ] {
            var job = Job(.process(json: "{}", as: "A"))
            job.maximumDeletions = limit
            #expect(try content(job) == #"{"maximumDeletions":\#(text),"entity":"A","json":{}}"#)
        }
        var job = Job(.process(json: "{}", as: "A"))
        job.bookmark = Job.Bookmark("n\"", "\u{1}")
        #expect(try content(job) == #"{"bookmark":{"name":"n\"","value":"\u0001"},"entity":"A","json":{}}"#)
        job.bookmark = Job.Bookmark("n", nil)
        #expect(try content(job).contains(#""bookmark":{"name":"n","value":null}"#))
    }

    @Test(arguments: [-1, .nan, .infinity, 1e30])
    func `a percentage that is none is left to the server, which refuses it`(percent: Double) throws {
        var job = Job(.delete("E", where: .all))
        job.maximumDeletions = .percent(percent)
        #expect(try content(job).contains(#""maximumDeletions":"\#(percent)%""#))
    }

    @Test func `every operation has the members of its kind`() throws {
        let part = Job.Operation.SyncPart(id: "p", isLast: true)
        let operations: [(Job.Operation, String)] = [
            (try .update("A", key: 1, json: "{}"), #""entity":"A","object":1,"json":{}"#),
            (
                try .set("r\"s", of: "B", key: "k", to: nil),
                #""op":"relate","entity":"B","object":"k","relationship":"r\"s","json":null"#
            ),
            (
                .sync(json: "[]", as: "C", where: "a == \(1)", actions: [.delete, .insert]),
                #""op":"sync","entity":"C","where":"a == %@","arguments":[1],"actions":["insert","delete"],"json":[]"#
            ),
            (
                .sync(json: "[]", as: "D", part: part),
                #""op":"sync","entity":"D","part":{"id":"p","last":true},"json":[]"#
            ),
            (try .delete("E", keys: [1, 2]), #""op":"delete","entity":"E","objects":[1,2]"#),
            (.delete("F", where: "TRUEPREDICATE"), #""op":"delete","entity":"F","where":"TRUEPREDICATE""#),
            (.processPayload(json: "{}", by: .mapping("m")), #""op":"map","mapping":"m","json":{}"#),
            (.processPayload(json: "[]", by: .path("/x?y")), #""op":"map","path":"/x?y","json":[]"#),
            (.processPayload(json: "[1]"), #""op":"map","json":[1]"#),
        ]
        for (operation, members) in operations {
            #expect(try content(Job(operation)) == "{\(members)}")
        }
        let all = operations.map { "{\($0.1)}" }.joined(separator: ",")
        #expect(try content(Job(operations.map(\.0))) == "{\"operations\":[\(all)]}")
    }

    @Test func `a job's message has its options and its trace`() throws {
        var job = Job(
            .process(json: "{}", as: "E"), id: "a", onInvalid: .skip, unknownKeys: .fail, reply: .keys,
            allowsTrailingCommas: true)
        job.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        #expect(
            try content(job) == #"{"id":"a","onInvalid":"skip","unknown":"fail","reply":"keys","lenient":true,"#
                + #""trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","entity":"E","json":{}}"#)
    }

    private struct Record: Codable {
        var id = 1
    }

    @Test func `unknown keys fail where records were encoded from values, unless the job says otherwise`() throws {
        let values = [
            Job(try .process(Record(), as: "E")), Job(try .update("E", key: 1, with: [Record()])),
            Job(try .sync([Record()], as: "E")), Job(try .processPayload(["e": [Record()]])),
            Job(try .set("r", of: "E", key: 1, to: Record())),
            Job([.process(json: "{}", as: "E"), try .process(Record(), as: "E")]),
            Job(.process(json: try RawJSON(encoding: Record()), as: "E")),
        ]
        for job in values {
            #expect(try content(job).contains(#""unknown":"fail""#), "\(job)")
            var other = job
            other.unknownKeys = .warn
            #expect(try !content(other).contains("unknown"))
        }
        #expect(try !content(Job(.process(Record(), as: "E"), unknownKeys: .warn)).contains("unknown"))
        // JSON text as it came, bare keys, and values without keys.
        let bytes = try JSONEncoder().encode(Record())
        var changed = try RawJSON(encoding: Record())
        changed.bytes = Array(bytes)
        let texts = [
            Job(.process(json: #"{"id":1}"#, as: "E")), Job(.process(json: bytes, as: "E")),
            Job(.process(json: Array(bytes), as: "E")), Job(.process(json: changed, as: "E")),
            Job(try .set("r", of: "E", key: Record(), to: [1, 2])), Job(.sync(json: "[]", as: "E")),
            Job(try .delete("E", keys: [Record()])), Job(try .process([Record](), as: "E")),
            Job(.processPayload(json: "{}")),
        ]
        for job in texts { #expect(try !content(job).contains("unknown"), "\(job)") }
        #expect(try content(Job(.process(json: "{}", as: "E"), unknownKeys: .fail)).contains(#""unknown":"fail""#))
    }

    @Test func `a predicate with a value that cannot be encoded is an error when it is sent`() {
        let predicate: BrokerPredicate = "a == \(Double.nan)"
        let error = #expect(throws: BrokerError.self) { try content(Job(.delete("E", where: predicate))) }
        #expect(error?.code == .notEncodable)
        #expect(throws: BrokerError.self) { try query(Query("E", where: predicate)) }
    }

    @Test func `what an encoder wrote is known to be one value, and changed bytes are not`() throws {
        var json = try RawJSON(encoding: [1])
        #expect(json.knownDepth != nil)
        json.bytes.append(UInt8(ascii: ","))
        #expect(json.knownDepth == nil)
        let error = #expect(throws: BrokerError.self) { try content(Job(.process(json: json, as: "E"))) }
        #expect(error?.code == .invalidJSON)
    }

    @Test func `a text that its reader has checked is not parsed again, unless it may be nested too deeply`() throws {
        // Broken, so that a parser would refuse it.
        let broken = Array("[1,]".utf8)
        let job = Job(.process(json: RawJSON(checked: broken, depth: 510), as: "E"))
        #expect(try content(job) == #"{"entity":"E","json":[1,]}"#)
        for job in [
            Job(.process(json: RawJSON(checked: broken, depth: 511), as: "E")),
            Job([.process(json: RawJSON(checked: broken, depth: 510), as: "E"), .process(json: "[]", as: "E")]),
        ] {
            let error = #expect(throws: BrokerError.self) { try content(job) }
            #expect(error?.code == .invalidJSON)
        }
    }

    @Test func `a decimal that is no number is not sent`() throws {
        let error = #expect(throws: BrokerError.self) { try content(Job(.process([Decimal.nan], as: "E"))) }
        #expect(error?.code == .invalidJSON || error?.code == .notEncodable)
    }
}

@Suite(.timeLimit(.minutes(5))) struct PredicateTests {
    @Test func `interpolated values are bound, and never become a part of the text`() {
        let name = #"x" OR TRUEPREDICATE OR name == "%@"#
        let none: Int? = nil
        let predicate: BrokerPredicate =
            "name == \(name) AND \(key: "depart.ment") IN \([1, 2]) AND boss == \(none) AND at < \(Date(timeIntervalSince1970: 1.5))"
        #expect(predicate.format == "name == %@ AND %K IN %@ AND boss == %@ AND at < %@")
        #expect(
            predicate.arguments.map(\.description)
                == [#""x\" OR TRUEPREDICATE OR name == \"%@""#, #""depart.ment""#, "[1,2]", "null", "1.5"])
    }

    @Test func `a literal has no arguments`() {
        let predicate: BrokerPredicate = "age > 40"
        #expect(predicate == BrokerPredicate("age > 40", arguments: []))
    }

    @Test func `a format that is known at run time has its values in order`() throws {
        let predicate = try BrokerPredicate("a == %@ AND b == %@", "12", 12)
        #expect(predicate.arguments.map(\.description) == [#""12""#, "12"])
        let error = #expect(throws: BrokerError.self) { try BrokerPredicate("a == %@", Double.infinity) }
        #expect(error?.code == .notEncodable)
    }

    @Test func `a text is a value as an argument, as a key and as what is compared`() throws {
        // RawJSON is not expressible by a literal, so that no text is taken for JSON unseen.
        #expect(!((RawJSON.self as Any.Type) is any ExpressibleByStringLiteral.Type))
        let predicate = try BrokerPredicate("name == %@", values: ["7"])
        #expect(predicate.arguments.map(\.description) == [#""7""#])
        #expect(try RawJSON(value: "Ada").description == #""Ada""#)
    }
}

/// The typed answers have every member of the messages in `protocol/examples`, and these have every member of the schemas.
@Suite(.timeLimit(.minutes(5))) struct TypedAnswerTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().appending(path: "../../protocol").standardizedFileURL

    private static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appending(path: name)))
    }

    private static func members(_ name: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(try bytes(name))) as? [String: Any])
    }

    /// The value with one of its texts, numbers and booleans changed, for each of them.
    private func variants(of value: Any) -> [(path: String, value: Any)] {
        switch value {
        case let object as [String: Any]:
            object.flatMap { key, member in
                variants(of: member).map { ("/\(key)\($0.path)", object.merging([key: $0.value]) { $1 }) }
            }
        case let array as [Any]:
            array.indices.flatMap { index in
                variants(of: array[index]).map { variant in
                    ("/\(index)\(variant.path)", array.indices.map { $0 == index ? variant.value : array[$0] })
                }
            }
        case let text as String: [("", text + "x")]
        case let number as NSNumber where String(cString: number.objCType) == "c": [("", !number.boolValue)]
        case let number as NSNumber: [("", number.intValue + 1)]
        default: []
        }
    }

    /// The paths of members of a message that what was read from it does not have.
    private func missing<Value>(of message: Any, _ read: ([UInt8]) throws -> Value) throws -> [String] {
        /// Without the text that it was read from.
        func members(_ message: Any) throws -> [String] {
            let value = try read(Array(try JSONSerialization.data(withJSONObject: message)))
            return Mirror(reflecting: value).children.filter { $0.label != "text" }.map { String(reflecting: $0.value) }
        }
        let whole = try members(message)
        let variants = variants(of: message)
        #expect(variants.count > 50)
        return try variants.filter { try members($0.value) == whole }.map(\.path).sorted()
    }

    @Test func `statistics have every member of the message`() throws {
        var message = try Self.members("examples/stats.json")
        message["type"] = nil
        let statistics = try Statistics(json: try Self.bytes("examples/stats.json"))
        #expect(try missing(of: message, Statistics.init(json:)) == [])
        #expect(statistics.store.state == .waiting && statistics.journal?.applied == 1_195)
        #expect(statistics.json.bytes == (try Self.bytes("examples/stats.json")))
    }

    @Test func `a model's description has every member of the message`() throws {
        let message = try #require(try Self.members("examples/model.json")["model"])
        let json = try JSONSerialization.data(withJSONObject: message)
        let model = try ModelDescription(json: Array(json))
        #expect(try missing(of: message, ModelDescription.init(json:)) == [])
        #expect(model.mappings["any"]?.select?.otherwise?.wrappedValue == nil)
        #expect(model.mappings["any"]?.select?.otherwise != nil)
        #expect(model.mappings["byNumber"]?.relationships?["staff"]?.relationship == "members")
    }

    @Test func `what a newer server adds is ignored`() throws {
        var message = try Self.members("examples/stats.json")
        message["queues"] = ["opening": 1, "staging": 2, "bytes": 3, "sleeping": ["a"]] as [String: Any]
        message["sharding"] = [1, 2]
        let statistics = try Statistics(json: Array(try JSONSerialization.data(withJSONObject: message)))
        #expect(statistics.queues.bytes == 3)
        let model = try ModelDescription(
            json: Array(
                #"{"entities":{"E":{"table":"E","engine":"x","attributes":{"a":{"type":"geo","srid":1}}}},"v":2}"#.utf8)
        )
        #expect(model.entities["E"]?.attributes["a"]?.type == "geo")
    }

    @Test func `the welcome's limits are all there`() throws {
        let envelope = try ServerEnvelope.decode(parsing: JSONText(copying: try Self.bytes("examples/welcome.json")))
        guard case .welcome(let server) = envelope.message else { throw CocoaError(.coderInvalidValue) }
        let limits = try #require(try Self.members("examples/welcome.json")["limits"] as? [String: Int])
        let typed = [
            "maximumFrameBytes": server.limits.maximumFrameBytes,
            "maximumContentBytes": server.limits.maximumContentBytes, "maximumDepth": server.limits.maximumDepth,
            "maximumIdBytes": server.limits.maximumIDBytes, "maximumTagBytes": server.limits.maximumTagBytes,
            "jobMemory": server.limits.jobMemory, "jobsInFlight": server.limits.jobsInFlight,
            "outcomesKept": server.limits.outcomesKept,
            "outcomesKeptSeconds": server.limits.outcomesKeptFor.map { Int($0.components.seconds) },
            "outcomesForgottenThrough": server.limits.outcomesForgottenThrough.map { Int($0) },
        ]
        #expect(typed.compactMapValues(\.self) == limits)
        #expect(server.hasJournal == false && server.entities == ["Department", "Employee"])
    }

    // MARK: - Completeness of the examples

    /// The names of all members in a value, at any depth.
    private func names(_ value: Any) -> Set<String> {
        switch value {
        case let object as [String: Any]: object.reduce(into: Set(object.keys)) { $0.formUnion(names($1.value)) }
        case let array as [Any]: array.reduce(into: []) { $0.formUnion(names($1)) }
        default: []
        }
    }

    /// The names of all properties that a schema defines, at any depth, but for those of references.
    private func properties(_ schema: Any) -> Set<String> {
        switch schema {
        case let object as [String: Any]:
            object.reduce(into: Set((object["properties"] as? [String: Any]).map { Array($0.keys) } ?? [])) {
                $0.formUnion(properties($1.value))
            }
        case let array as [Any]: array.reduce(into: []) { $0.formUnion(properties($1)) }
        default: []
        }
    }

    @Test(
        arguments: [
            (#""geo.lat""#, [["geo", "lat"]]), (#"["http.status"]"#, [["http.status"]]), ("[]", []),
            (#"["a",["b.c"],"d.e"]"#, [["a"], ["b.c"], ["d", "e"]]), (#"[["geo","lat.deg"]]"#, [["geo", "lat.deg"]]),
        ] as [(String, [[String]])])
    func `key paths are read as models say them`(json: String, paths: [[String]]) throws {
        let read = try RawJSON(json).decode(ModelDescription.KeyPaths.self)
        #expect(read.paths == paths)
    }

    @Test func `the examples have every property of their schemas`() throws {
        let answers = try #require(try Self.members("server-messages.schema.json")["$defs"] as? [String: Any])
        let stats = properties(try #require(answers["stats"]))
        #expect(stats.count > 15)
        #expect(stats.subtracting(names(try Self.members("examples/stats.json"))) == [])
        // A model in force does not have these; they are written out as `formats`, `indexes`, `unique` and `evolve`.
        let input: Set = ["$schema", "format", "indexed", "inferred"]
        let model = properties(try Self.members("model.schema.json")).subtracting(input)
        #expect(model.count > 40)
        #expect(model.subtracting(names(try Self.members("examples/model.json"))) == [])
    }
}
