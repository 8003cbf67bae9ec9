import TestSupport
import Testing

/// Operations on entities that inherit from others.
@Suite(.timeLimit(.minutes(5))) struct HierarchyOperationTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "modified": "rev",
            "attributes": {"id": "integer64", "rev": "integer64", "name": "string"}},
          "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer64", "optional": false}},
            "relationships": {"boss": {"entity": "Person"}}},
          "Manager": {"parent": "Employee"},
          "Guest": {"parent": "Person"},
          "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Car": {"parent": "Thing"},
          "Record": {"abstract": true},
          "User": {"parent": "Record", "identity": "login", "attributes": {"login": "string", "age": "integer16"}}
        }}
        """

    private struct Session {
        let client: RawClient
        let storePath: String

        func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: storePath) }

        /// The counts of a job; or the code and the path of what went wrong.
        func job(_ json: String) throws -> String {
            let answer = try client.ask(json)
            guard answer.type == "completed" else { return "\(answer.code) \(answer["error.path"] ?? "")" }
            return ["Car", "Employee", "Guest", "Manager", "Person", "User"].compactMap { entity in
                let counts = ["inserted", "updated", "unchanged", "deleted"].compactMap {
                    answer["changes.\(entity).\($0)"]
                }
                guard counts.contains(where: { $0 != "0" }) else { return nil }
                return "\(entity) "
                    + zip("+~=-", counts).filter { $1 != "0" }.map { "\($0)\($1)" }.joined(separator: " ")
            }.joined(separator: ", ")
        }
    }

    private func run(_ body: (Session) throws -> Void) async throws {
        try await RunningServer.run(model: Self.model) { running in
            try body(Session(client: running.connect(), storePath: running.storePath))
        }
    }

    @Test func `a record that is not newer does not say what its object is`() async throws {
        try await run { session in
            _ = try session.job(#"{"entity": "Person", "json": [{"id": 1, "rev": 5}]}"#)
            let stale = try session.job(
                #"{"entity": "Employee", "json": [{"id": 1, "rev": 4, "salary": 1, "boss": {"id": 8}}]}"#)
            #expect(stale == "Person =1")
            let newer = try session.job(#"{"entity": "Employee", "json": [{"id": 1, "rev": 6, "salary": 1}]}"#)
            #expect(newer == "Employee ~1")
            let both = try session.job(
                #"{"collections": {"Person": [{"id": 2, "rev": 9}], "Manager": [{"id": 2, "rev": 8, "salary": 1}]}}"#)
            #expect(both == "Person +1")
            let rows = try session.rows("SELECT id, rev, salary, _entity FROM Person ORDER BY id")
            #expect(rows == ["1|6|1|Employee", "2|9|NULL|Person"])
        }
    }

    @Test func `an object that is named by its key keeps what it is, and takes a new identity`() async throws {
        try await run { session in
            _ = try session.job(#"{"entity": "Car", "json": [{"id": 7}]}"#)
            let renamed = try session.job(#"{"entity": "Thing", "object": 7, "json": {"id": 70, "name": "n"}}"#)
            #expect(renamed == "Car ~1")
            let missing = try session.job(#"{"entity": "Thing", "object": 7, "json": {"name": "x"}}"#)
            #expect(missing == "objectNotFound /object")
            let rows = try session.rows("SELECT id, name, _entity FROM Thing")
            #expect(rows == ["70|n|Car"])
            _ = try session.job(#"{"entity": "User", "json": [{"login": "a", "age": 1}]}"#)
            let key = try session.rows("SELECT _pk FROM User")[0]
            let filled = try session.job(#"{"entity": "User", "object": \#(key), "json": {"age": 2}}"#)
            #expect(filled == "User ~1")
            let users = try session.rows("SELECT login, age FROM User")
            #expect(users == ["a|2"])
        }
    }

    @Test func `object, relate and delete need an object of the entity`() async throws {
        try await run { session in
            _ = try session.job(
                #"{"collections": {"Person": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}]}}"#)
            let became = try session.job(#"{"entity": "Employee", "object": 1, "json": {"salary": 5}}"#)
            #expect(became == "Employee ~1")
            let stranger = try session.job(#"{"entity": "Employee", "object": 2, "json": {"salary": 5}}"#)
            #expect(stranger == "objectNotFound /object")
            let below = try session.job(#"{"entity": "Employee", "object": 3, "json": {"salary": 6}}"#)
            #expect(below == "Manager ~1")
            let related = try session.job(
                #"{"op": "relate", "entity": "Employee", "object": 2, "relationship": "boss", "json": 1}"#)
            #expect(related == "objectNotFound /object")
            let deleted = try session.client.ask(#"{"op": "delete", "entity": "Employee", "objects": [1, 2, 3]}"#)
            #expect(deleted["warnings.0.count"] == "1" || deleted["warnings"]?.contains(#""count":1"#) == true)
            let rows = try session.rows("SELECT id, _entity FROM Person")
            #expect(rows == ["2|Guest"])
        }
    }

    @Test func `sync and fetch of an entity are about it and what inherits from it`() async throws {
        try await run { session in
            _ = try session.job(
                #"{"collections": {"Person": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}], "Employee": [{"id": 4, "salary": 9}]}}"#
            )
            let fetched = try session.client.ask(
                #"{"type": "fetch", "entity": "Employee", "names": "local", "where": "salary > 0", "sort": ["-id"]}"#)
            #expect(
                fetched["objects"]
                    == #"[{"id":4,"rev":null,"name":null,"salary":9,"boss":null,"entity":"Employee"},{"id":3,"rev":null,"name":null,"salary":1,"boss":null,"entity":"Manager"}]"#
            )
            let guests = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "names": "local"}"#)
            #expect(guests["objects"] == #"[{"id":2,"rev":null,"name":null,"entity":"Guest"}]"#)
            let another = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "object": 3}"#)
            #expect(another["objects"] == "[]")
            let synced = try session.job(#"{"op": "sync", "entity": "Employee", "json": [{"id": 4, "salary": 9}]}"#)
            #expect(synced == "Employee =1, Manager -1")
            let all = try session.job(#"{"op": "sync", "entity": "Person", "json": [{"id": 2}]}"#)
            #expect(all == "Employee -1, Guest =1, Person -1")
        }
    }
}
