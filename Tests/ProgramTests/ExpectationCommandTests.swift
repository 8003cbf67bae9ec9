import TestSupport
import Testing

/// `--expect`, `--expect-version`, `--links` and `broker adjust`, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct ExpectationCommandTests {
    private static let model = """
        {"entities": {
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "age": "integer16", "motto": "string", "marks": "transformable"},
            "relationships": {"tags": {"entity": "Tag", "toMany": true}}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}}
        }}
        """

    @Test func `a command changes its object only if that is as expected`() throws {
        let programs = try Programs()
        try programs.write(Self.model, to: "model.json")
        _ = try programs.startServer()
        func broker(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
            try programs.run("broker", arguments + ["--socket", "broker.sock"], input: input)
        }
        func tags() throws -> [String] {
            try Database(programs.path("store.sqlite")).rows("SELECT destination FROM Employee_tags ORDER BY 1")
        }
        let records = #"{"id": 3, "age": 64, "tags": ["a", "b"]}"#
        #expect(try broker(["submit", "--entity", "Employee"], records).status == 0)
        let fetched = try broker(["fetch", "Employee", "--versions", "--select", "id"])
        #expect(fetched.status == 2, "selected values have no version")
        let relate = ["relate", "--entity", "Employee", "--object", "3", "--relationship", "tags", "--to"]
        let refused = try broker(relate + ["c", "--expect", "age > 64"])
        #expect(refused.status == 1 && refused.complaints.contains("`expect`"), "\(refused.complaints)")
        #expect(try broker(relate + ["c", "--expect", "age == 64", "--links", "replace"]).status == 0)
        #expect(try tags() == ["c"])
        #expect(try broker(relate + [#"["c"]"#, "--links", "remove"]).status == 0)
        #expect(try tags() == [])

        let adjust = ["adjust", "Employee", "3", "--increment", "age=-4", "--append"]
        #expect(try broker(adjust + ["motto=\"1=1\"", "--append", "marks=[5]", "--expect", "age == 64"]).status == 0)
        #expect(try broker(["adjust", "--entity", "Employee", "3", "--append", "motto= "]).status == 0)
        #expect(
            try Database(programs.path("store.sqlite")).rows("SELECT age, motto, marks FROM Employee") == [
                "60|1=1 |[5]"
            ])
        #expect(try broker(adjust + ["motto=x", "--expect", "age == 64"]).status == 1)
        for wrong in [[], ["--increment", "age"], ["--increment", "=1"], ["4", "--increment", "age=1"]] {
            #expect(try broker(["adjust", "Employee", "3"] + wrong).status == 2, "\(wrong)")
        }

        let json = try broker(["fetch", "Employee", "--versions", "--ndjson"]).output
        let start = try #require(json.firstRange(of: #""_version":""#)).upperBound
        let version = String(json[start...].prefix(32))
        let delete = ["delete", "Employee", "3", "--expect-version"]
        #expect(try broker(delete + [String(repeating: "0", count: 32)]).status == 1)
        #expect(try broker(["delete", "Employee", "3", "4", "--expect", "age == 64"]).status == 2)
        #expect(try broker(delete + [version, "--expect", "age == 64"]).status == 2)
        #expect(try broker(delete + [version]).status == 0)
    }
}
