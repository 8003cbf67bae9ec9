import Glibc
import TestSupport
import Testing

@testable import BrokerServer

/// The messages that a client of each role may send.
@Suite(.timeLimit(.minutes(5))) struct ClientRoleTests {
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "tombstone": "gone == YES",
            "attributes": {"id": "integer64", "gone": "boolean"},
            "relationships": {"lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Line": {"attributes": {"text": "string"}}
        }}
        """

    private func run(_ role: ClientRole, _ body: (RawClient) throws -> Void) async throws {
        try await RunningServer.run(model: Self.model, { $0.allowedUsers = [geteuid(): role] }) { running in
            try body(try running.connect())
        }
    }

    @Test func `a reader may fetch and ask, and send no job`() async throws {
        try await run(.read) { client in
            #expect(try client.ask(#"{"type": "hello"}"#)["role"] == "read")
            for change in [#"{"entity": "Order", "json": {"id": 1}, "id": "a"}"#, #"{"type": "cancel", "id": "a"}"#] {
                let answer = try client.ask(change)
                #expect(answer.type == "error" && answer.code == "unauthorized" && answer["id"] == "a")
            }
            #expect(try client.ask(#"{"type": "fetch", "entity": "Order"}"#).type == "objects")
            #expect(try client.ask(#"{"type": "bookmark", "name": "a"}"#)["value"] == "null")
            #expect(try client.ask(#"{"type": "subscribe"}"#).type == "subscribed")
            #expect(try client.ask(#"{"type": "await", "id": "a"}"#).code == "unknownJob")
            for type in ["ping", "stats", "model"] { #expect(try client.ask(#"{"type": "\#(type)"}"#).type != "error") }
        }
    }

    @Test func `an inserter's job that deletes an object fails, and replaced parts are none`() async throws {
        try await run(.insert) { client in
            func job(_ fields: String) throws -> String {
                let answer = try client.ask("{\(fields)}")
                return answer.type == "failed" ? answer.code : answer.type
            }
            let order = #""entity": "Order", "json": "#
            #expect(
                try job(
                    order
                        + #"[{"id": 1, "lines": [{"text": "a"}, {"text": "b"}]}, {"id": 2}], "bookmark": {"name": "a", "value": "1"}"#
                ) == "completed")
            #expect(try job(order + #"{"id": 1, "lines": [{"text": "c"}]}"#) == "completed")
            #expect(try job(#""op": "sync", "# + order + #"[{"id": 1}, {"id": 2}]"#) == "completed")
            #expect(try job(#""op": "sync", "# + order + #"[{"id": 1}]"#) == "unauthorized")
            #expect(try job(#""op": "delete", "entity": "Order", "objects": [2]"#) == "unauthorized")
            #expect(try job(#""op": "delete", "entity": "Order", "objects": [9]"#) == "completed")
            #expect(try job(order + #"{"id": 2, "gone": true}"#) == "unauthorized")
            #expect(
                try job(#""op": "delete", "entity": "Line", "objects": [{"parent_id": 1, "position": 0}]"#)
                    == "unauthorized")
            let fetched = try client.ask(#"{"type": "fetch", "entity": "Order", "include": ["lines"]}"#)
            #expect(fetched["objects.0.lines.0.text"] == "c" && fetched["objects.1.id"] == "2")
        }
    }
}
