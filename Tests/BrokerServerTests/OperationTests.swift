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

    @Test func `nested values of a relate override earlier ones, as in a record`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let relate = #""op": "relate", "entity": "Employee", "object""#
        #expect(
            try session.job("{\(relate): 1, \"relationship\": \"boss\", \"json\": {\"id\": 1, \"boss\": null}}")
                == "Employee =1")
        #expect(
            try session.job("{\(relate): 2, \"relationship\": \"department\", \"json\": {\"id\": 5, \"staff\": null}}")
                == "Department +1, Employee =1")
        #expect(
            try session.rows("SELECT id, boss, department FROM Employee ORDER BY id")
                == ["1|NULL|NULL", "2|NULL|NULL"])
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
