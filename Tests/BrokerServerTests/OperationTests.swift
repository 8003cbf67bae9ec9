import TestSupport
import Testing

/// Operations besides `process`, over the socket: their effects on the database, and their answers.
@Suite(.timeLimit(.minutes(5)), .session) struct OperationTests {
    private let session = OperationSession.current

    // MARK: - One after the other

    @Test func `each operation sees what those before it did, and each object counts once`() throws {
        try session.process("Employee", #"[{"id": 1, "name": "a", "age": 3}, {"id": 2, "name": "b"}]"#)
        let renewed = try session.job(
            #"{"op": "delete", "entity": "Employee", "objects": [1, 2]}, "#
                + #"{"entity": "Employee", "json": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3}]}, "#
                + #"{"op": "delete", "entity": "Employee", "objects": [3]}"#)
        #expect(renewed == "Employee ~1 =1")
        #expect(try session.rows("SELECT id, name, age FROM Employee") == ["1|a|NULL", "2|b|NULL"])
        let back = try session.job(
            #"{"op": "delete", "entity": "Tag", "objects": ["x"]}, "#
                + #"{"entity": "Employee", "json": {"id": 2, "name": "other"}}, "#
                + #"{"op": "delete", "entity": "Tag", "objects": ["y"]}, "#
                + #"{"entity": "Employee", "json": {"id": 2, "name": "b"}}"#)
        #expect(back == "Employee =1", "what counts is what became of it in the end")
    }

    @Test func `a later operation that fails undoes those before it`() throws {
        let failed = try session.job(
            #"{"entity": "Employee", "json": {"id": 1}}, {"entity": "Employee", "json": {"age": 1}, "object": 7}"#)
        #expect(failed == "objectNotFound /operations/1/object")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["0"])
    }

    @Test(.session(jobWork: 3_000_000))
    func `a job of many searches through many objects fails alone, and the next job is applied`() throws {
        // The budget of users' jobs allows a hundred times as much.
        let records = (1...2_000).map { "{\"id\": \($0), \"name\": \"n\", \"age\": 1}" }
        try session.process("Employee", "[\(records.joined(separator: ", "))]")
        let search = #"{"op": "delete", "entity": "Employee", "where": "age == 7"}"#
        let answer = try session.client.ask(
            "{\"operations\": [\(Array(repeating: search, count: 100).joined(separator: ", "))]}")
        #expect(answer["error.code"] == "busy")
        #expect(answer["error.path"]?.hasPrefix("/operations/") == true)
        #expect(answer["error.retryAfterMilliseconds"] == "1000")
        #expect(try session.job("\(search), \(search)") == "")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2000"])
    }

    // MARK: - process with object

    @Test func `a record without identity changes the object that is named`() throws {
        try session.process("Employee", #"{"id": 1, "name": "a"}"#)
        #expect(
            try session.job(#"{"entity": "Employee", "object": 1, "json": {"age": 9, "department": {"id": 5}}}"#)
                == "Department +1, Employee ~1")
        #expect(try session.job(#"{"entity": "Employee", "object": 1, "json": {"id": 1, "age": 9}}"#) == "Employee =1")
        #expect(try session.rows("SELECT id, name, age, department FROM Employee") == ["1|a|9|5"])
    }

    @Test func `a record with another identity renames the object, and what refers to it follows`() throws {
        try session.process("Department", #"{"id": 1, "staff": [{"id": 1, "tags": ["x"]}, {"id": 2, "boss": 1}]}"#)
        let renamed = try session.job(#"{"entity": "Department", "object": 1, "json": {"id": 9, "name": "n"}}"#)
        #expect(renamed == "Department ~1, Employee ~2")
        #expect(try session.job(#"{"entity": "Employee", "object": 1, "json": {"id": 7}}"#) == "Employee ~2")
        #expect(try session.rows("SELECT id, department, boss FROM Employee ORDER BY id") == ["2|9|7", "7|9|NULL"])
        #expect(try session.rows("SELECT * FROM Employee_tags") == ["7|x"])
        let taken = try session.job(#"{"entity": "Employee", "object": 7, "json": {"id": 2}}"#)
        #expect(taken == "constraintViolation /operations/0/object")
    }

    @Test func `a rejected record for a named object is reported by its own fault, and has no effect`() throws {
        try session.process("Employee", #"{"id": 1, "name": "a"}"#)
        for (record, fault) in [
            (#"{"age": "x"}"#, "invalidValue /operations/0/json/age"),
            (#"{"id": "x"}"#, "invalidValue /operations/0/json/id"),
            (#"{"id": 2, "age": "x", "department": 5}"#, "invalidValue /operations/0/json/age"),
            (#"{"id": null, "age": "x"}"#, "invalidValue /operations/0/json/age"),
        ] {
            let operation = #"{"entity": "Employee", "object": 1, "json": \#(record)}"#
            #expect(try session.job(operation) == fault)
            let answer = try session.answer(operation, #", "onInvalid": "skip""#)
            #expect(answer.type == "completed")
            #expect("\(answer["rejected.0.code"] ?? "") \(answer["rejected.0.path"] ?? "")" == fault)
            #expect(answer["rejected.1.code"] == nil)
        }
        #expect(try session.rows("SELECT id, name, age, department FROM Employee") == ["1|a|NULL|NULL"])
        #expect(try session.rows("SELECT count(*) FROM Department") == ["0"])
    }

    @Test func `an object without identity, or with an optional one, is named by its _pk`() throws {
        try session.process("Note", #"[{"text": "a"}, {"text": "b"}]"#)
        try session.process("Card", #"[{"code": "x"}, {"text": "none"}]"#)
        #expect(try session.job(#"{"entity": "Note", "object": 2, "json": {"text": "c"}}"#) == "Note ~1")
        #expect(try session.job(#"{"entity": "Card", "object": 2, "json": {"code": "y"}}"#) == "Card ~1")
        let taken = try session.job(#"{"entity": "Card", "object": 2, "json": {"code": "x"}}"#)
        #expect(taken == "constraintViolation /operations/0/object")
        #expect(
            try session.job(#"{"entity": "Note", "object": "b", "json": {}}"#)
                == "invalidValue /operations/0/object")
        #expect(try session.job(#"{"op": "delete", "entity": "Note", "objects": [1, 1]}"#) == "Note -1")
        #expect(try session.rows("SELECT _pk, text FROM Note") == ["2|c"])
        #expect(try session.rows("SELECT _pk, code, text FROM Card ORDER BY _pk") == ["1|x|NULL", "2|y|none"])
    }

    @Test func `a missing object is reported at its key, and rejected alone with skip`() throws {
        #expect(
            try session.job(#"{"entity": "Employee", "object": 1, "json": {"age": 1}}"#)
                == "objectNotFound /operations/0/object")
        let skipped = try session.answer(
            #"{"entity": "Employee", "object": 1, "json": {"department": {"id": 4}}}, {"entity": "Tag", "json": {"word": "t"}}"#,
            #", "onInvalid": "skip""#)
        #expect(skipped["rejected.0.code"] == "objectNotFound")
        #expect(skipped["rejected.0.path"] == "/operations/0/object")
        #expect(skipped["changes.Employee.rejected"] == "1")
        #expect(skipped["changes.Tag.inserted"] == "1")
        #expect(try session.rows("SELECT count(*) FROM Department") == ["0"], "what is nested in it goes with it")
        #expect(
            try session.job(#"{"entity": "Employee", "object": 1, "json": [{}]}"#)
                == "invalidValue /operations/0/json")
    }

    // MARK: - relate

    @Test func `relate sets a to-one, and adds to a to-many`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2, "tags": ["old"]}]"#)
        let relate = #""op": "relate", "entity": "Employee", "object""#
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"department\", \"json\": {\"id\": 3, \"name\": \"d\"}}")
                == "Department +1, Employee ~1")
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"department\", \"json\": 3}")
                == "Department =1, Employee =1")
        #expect(
            try session.job("{\(relate): 2, \"relationship\": \"tags\", \"json\": [\"old\", {\"word\": \"new\"}]}")
                == "Employee ~1, Tag +1 =1")
        #expect(try session.rows("SELECT * FROM Employee_tags ORDER BY 2") == ["2|new", "2|old"])
        #expect(try session.job("{\(relate): 2, \"relationship\": \"tags\", \"json\": null}") == "Employee ~1")
        #expect(try session.job("{\(relate): 1, \"relationship\": \"department\", \"json\": null}") == "Employee ~1")
        #expect(try session.rows("SELECT count(*) FROM Employee_tags") == ["0"])
        #expect(try session.rows("SELECT department FROM Employee WHERE id = 1") == ["NULL"])
    }

    @Test func `a relate links after what is nested in it, as in a record`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let relate = #""op": "relate", "entity": "Employee", "object""#
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"boss\", \"json\": {\"id\": 1, \"boss\": null}}")
                == "Employee ~1")
        #expect(
            try session.job("{\(relate): 2, \"relationship\": \"department\", \"json\": {\"id\": 5, \"staff\": null}}")
                == "Department +1, Employee ~1")
        #expect(
            try session.rows("SELECT id, boss, department FROM Employee ORDER BY id")
                == ["1|1|NULL", "2|NULL|5"])
    }

    @Test func `relate says what is wrong, and where`() throws {
        try session.process("Employee", #"{"id": 1}"#)
        let relate = #""op": "relate", "entity": "Employee", "object""#
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"desk\", \"json\": 1}")
                == "unknownRelationship /operations/0/relationship")
        #expect(
            try session.job("{\(relate): 9, \"relationship\": \"boss\", \"json\": 1}")
                == "objectNotFound /operations/0/object")
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"boss\", \"json\": \"x\"}")
                == "invalidValue /operations/0/json")
        #expect(
            try session.job("{\(relate): null, \"relationship\": \"boss\", \"json\": 1}")
                == "missingIdentity /operations/0/object")
    }
}

