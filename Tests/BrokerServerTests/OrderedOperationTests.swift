import TestSupport
import Testing

private let orderedModel = """
    {"entities": {
      "Employee": {"identity": "id", "modified": "at", "attributes": {
        "id": "integer64", "at": "integer64", "name": "string"}, "relationships": {
        "boss": {"entity": "Employee"},
        "tags": {"entity": "Tag", "toMany": true, "ordered": true, "inverse": "bearers"}}},
      "Tag": {"identity": "word", "attributes": {"word": "string"}, "relationships": {
        "bearers": {"entity": "Employee", "toMany": true, "ordered": true}}},
      "Card": {"identity": "code", "identityOptional": true, "modified": "at", "attributes": {
        "code": "string", "at": "integer64", "text": "string"}},
      "Department": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
        "rooms": {"entity": "Room", "toMany": true, "ordered": true, "assignment": "replace",
          "inverse": "department"}}},
      "Room": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
        "department": {"entity": "Department"}}}
    }}
    """

/// The effect of `modified` and `ordered` of a model on operations besides `process`, over the socket.
@Suite(.timeLimit(.minutes(5)), .session(orderedModel)) struct OrderedOperationTests {
    private let session = OperationSession.current
    private let employees = "SELECT id, at, name, boss FROM Employee ORDER BY id"

    // MARK: - modified

    @Test func `a record of a named object is compared with that object, whatever identity it brings`() throws {
        try session.process("Employee", #"[{"id": 1, "at": 5, "name": "a"}, {"id": 2, "boss": 1}]"#)
        let stale =
            #"{"entity": "Employee", "object": 1, "json": {"id": 9, "at": 5, "name": "b", "boss": {"id": 3}}}"#
        #expect(try session.job(stale) == "Employee =1")
        #expect(
            try session.job(#"{"entity": "Employee", "object": 1, "json": {"at": 4, "name": "b"}}"#)
                == "Employee =1")
        #expect(try session.rows(employees) == ["1|5|a|NULL", "2|NULL|NULL|1"])
        let newer = #"{"entity": "Employee", "object": 1, "json": {"id": 9, "at": 6, "name": "b"}}"#
        #expect(try session.job(newer) == "Employee ~2")
        #expect(try session.rows(employees) == ["2|NULL|NULL|9", "9|6|b|NULL"])
        #expect(try session.job(newer) == "objectNotFound /operations/0/object")
    }

    @Test func `objects that are named by the server's key are compared, too`() throws {
        try session.process("Card", #"[{"at": 5, "text": "a"}, {"code": "x", "at": 5, "text": "b"}]"#)
        let cards = "SELECT _pk, code, at, text FROM Card ORDER BY 1"
        #expect(try session.job(#"{"entity": "Card", "object": 1, "json": {"at": 5, "text": "c"}}"#) == "Card =1")
        #expect(
            try session.job(#"{"entity": "Card", "object": 2, "json": {"code": "y", "at": 4, "text": "c"}}"#)
                == "Card =1")
        #expect(try session.rows(cards) == ["1|NULL|5|a", "2|x|5|b"])
        #expect(try session.job(#"{"entity": "Card", "object": 1, "json": {"at": 6, "text": "c"}}"#) == "Card ~1")
        #expect(
            try session.job(#"{"entity": "Card", "object": 2, "json": {"code": "y", "at": 6, "text": "c"}}"#)
                == "Card ~1")
        #expect(try session.rows(cards) == ["1|NULL|6|c", "2|y|6|c"])
    }

    @Test func `a record is compared with what the operations before it left`() throws {
        try session.process("Employee", #"{"id": 1, "at": 5, "name": "a"}"#)
        let again = try session.job(
            #"{"op": "delete", "entity": "Employee", "objects": [1]}, "#
                + #"{"entity": "Employee", "json": {"id": 1, "at": 3, "name": "b"}}"#)
        #expect(again == "Employee ~1", "the object that was newer is gone")
        let stale = try session.job(
            #"{"entity": "Employee", "json": {"id": 1, "at": 8, "name": "c"}}, "#
                + #"{"op": "delete", "entity": "Tag", "objects": ["x"]}, "#
                + #"{"entity": "Employee", "json": {"id": 1, "at": 7, "name": "d", "boss": {"id": 4}}}"#)
        #expect(stale == "Employee ~1")
        #expect(try session.rows(employees) == ["1|8|c|NULL"])
    }

    @Test func `a sync does not delete an object whose record is not newer`() throws {
        try session.process("Employee", #"[{"id": 1, "at": 5, "name": "a"}, {"id": 2, "at": 5}]"#)
        let synced = try session.job(
            #"{"op": "sync", "entity": "Employee", "json": [{"id": 1, "at": 5, "name": "x"}]}"#)
        #expect(synced == "Employee =1 -1")
        #expect(try session.rows(employees) == ["1|5|a|NULL"])
    }

    // MARK: - ordered

    @Test func `relate appends to an ordered relationship or replaces it`() throws {
        try session.process("Employee", #"{"id": 1, "tags": ["b", "a"]}"#)
        let relate =
            #"{"op": "relate", "entity": "Employee", "object": 1, "relationship": "tags", "json": ["d", "a", "c"]}"#
        #expect(try session.job(relate) == "Employee ~1, Tag +2 =1")
        #expect(try session.job(relate) == "Employee =1, Tag =3")
        #expect(
            try session.rows("SELECT position, destination, inverse_position FROM Employee_tags ORDER BY 1")
                == ["0|b|0", "1|a|0", "2|d|0", "3|c|0"])
        try session.process("Department", #"{"id": 5, "rooms": [1, 2, 3]}"#)
        let rooms =
            #"{"op": "relate", "entity": "Department", "object": 5, "relationship": "rooms", "json": [3, 1]}"#
        #expect(try session.job(rooms) == "Department =1, Room ~3")
        #expect(try session.rows("SELECT department_position, id FROM Room ORDER BY 1") == ["NULL|2", "0|3", "1|1"])
        let back =
            #"{"op": "relate", "entity": "Department", "object": 5, "relationship": "rooms", "json": [1, 2, 3]}"#
        #expect(try session.job("\(back), \(rooms)") == "Department =1, Room =3", "in the end all is as it was")
    }

    @Test func `a deleted object leaves a gap, and objects of a deleted list join another one at its end`()
        async throws
    {
        try session.process("Department", #"[{"id": 5, "rooms": [1, 2, 3]}, {"id": 6, "rooms": [4]}]"#)
        #expect(try session.job(#"{"op": "delete", "entity": "Room", "objects": [2]}"#) == "Room -1")
        #expect(
            try session.rows("SELECT department_position, id FROM Room WHERE department = 5 ORDER BY 1")
                == ["0|1", "2|3"])
        #expect(
            try session.job(
                #"{"op": "delete", "entity": "Department", "objects": [5]}, "#
                    + #"{"entity": "Room", "json": [{"id": 3, "department": 6}, {"id": 1, "department": 6}]}"#)
                == "Department =1 -1, Room ~2")
        #expect(
            try session.rows("SELECT department_position, id FROM Room WHERE department = 6 ORDER BY 1")
                == ["0|4", "1|3", "2|1"])
    }

    @Test func `fetch nests the objects of an ordered relationship in its order`() throws {
        try session.process("Employee", #"[{"id": 1, "tags": ["b", "c", "a"]}, {"id": 2, "tags": ["c", "a"]}]"#)
        try session.process("Department", #"{"id": 5, "rooms": [3, 1, 2]}"#)
        func nested(_ entity: String, _ relationship: String, _ key: String, _ count: Int) throws -> [String] {
            let answer = try session.client.ask(
                #"{"type": "fetch", "entity": "\#(entity)", "include": ["\#(relationship)"]}"#)
            return (0..<count).map { answer["objects.0.\(relationship).\($0).\(key)"] ?? answer.code }
        }
        #expect(try nested("Employee", "tags", "word", 3) == ["b", "c", "a"])
        #expect(try nested("Department", "rooms", "id", 3) == ["3", "1", "2"])
        try session.process("Tag", #"{"word": "a", "bearers": [9, 8]}"#)
        #expect(try nested("Tag", "bearers", "id", 4) == ["1", "2", "9", "8"])
    }
}
