import Testing

/// `broker relate`, `sync` and `delete`, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct OperationCommandTests {
    private static let model = """
        {"entities": {
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"department": {"entity": "Department"}, "tags": {"entity": "Tag", "toMany": true}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}},
          "Room": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"}}
        }}
        """

    /// A server with objects of all entities.
    private func start() throws -> Programs {
        let programs = try Programs()
        try programs.write(Self.model, to: "model.json")
        _ = try programs.startServer()
        let records = [
            (
                "Employee",
                #"[{"id": -1, "department": {"id": 7, "name": "R&D"}}, {"id": 2, "department": 7}, {"id": 3}]"#
            ),
            ("Tag", #"[{"word": "red"}, {"word": "7"}]"#),
            ("Room", #"[{"floor": 1, "number": "a"}, {"floor": 1, "number": "b"}]"#),
        ]
        for (entity, json) in records {
            let result = try broker(programs, ["submit", "--entity", entity], json)
            guard result.status == 0 else { throw Programs.Failure(what: result.complaints) }
        }
        return programs
    }

    private func broker(
        _ programs: Programs, _ arguments: [String], _ input: String = ""
    ) throws -> Programs.Result {
        try programs.run("broker", arguments + ["--socket", "broker.sock"], input: input)
    }

    private func rows(_ programs: Programs, _ sql: String) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows(sql)
    }

    // MARK: - delete

    @Test func `keys of every form name the objects to delete`() throws {
        let programs = try start()
        let employees = try programs.run(
            "broker", ["delete", "--socket", "broker.sock", "--entity", "Employee", "--", "-1", "3"])
        #expect(employees.status == 0, "\(employees.complaints)")
        #expect(employees.output.contains("1 job committed"))
        #expect(try rows(programs, "SELECT id FROM Employee") == ["2"])
        #expect(try broker(programs, ["delete", "--entity", "Tag", "red", "7"]).status == 0)
        #expect(try broker(programs, ["delete", "--entity", "Room", #"{"floor": 1, "number": "a"}"#]).status == 0)
        #expect(try rows(programs, "SELECT number FROM Room") == ["b"])
        #expect(try rows(programs, "SELECT count(*) FROM Tag") == ["0"])
    }

    @Test func `a predicate takes arguments, and keys that name nothing are warned of`() throws {
        let programs = try start()
        let selected = try broker(
            programs,
            ["delete", "--entity", "Employee", "--where", "department.name == %@", "--argument", "R&D", "--json"])
        #expect(selected.status == 0, "\(selected.complaints)")
        #expect(selected.output.contains(#""deleted":2"#))
        let missing = try broker(programs, ["delete", "--entity", "Employee", "3", "8", "9"])
        #expect(missing.status == 0)
        #expect(missing.complaints == "broker: warning: 2 keys name no Employee\n")
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `delete reports faults by its exit status`() throws {
        let programs = try start()
        let delete = ["delete", "--entity", "Employee"]
        #expect(try broker(programs, delete).status == 2)
        #expect(try broker(programs, delete + ["1", "--where", "id == 1"]).status == 2)
        #expect(try broker(programs, delete + ["1", "--argument", "1"]).status == 2)
        let wrong = try broker(programs, delete + ["--where", "idd == 1"])
        #expect(wrong.status == 1)
        #expect(wrong.complaints.contains("invalidPredicate"))
        let bad = try broker(programs, delete + ["2", "x"])
        #expect(bad.status == 1)
        #expect(bad.complaints.hasPrefix("broker: key 2 (x): invalidValue"), "\(bad.complaints)")
        let skipped = try broker(programs, delete + ["2", "x", "--on-invalid", "skip"])
        #expect(skipped.status == 3)
        #expect(skipped.complaints.contains("skipped, key 2 (x)"))
        #expect(try programs.run("broker", delete + ["1", "--socket", "nowhere.sock"]).status == 4)
    }

    // MARK: - relate

    @Test func `relate takes a key, a file or standard input`() throws {
        let programs = try start()
        let relate = ["relate", "--entity", "Employee", "--object", "3", "--relationship"]
        #expect(try broker(programs, relate + ["department", "--to", "7"]).status == 0)
        #expect(try rows(programs, "SELECT department FROM Employee WHERE id = 3") == ["7"])
        #expect(try broker(programs, relate + ["tags"], #"["red", {"word": "new"}]"#).status == 0)
        try programs.write("\n\"blue\"\n", to: "tag.json")
        #expect(try broker(programs, relate + ["tags", "tag.json"]).status == 0)
        #expect(
            try rows(programs, "SELECT destination FROM Employee_tags ORDER BY 1") == ["blue", "new", "red"])
        #expect(try broker(programs, relate + ["department", "--to", "null"]).status == 0)
        #expect(try rows(programs, "SELECT department FROM Employee WHERE id = 3") == ["NULL"])
    }

    @Test func `relate reports faults by its exit status, and sends no broken JSON`() throws {
        let programs = try start()
        let relate = ["relate", "--entity", "Employee", "--object", "99", "--relationship", "department"]
        let missing = try broker(programs, relate + ["--to", "7"])
        #expect(missing.status == 1)
        #expect(missing.complaints.contains("objectNotFound"))
        #expect(try broker(programs, relate + ["--to", "7", "--on-invalid", "skip"]).status == 3)
        let broken = try broker(programs, relate, #"{"id": 7}, "id": "x""#)
        #expect(broken.status == 1)
        #expect(broken.complaints.contains("standard input, line 1, column 10"), "\(broken.complaints)")
        #expect(broken.complaints.contains("nothing was sent"))
        #expect(try broker(programs, relate + ["--to", "7", "file.json"]).status == 2)
        #expect(try broker(programs, ["relate", "--entity", "Employee"]).status == 2)
    }

    // MARK: - sync

    @Test func `sync deletes what matches and is in none of the files`() throws {
        let programs = try start()
        try programs.write(#"[{"id": 2, "name": "b"}]"#, to: "a.json")
        try programs.write("{\"id\": 4}\n{\"id\": 5}\n", to: "b.ndjson")
        let result = try broker(programs, ["sync", "--entity", "Employee", "a.json", "b.ndjson"])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("3 records in 1 job committed"))
        #expect(try rows(programs, "SELECT id, name FROM Employee ORDER BY id") == ["2|b", "4|NULL", "5|NULL"])
        let some = try broker(
            programs,
            ["sync", "--entity", "Employee", "--where", "id IN %@", "--argument", "[4, 9]", "--root", "rows"],
            #"{"rows": [{"id": 6}]}"#)
        #expect(some.status == 0, "\(some.complaints)")
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["2", "5", "6"])
        let withoutDelete = try broker(
            programs, ["sync", "--entity", "Employee", "--action", "insert", "--action", "update"], #"[{"id": 7}]"#)
        #expect(withoutDelete.status == 0)
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["4"])
    }

    @Test func `an input without records deletes only when it is meant`() throws {
        let programs = try start()
        let refused = try broker(programs, ["sync", "--entity", "Employee"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("--empty"))
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["3"])
        #expect(try broker(programs, ["sync", "--entity", "Employee", "--empty"], "[]").status == 0)
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `nothing is sent of a broken input, and an invalid record is reported by its line`() throws {
        let programs = try start()
        let broken = try broker(programs, ["sync", "--entity", "Employee"], "[{\"id\": 2},\n{\"id\": 4}")
        #expect(broken.status == 1)
        #expect(broken.complaints.contains("line 2") && broken.complaints.contains("nothing was sent"))
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3"])
        try programs.write("{\"id\": 2}\n", to: "good.ndjson")
        try programs.write("{\"id\": 4}\n\n{\"id\": \"x\"}\n", to: "bad.ndjson")
        let sync = ["sync", "--entity", "Employee", "good.ndjson", "bad.ndjson"]
        let failed = try broker(programs, sync)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("bad.ndjson, line 3 (record 2): invalidValue"), "\(failed.complaints)")
        let skipped = try broker(programs, sync + ["--on-invalid", "skip"])
        #expect(skipped.status == 3)
        #expect(skipped.complaints.contains("no Employee was deleted, because a record was skipped"))
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3", "4"])
    }

    @Test func `a sync that is larger than a job is sent in parts, and the last one deletes`() throws {
        let programs = try start()
        try programs.write((10..<30).map { "{\"id\": \($0)}\n" }.joined(), to: "a.ndjson")
        try programs.write("{\"id\": 3}\n{\"id\": 30}\n", to: "b.ndjson")
        let sync = ["sync", "--entity", "Employee", "--batch-bytes", "50", "a.ndjson", "b.ndjson"]
        let result = try broker(programs, sync)
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("22 records in 6 jobs committed"), "\(result.output)")
        #expect(try rows(programs, "SELECT count(*), min(id), max(id) FROM Employee") == ["22|3|30"])
        #expect(try rows(programs, "SELECT count(*) FROM _broker_open_syncs") == ["0"])
    }

    @Test func `a part that fails ends the sync, and nothing is deleted`() throws {
        let programs = try start()
        // Gathered records that were not sent when the input breaks are not sent any more.
        for (bad, count) in [
            ("{\"id\": \"x\"}", "2 records"), ("{\"id\": 1", "1 record"), ("{\"id\": 02}", "2 records"),
        ] {
            try programs.write("{\"id\": 10}\n{\"id\": 11}\n\(bad)\n{\"id\": 12}\n", to: "a.ndjson")
            let result = try broker(
                programs, ["sync", "--entity", "Employee", "--batch-bytes", "12", "--id", "s\(bad.count)", "a.ndjson"])
            #expect(result.status == 1)
            #expect(result.complaints.contains("line 3"), "\(result.complaints)")
            #expect(
                result.complaints.contains(
                    "\(count) \(count == "1 record" ? "is" : "are") committed, and nothing"))
            #expect(result.complaints.contains("under another --id"))
            #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3", "10", "11"])
        }
    }

    @Test func `a job of an id is applied once`() throws {
        let programs = try start()
        let delete = ["delete", "--entity", "Employee", "--id", "once", "2"]
        #expect(try broker(programs, delete).status == 0)
        _ = try broker(programs, ["submit", "--entity", "Employee"], #"{"id": 2}"#)
        let again = try broker(programs, delete + ["--json"])
        #expect(again.status == 0)
        #expect(again.output.contains(#""duplicates":1"#))
        #expect(try rows(programs, "SELECT count(*) FROM Employee WHERE id = 2") == ["1"])
    }
}