private let uniqueModel = """
    {"entities": {
      "Employee": {"identity": "id", "tombstone": "gone == YES", "unique": [["floor", "seat"]], "attributes": {
        "id": "integer64", "mail": {"type": "string", "unique": true}, "name": "string", "gone": "boolean",
        "floor": "integer16", "seat": "string"}, "relationships": {"boss": {"entity": "Employee"}}}}}
    """

/// Unique values are judged at the end of a job, whatever its operations do to them in between.
@Suite(.timeLimit(.minutes(5)), .session(uniqueModel)) struct UniqueOperationTests {
    private let session = OperationSession.current

    init() throws {
        try session.process(
            "Employee", #"[{"id": 1, "mail": "x", "floor": 1, "seat": "a", "name": "n"}, {"id": 9, "mail": "y"}]"#)
    }

    private func employees() throws -> [String] {
        try session.rows("SELECT id, mail FROM Employee ORDER BY id")
    }

    private func process(_ json: String) -> String { #"{"entity": "Employee", "json": \#(json)}"# }
    private func delete(_ ids: String) -> String { #"{"op": "delete", "entity": "Employee", "objects": \#(ids)}"# }
    private func sync(_ json: String, _ more: String = "") -> String {
        #"{"op": "sync", "entity": "Employee", "json": \#(json)\#(more)}"#
    }

    @Test func `a sync may give a value to another object than had it`() throws {
        #expect(
            try session.job(sync(#"[{"id": 2, "mail": "x", "floor": 1, "seat": "a"}, {"id": 3, "mail": "y"}]"#))
                == "Employee +2 -2")
        #expect(try employees() == ["2|x", "3|y"])
    }

    @Test func `with skip a record is refused at once for a value that another object has`() throws {
        let answer = try session.answer(
            process(#"{"id": 2, "mail": "x"}"#) + "," + delete("[1]"), #", "onInvalid": "skip""#)
        #expect(answer["rejected.0.code"] == "constraintViolation", "\(answer.text)")
        #expect(try employees() == ["9|y"])
    }

    @Test func `a value may be claimed before the operation that frees it`() throws {
        #expect(try session.job(process(#"{"id": 2, "mail": "x"}"#) + "," + delete("[1]")) == "Employee +1 -1")
        let later =
            process(#"{"id": 3, "mail": "x"}"#) + ","
            + #"{"entity": "Employee", "object": 2, "json": {"mail": "z"}}"#
        #expect(try session.job(later) == "Employee +1 ~1")
        #expect(try employees() == ["2|z", "3|x", "9|y"])
    }

    @Test func `a record that deletes the holder frees the value`() throws {
        #expect(try session.job(process(#"[{"id": 2, "mail": "x"}, {"id": 1, "gone": true}]"#)) == "Employee +1 -1")
        #expect(try employees() == ["2|x", "9|y"])
    }

    @Test func `a value that its object has at the end fails the job at the record that claims it`() throws {
        let claiming = process(#"[{"id": 3, "mail": "w"}, {"id": 2, "mail": "x"}]"#)
        #expect(try session.job(claiming + "," + delete("[9]")) == "constraintViolation /operations/0/json/1")
        #expect(
            try session.job(sync(#"[{"id": 2, "mail": "x"}]"#, #", "where": "id == 9""#))
                == "constraintViolation /operations/0/json/0")
        #expect(
            try session.job(process(#"{"id": 2, "floor": 1, "seat": "a"}"#) + "," + delete("[9]"))
                == "constraintViolation /operations/0/json")
        #expect(try employees() == ["1|x", "9|y"])
    }

    @Test func `with skip the record that claims such a value is listed, and the rest takes effect`() throws {
        let claiming = process(#"[{"id": 3, "mail": "w"}, {"id": 2, "mail": "x"}]"#)
        let answer = try session.answer(claiming + "," + delete("[9]"), #", "onInvalid": "skip""#)
        #expect(answer["rejected.0.path"] == "/operations/0/json/1")
        #expect(answer["rejected.0.code"] == "constraintViolation")
        #expect(answer["changes.Employee.inserted"] == "1")
        #expect(try employees() == ["1|x", "3|w"])
    }

    @Test func `an object whose value waits keeps it when the claiming object goes, and counts as it is`() throws {
        let job =
            process(#"{"id": 2, "mail": "x"}"#) + "," + process(#"{"id": 1, "name": "n"}"#) + "," + delete("[2]")
        #expect(try session.job(job) == "Employee =1")
        #expect(try employees() == ["1|x", "9|y"])
        let renamed =
            process(#"{"id": 2, "mail": "x"}"#) + ","
            + #"{"entity": "Employee", "object": 1, "json": {"id": 5}}, "# + delete("[2]")
        #expect(try session.job(renamed) == "Employee ~1")
        #expect(try employees() == ["5|x", "9|y"])
    }

    @Test func `a predicate finds a value where it was, so it is judged before`() throws {
        let job =
            process(#"{"id": 2, "mail": "x"}"#) + ","
            + #"{"op": "delete", "entity": "Employee", "where": "mail == \"x\""}"#
        #expect(try session.job(job) == "constraintViolation /operations/0/json")
        let other =
            process(#"{"id": 2, "mail": "x"}"#) + ","
            + #"{"op": "delete", "entity": "Employee", "where": "name == \"n\""}"#
        #expect(try session.job(other) == "Employee +1 -1")
        #expect(try employees() == ["2|x", "9|y"])
    }

    @Test func `a value may pass through several objects of one job`() throws {
        let job =
            process(#"{"id": 2, "mail": "x"}"#) + "," + delete("[]") + ","
            + process(#"{"id": 3, "mail": "x"}"#) + "," + delete("[1, 2]")
        #expect(try session.job(job) == "Employee +1 -1")
        #expect(try employees() == ["3|x", "9|y"])
        let claimed =
            process(#"{"id": 4, "mail": "x"}"#) + "," + delete("[]") + ","
            + process(#"{"id": 5, "mail": "x"}"#) + "," + delete("[3]")
        #expect(try session.job(claimed) == "constraintViolation /operations/2/json")
    }
}

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
        #expect(try session.job(stale) == "Employee +1 =1", "the nested one is applied")
        #expect(
            try session.job(#"{"entity": "Employee", "object": 1, "json": {"at": 4, "name": "b"}}"#)
                == "Employee =1")
        #expect(try session.rows(employees) == ["1|5|a|NULL", "2|NULL|NULL|1", "3|NULL|NULL|NULL"])
        let newer = #"{"entity": "Employee", "object": 1, "json": {"id": 9, "at": 6, "name": "b"}}"#
        #expect(try session.job(newer) == "Employee ~2")
        #expect(try session.rows(employees) == ["2|NULL|NULL|9", "3|NULL|NULL|NULL", "9|6|b|NULL"])
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
        #expect(stale == "Employee +1 ~1")
        #expect(try session.rows(employees) == ["1|8|c|NULL", "4|NULL|NULL|NULL"])
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

/// The messages of a dry run.
@Suite(.timeLimit(.minutes(5)), .session) struct DryRunTests {
    private let session = OperationSession.current

    @Test func `a dry run is answered as one, and its id stays unknown`() async throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let delete = #"{"op": "delete", "entity": "Employee", "where": "TRUEPREDICATE"}"#
        let answer = try session.answer(delete, #", "id": "a", "dryRun": true, "maximumDeletions": 2"#)
        #expect(answer.type == "completed" && answer["dryRun"] == "true" && answer["duplicate"] == "false")
        #expect(answer["changes.Employee.deleted"] == "2")
        #expect(answer["examples.Employee.deleted"] == "[1,2]")
        #expect(try session.client.ask(#"{"type": "await", "id": "a"}"#).code == "unknownJob")
        let brief = try session.client.ask(
            #"{"entity": "Tag", "json": {"word": "x"}, "dryRun": true, "reply": "none"}"#)
        #expect(brief["dryRun"] == "true" && brief["changes"] == nil)
        let failed = try session.answer(delete, #", "id": "a", "maximumDeletions": "50%""#)
        #expect(failed.type == "failed" && failed.code == "tooManyDeletions")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
        #expect(try session.rows("SELECT count(*) FROM Tag") == ["0"])
        #expect(try session.answer(delete, #", "id": "a""#)["changes.Employee.deleted"] == "2")
    }

    @Test func `the last part of a sync can be tried when the others are committed`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"id": 3}]"#)
        func part(_ json: String, last: Bool) -> String {
            #"{"op": "sync", "entity": "Employee", "json": \#(json), "part": {"id": "p", "last": \#(last)}}"#
        }
        #expect(try session.job(part(#"[{"id": 1}]"#, last: false)) == "Employee =1")
        let tried = try session.answer(part(#"[{"id": 2}]"#, last: true), #", "dryRun": true"#)
        #expect(tried["examples.Employee.deleted"] == "[3]")
        #expect(try session.job(part(#"[{"id": 2}]"#, last: true)) == "Employee =1 -1")
    }
}
