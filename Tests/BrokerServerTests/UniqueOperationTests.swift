import TestSupport
import Testing

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

    private static let policies = ["", #", "onInvalid": "skip""#]

    @Test(arguments: policies) func `a sync may give a value to another object than had it`(policy: String) throws {
        #expect(
            try session.job(sync(#"[{"id": 2, "mail": "x", "floor": 1, "seat": "a"}, {"id": 3, "mail": "y"}]"#), policy)
                == "Employee +2 -2")
        #expect(try employees() == ["2|x", "3|y"])
    }

    @Test(arguments: policies) func `a value may be claimed before the operation that frees it`(
        policy: String
    ) throws {
        #expect(try session.job(process(#"{"id": 2, "mail": "x"}"#) + "," + delete("[1]"), policy) == "Employee +1 -1")
        let later =
            process(#"{"id": 3, "mail": "x"}"#) + ","
            + #"{"entity": "Employee", "object": 2, "json": {"mail": "z"}}"#
        #expect(try session.job(later, policy) == "Employee +1 ~1")
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
        let answer = try session.answer(claiming + "," + delete("[9]"), Self.policies[1])
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
