import BrokerStore
import TestSupport
import Testing

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
