import TestSupport
import Testing

/// A client of a server whose model has every kind of relationship and delete rule, and looks into its store.
struct OperationSession {
    static let model = """
        {"entities": {
          "Department": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {
              "staff": {"entity": "Employee", "toMany": true, "inverse": "department"},
              "rooms": {"entity": "Room", "toMany": true, "inverse": "department", "deleteRule": "cascade"},
              "safe": {"entity": "Safe", "inverse": "owner", "deleteRule": "noAction"}}},
          "Safe": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"owner": {"entity": "Department", "inverse": "safe"}}},
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string", "age": "integer16"},
            "relationships": {
              "department": {"entity": "Department", "inverse": "staff"},
              "boss": {"entity": "Employee"},
              "tags": {"entity": "Tag", "toMany": true, "inverse": "bearers"},
              "papers": {"entity": "Paper", "toMany": true, "deleteRule": "cascade"}}},
          "Paper": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"follows": {"entity": "Paper", "deleteRule": "cascade"}}},
          "Tag": {
            "identity": "word", "attributes": {"word": "string"},
            "relationships": {"bearers": {"entity": "Employee", "toMany": true, "inverse": "tags"}}},
          "Room": {
            "identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"},
            "relationships": {
              "department": {"entity": "Department", "inverse": "rooms"},
              "desks": {"entity": "Desk", "toMany": true, "inverse": "room", "deleteRule": "deny"}}},
          "Desk": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"room": {"entity": "Room", "inverse": "desks"}}},
          "Seal": {
            "identity": "id", "attributes": {"id": "integer64", "sign": {"type": "string", "optional": false}}},
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "text": "string"}}
        }}
        """

    /// That of the trait ``Trait/session``.
    @TaskLocal static var ofTest: OperationSession?
    static var current: OperationSession { ofTest! }

    let client: RawClient
    let storePath: String

    /// `Employee +1 ~2 =3 -4 !5`, by entity; or the code and the path of what went wrong.
    ///
    /// - Parameter reply: with `keys` the server remembers each object, without it often counts alone.
    func job(_ operations: String, _ more: String = "", reply: String = "keys") throws -> String {
        try counts(#"{"operations": [\#(operations)], "reply": "\#(reply)"\#(more)}"#)
    }

    /// The same of a whole message.
    func counts(_ job: String) throws -> String {
        let answer = try client.ask(job)
        guard answer.type == "completed" else { return "\(answer.code) \(answer["error.path"] ?? "")" }
        return answer.keys("changes").sorted().compactMap { entity in
            let counts = ["inserted", "updated", "unchanged", "deleted", "rejected"].map {
                answer["changes.\(entity).\($0)"] ?? "0"
            }
            guard counts.contains(where: { $0 != "0" }) else { return nil }
            return "\(entity) " + zip("+~=-!", counts).filter { $1 != "0" }.map { "\($0)\($1)" }.joined(separator: " ")
        }.joined(separator: ", ")
    }

    func answer(_ operations: String, _ more: String = "") throws -> Message {
        try client.ask(#"{"operations": [\#(operations)], "reply": "keys"\#(more)}"#)
    }

    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: storePath) }

    func process(_ entity: String, _ json: String) throws {
        #expect(try client.ask(#"{"entity": "\#(entity)", "json": \#(json)}"#).type == "completed")
    }
}
