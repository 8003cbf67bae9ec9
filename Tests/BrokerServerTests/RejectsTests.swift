import BrokerJSON
import TestSupport
import Testing

/// Rejected records that the server keeps, over the socket.
@Suite(.timeLimit(.minutes(5)), .session) struct RejectsTests {
    private let session = OperationSession.current

    private func rejects(_ members: String = "") throws -> Message {
        try session.client.ask(#"{"type": "rejects", "requests": true\#(members)}"#)
    }

    private func ids(_ members: String = "") throws -> [String] {
        let answer = try rejects(members)
        return (0..<1_000).prefix { answer["rejects.\($0).id"] != nil }.map { answer["rejects.\($0).id"]! }
    }

    private func skip(_ job: String, id: String) throws {
        let answer = try session.client.ask("{\"id\": \"\(id)\", \"onInvalid\": \"skip\", \(job)}")
        #expect(answer.type == "completed", "\(answer)")
    }

    static let forms = [
        #""entity": "Employee", "json": [{"id": 1}, {"id": 2, "age": "x"}]"#:
            [#"{"operations":[{"entity":"Employee","json":[{"id": 2, "age": "x"}]}]}"#],
        #""entity": "Employee", "json": {"id": 2, "age": "x"}, "unknown": "warn""#:
            [#"{"unknown":"warn","operations":[{"entity":"Employee","json":{"id": 2, "age": "x"}}]}"#],
        #""entity": "Employee", "json": {"id": 2, "age": "x"}, "names": "local""#:
            [#"{"names":"local","operations":[{"entity":"Employee","json":{"id": 2, "age": "x"}}]}"#],
        #""collections": {"Tag": [{"word": "a"}], "Employee": [{"id": 1}, {"id": 2, "age": "x"}, {"id": "y"}]}"#: [
            #"{"operations":[{"entity":"Employee","json":[{"id": 2, "age": "x"}]}]}"#,
            #"{"operations":[{"entity":"Employee","json":[{"id": "y"}]}]}"#,
        ],
        #""operations": [{"entity": "Tag", "json": []}, {"op": "sync", "entity": "Employee", "json": [{"id": "x"}]}]"#:
            [#"{"operations":[{"entity":"Employee","json":[{"id": "x"}]}]}"#],
        #""operations": [{"op": "sync", "entity": "Tag", "json": [{}], "actions": ["insert", "delete"], "where": "FALSEPREDICATE"}]"#:
            [#"{"operations":[{"op":"sync","actions":["insert"],"entity":"Tag","json":[{}]}]}"#],
        #""op": "relate", "entity": "Employee", "object": 7, "relationship": "papers", "json": [{"id": 1}, {"id": "x"}]"#:
            [
                #"{"operations":[{"op":"relate","entity":"Employee","object":7,"relationship":"papers","json":[{"id": 1}, {"id": "x"}]}]}"#
            ],
        #""entity": "Employee", "object": 7, "json": {"age": "x"}"#:
            [#"{"operations":[{"entity":"Employee","object":7,"json":{"age": "x"}}]}"#],
        #""op": "delete", "entity": "Employee", "objects": [7, "x", 8]"#:
            [#"{"operations":[{"op":"delete","entity":"Employee","objects":["x"]}]}"#],
        // Nested faults, and several of one record, belong to the record.
        #""entity": "Employee", "json": [{"id": 3, "papers": [{"id": "x"}, {"id": "y"}]}]"#:
            [#"{"operations":[{"entity":"Employee","json":[{"id": 3, "papers": [{"id": "x"}, {"id": "y"}]}]}]}"#],
    ]

    @Test(arguments: forms.keys.sorted())
    func `a skipped record is kept as the smallest job that says it again`(job: String) throws {
        try session.process("Employee", #"{"id": 7}"#)
        try skip(job, id: "one")
        let answer = try rejects()
        let expected = try #require(Self.forms[job])
        #expect(try ids().count == expected.count)
        for (number, request) in expected.reversed().enumerated() {
            let place = "rejects.\(number)"
            #expect(answer["\(place).request"] == request)
            #expect(answer["\(place).job"] == "one" && answer["\(place).sequence"] == "2")
            // It is rejected for the same reason, at the same place.
            let again = try session.client.ask(request)
            #expect(again["error.path"] == answer["\(place).errors.0.path"], "\(again)")
            #expect(again["error.code"] == answer["\(place).errors.0.code"])
        }
    }

    @Test func `the errors of one record are listed with it, with paths in the request`() throws {
        try skip(
            #""entity": "Employee", "json": [{"id": 3, "papers": [{"id": "x"}, {"id": 1}, {"id": "y"}]}]"#, id: "a")
        let answer = try rejects()
        #expect(answer["rejects.0.errors.0.path"] == "/operations/0/json/0/papers/0/id")
        #expect(answer["rejects.0.errors.1.path"] == "/operations/0/json/0/papers/2/id")
        #expect(answer["rejects.0.entity"] == "Paper")
    }

    @Test func `jobs that fail, are tried, or are sent again keep nothing`() throws {
        let job = #""entity": "Employee", "json": [{"id": "x"}]"#
        #expect(try session.client.ask("{\(job)}").type == "failed")
        try skip(job + #", "dryRun": true"#, id: "tried")
        #expect(try ids() == [])
        try skip(job, id: "one")
        try skip(job, id: "one")
        #expect(try ids().count == 1)
    }

    @Test func `they are listed the newest first, by entity and job, in pages`() throws {
        try skip(#""entity": "Employee", "json": [{"id": "x"}, {"id": "y"}]"#, id: "one")
        try skip(#""entity": "Tag", "json": [{}]"#, id: "two")
        #expect(try ids() == ["2000", "1001", "1000"])
        #expect(try ids(#", "entity": "Employee""#) == ["1001", "1000"])
        #expect(try ids(#", "job": "two""#) == ["2000"])
        #expect(try ids(#", "ids": [1000, 7, 2000]"#) == ["1000", "2000"])
        #expect(try rejects(#", "limit": 2"#)["more"] == "true")
        #expect(try ids(#", "limit": 2, "before": 1001"#) == ["1000"])
        #expect(try rejects(#", "before": 1001"#)["more"] == "false")
        #expect(try session.client.ask(#"{"type": "rejects"}"#)["rejects.0.request"] == nil)
    }

    @Test func `dropped ones are gone, and counted`() throws {
        try skip(#""entity": "Employee", "json": [{"id": "x"}, {"id": "y"}, {"id": "z"}, {}]"#, id: "one")
        #expect(try session.client.ask(#"{"type": "stats"}"#)["store.rejects.count"] == "4")
        #expect(try session.client.ask(#"{"type": "rejects", "drop": true, "ids": [1001, 99]}"#)["dropped"] == "1")
        #expect(try ids() == ["1003", "1002", "1000"])
        #expect(try session.client.ask(#"{"type": "rejects", "drop": true, "through": 1002}"#)["dropped"] == "2")
        #expect(try session.client.ask(#"{"type": "stats"}"#)["store.rejects.count"] == "1")
        #expect(try session.rows("SELECT id FROM _broker_rejects") == ["1003"])
    }

    @Test(arguments: [
        #""ids": []"#: "/ids", #""ids": ["x"]"#: "/ids/0", #""ids": 5"#: "/ids", #""drop": true"#: "/ids",
        #""drop": true, "ids": [1], "through": 1"#: "/ids", #""limit": 0"#: "/limit", #""before": -1"#: "/before",
        #""entity": 1"#: "/entity", #""requests": 1"#: "/requests",
    ])
    func `a wrong request is refused at its place`(members: String, path: String) throws {
        let answer = try session.client.ask("{\"type\": \"rejects\", \(members)}")
        #expect(answer["error.code"] == "unsupportedMessage" && answer["error.path"] == path, "\(answer)")
    }
}
