import TestSupport
import Testing

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
