import BrokerJSON
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
            var job = Job.process(json: "{}", as: "A")
            job.maximumDeletions = limit
            #expect(try content(job) == #"{"maximumDeletions":\#(text),"entity":"A","json":{}}"#)
        }
        var job = Job.process(json: "{}", as: "A")
        job.bookmark = Job.Bookmark("n\"", "\u{1}")
        #expect(try content(job) == #"{"bookmark":{"name":"n\"","value":"\u0001"},"entity":"A","json":{}}"#)
        job.bookmark = Job.Bookmark("n", nil)
        #expect(try content(job).contains(#""bookmark":{"name":"n","value":null}"#))
    }

    @Test func `every operation has the members of its kind`() throws {
        let part = Job.Operation.SyncPart(id: "p", isLast: true)
        let operations: [(Job.Operation, String)] = [
            (try .process(json: "{}", as: "A", object: 1), #""entity":"A","object":1,"json":{}"#),
            (
                Job.Operation(entity: "B", .relate(RawJSON("null"), relationship: "r\"s", object: RawJSON("\"k\""))),
                #""op":"relate","entity":"B","object":"k","relationship":"r\"s","json":null"#
            ),
            (
                .sync(json: "[]", as: "C", where: "a == \(1)", actions: [.delete, .insert]),
                #""op":"sync","entity":"C","where":"a == %@","arguments":[1],"actions":["insert","delete"],"json":[]"#
            ),
            (
                Job.Operation(entity: "D", .sync(RawJSON("[]"), where: nil, actions: .all, part: part)),
                #""op":"sync","entity":"D","part":{"id":"p","last":true},"json":[]"#
            ),
            (Job.Operation(entity: "E", .delete(RawJSON("[1,2]"))), #""op":"delete","entity":"E","objects":[1,2]"#),
            (.delete("F", where: "TRUEPREDICATE"), #""op":"delete","entity":"F","where":"TRUEPREDICATE""#),
            (.map(json: "{}", by: .mapping("m")), #""op":"map","mapping":"m","json":{}"#),
            (.map(json: "[]", by: .path("/x?y")), #""op":"map","path":"/x?y","json":[]"#),
            (.map(json: "[1]"), #""op":"map","json":[1]"#),
        ]
        for (operation, members) in operations {
            #expect(try content(Job(operation)) == "{\(members)}")
        }
        let all = operations.map { "{\($0.1)}" }.joined(separator: ",")
        #expect(try content(Job(operations.map(\.0))) == "{\"operations\":[\(all)]}")
    }

    @Test func `a job's message has its options and its trace`() throws {
        var job = Job(
            .process(json: "{}", as: "E"), id: "a", onInvalid: .skip, unknownKeys: .fail, reply: .keys, isLenient: true)
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
            try Job.process(Record(), as: "E"), try .process([Record()], as: "E", object: 1),
            try .sync([Record()], as: "E"),
            try .map(["e": [Record()]]), try .relate("E", 1, "r", to: Record()),
            Job([.process(json: "{}", as: "E"), try .process(Record(), as: "E")]),
            .process(json: try RawJSON(encoding: Record()), as: "E"),
        ]
        for job in values {
            #expect(try content(job).contains(#""unknown":"fail""#), "\(job)")
            var other = job
            other.unknownKeys = .warn
            #expect(try !content(other).contains("unknown"))
        }
        #expect(try !content(.process(Record(), as: "E", unknownKeys: .warn)).contains("unknown"))
        // JSON text as it came, bare keys, and values without keys.
        let bytes = try JSONEncoder().encode(Record())
        var changed = try RawJSON(encoding: Record())
        changed.bytes = Array(bytes)
        let texts = [
            Job.process(json: #"{"id":1}"#, as: "E"), try .process(bytes, as: "E"), try .process(Array(bytes), as: "E"),
            .process(json: changed, as: "E"), try .relate("E", Record(), "r", to: [1, 2]), .sync(json: "[]", as: "E"),
            try .delete("E", keys: [Record()]), try .process([Record](), as: "E"), .map(json: "{}"),
        ]
        for job in texts { #expect(try !content(job).contains("unknown"), "\(job)") }
        #expect(try content(.process(json: "{}", as: "E", unknownKeys: .fail)).contains(#""unknown":"fail""#))
    }

    @Test func `a word that the protocol does not know is an error before anything is sent`() {
        for job in [
            Job(.process(json: "{}", as: "E"), reply: .init(rawValue: "all")),
            Job(.process(json: "{}", as: "E"), onInvalid: .init(rawValue: "maybe")),
            Job(.sync(json: "[]", as: "E", actions: [.init(rawValue: "upsert")])),
        ] {
            let error = #expect(throws: BrokerError.self) { try content(job) }
            #expect(error?.code == .unsupportedMessage)
        }
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
