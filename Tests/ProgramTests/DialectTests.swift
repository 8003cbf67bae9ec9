import Foundation
import TestSupport
import Testing

/// Inputs as programs write them: dialects of CSV, bad lines, formats without a name, pipes without an end.
@Suite(.timeLimit(.minutes(5))) struct InputDialectTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ arguments: [String], _ store: String = "a") throws -> Programs.Result {
        try programs.run("broker", ["submit", "--entity", "Item", "--store", "\(store).sqlite"] + arguments)
    }

    private func rows(_ sql: String, _ store: String = "a") throws -> [String] {
        try Database(programs.path("\(store).sqlite")).rows(sql)
    }

    @Test(arguments: [
        ("sep=;\nid;price\n1;1,5\n", ["--decimal", ","], "1|1.5"),
        ("# made by x\n# today\nid\tprice\n1\t2\n\t\n", [], "1|2"),
        ("Sales of today\nid|price\n1|'2'\n", ["--skip-lines", "1", "--quote", "'"], "1|2"),
        ("id,price\n1,NA\n", ["--null", "NA"], "1|NULL"),
        ("id,price\n1,\"a\\\"b\"\n;2,c\n", ["--escape", "\\", "--comment", ";"], "1|a\"b"),
        ("id,price,,\n1,x,,\n", [], "1|x"), ("id,price\n1,x,,\n", [], "1|x"), ("id,price\r1,x\r", [], "1|x"),
    ])
    func `dialects of CSV are read`(text: String, options: [String], expected: String) throws {
        try programs.write(text, to: "a.csv")
        let result = try submit(options + ["a.csv"])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(try rows("SELECT id, price FROM Item") == [expected])
    }

    @Test func `what is assumed about CSV is said once, and the command that goes on has its options`() throws {
        try programs.write("1,Ada,36.5\n2,Bob,41.5\n", to: "a.csv")
        let result = try submit(["--identity", "column_1", "a.csv"])
        #expect(result.status == 0)
        let notes = result.complaints.split(separator: "\n").filter { $0.contains("is read as a record") }
        #expect(notes.count == 1 && notes[0].contains("a.csv: the first line (1, Ada, 36.5)"), "\(result.complaints)")
        #expect(try rows("SELECT column_1, column_2, column_3 FROM Item") == ["1|Ada|36.5", "2|Bob|41.5"])
        try programs.write("3,Eve,1\n4\n", to: "b.csv")
        let failed = try submit(["--no-header", "b.csv"])
        #expect(failed.status == 1 && failed.complaints.contains("--no-header --skip 1 b.csv"), "\(failed.complaints)")
        let wrong = try submit(["--encoding", "NO-SUCH", "--quote", "ab", "a.csv"])
        #expect(wrong.status == 2 && wrong.complaints.contains("--encoding"), "\(wrong.complaints)")
    }

    @Test func `comments before the header are left out, however many there are`() throws {
        let comments = (1...40).map { "# \($0), a \"note\n" }.joined()
        try programs.write(comments + "id,name\n1,x\n", to: "a.csv")
        let result = try submit(["a.csv"])
        #expect(result.status == 0 && result.complaints.contains("the first 40 lines begin with #"), "\(result)")
        #expect(try rows("SELECT id, name FROM Item") == ["1|x"])
    }

    @Test func `a header that is longer than a name is shortened, and the description has all of it`() throws {
        let question = "How satisfied are you with " + String(repeating: "the service and ", count: 16) + "all?"
        try programs.write("id,\"\(question)\"\n1,7\n", to: "a.csv")
        #expect(try submit(["a.csv"]).status == 0)
        let model = try String(contentsOfFile: programs.path("a.model.json"), encoding: .utf8)
        #expect(model.contains("\"description\": \"\(question): in all 1"), "\(model)")
        #expect(try rows("SELECT * FROM Item") == ["1|7|NULL"])
        let names = try rows("SELECT name FROM pragma_table_info('Item')")
        #expect(names[1].hasPrefix("How_satisfied_are_you_with_the_service") && names[1].utf8.count <= 120)
    }

    @Test func `a line that is no record is skipped where that is asked for, and its text is in the file of rejects`()
        throws
    {
        try programs.write("{\"id\":1}\n{\"id\":2,\n{\"id\":3}\n{\"id\":\"\\ud800\"}\n{\"id\":5", to: "a.ndjson")
        let result = try submit(["--on-invalid", "skip", "--rejects", "r.ndjson", "--json", "a.ndjson"])
        #expect(result.status == 3, "\(result.complaints)")
        #expect(
            result.output.contains(#""code":"unreadable""#) && result.output.contains(#""file":"a.ndjson","line":2"#))
        #expect(try rows("SELECT id FROM Item") == ["1", "3"])
        let rejects = try String(contentsOfFile: programs.path("r.ndjson"), encoding: .utf8).split(separator: "\n")
        #expect(rejects.count == 3 && rejects[0].hasPrefix(#"{"text":"{\"id\":2,","code":"unreadable","message":"#))
        #expect(rejects[2].hasSuffix(#""file":"a.ndjson","line":5}"#), "\(rejects)")
        let failed = try submit(["a.ndjson"], "b")
        #expect(failed.status == 1 && failed.complaints.contains("a.ndjson, line 3, column 1"), "\(failed.complaints)")
        let many = try submit(["--on-invalid", "skip", "--max-unreadable", "2", "a.ndjson"], "c")
        #expect(
            many.status == 1 && many.complaints.contains("more than 2 lines that cannot be read"), "\(many.complaints)")
        // A resumed run reads the lines again, and they are in the file once.
        for count in [3, 3] {
            _ = try submit(["--on-invalid", "skip", "--resume", "--rejects", "s.ndjson", "a.ndjson"], "d")
            let lines = try String(contentsOfFile: programs.path("s.ndjson"), encoding: .utf8).split(separator: "\n")
            #expect(lines.count == count)
        }
        let checked = try submit(["--check", "a.ndjson"])
        #expect(
            checked.status == 1 && checked.complaints.contains("a.ndjson, line 4: unreadable"), "\(checked.complaints)")
    }

    @Test func `the content says what a file is, and tables of JSON are records`() throws {
        try programs.write("id,a\n1,x\n", to: "a.txt")
        #expect(try submit(["a.txt"]).status == 0)
        try programs.write("[\"id\",\"a\"]\n[2,\"y\"]\n", to: "a.ndjson")
        let rows = try submit(["a.ndjson"])
        #expect(
            rows.status == 0 && rows.complaints.contains("the first row names the fields: id, a"), "\(rows.complaints)")
        #expect(try self.rows("SELECT id, a FROM Item") == ["1|x", "2|y"])
        let piped = try programs.shell(
            "echo '[1, 2]' | \(programs.executable("broker").path) submit --entity Item --store b.sqlite")
        #expect(piped.status == 0, "\(piped.complaints)")
        #expect(try self.rows("SELECT value FROM Item", "b") == ["1", "2"])
        try programs.write("PAR1\u{15}", to: "a.parquet")
        let parquet = try submit(["a.parquet"], "c")
        #expect(parquet.status == 1 && parquet.complaints.contains("duckdb -c"), "\(parquet.complaints)")
    }

    @Test func `names of CSV with dots are the keys that the model has, in every command`() throws {
        try programs.write("id,No.,a..b,geo.lat,x,x.y\n1,2,3,4,5,6\n", to: "a.csv")
        #expect(try submit(["a.csv"]).status == 0)
        #expect(try rows("SELECT No, a_b, geo_lat, x, x_y FROM Item") == ["2|3|4|5|6"])
        let model = try String(contentsOfFile: programs.path("a.model.json"), encoding: .utf8)
        #expect(model.contains(#""key": ["No."]"#) && model.contains(#""key": ["x.y"]"#), "\(model)")
        try programs.write(
            #"{"entities": {"Item": {"identity": "id", "attributes": {"id": "integer64", "status": "#
                + #"{"type": "integer64", "key": ["http.status"]}}}}}"#, to: "b.model.json")
        try programs.write("id,http.status\n7,404\n", to: "b.csv")
        let server = try PageServer { _ in
            PageServer.response(200, ["Content-Type: text/csv"], "id,http.status\n8,500\n")
        }
        defer { server.stop() }
        for arguments in [["submit", "b.csv"], ["sync", "b.csv"], ["load", server.url("/b")]] {
            let result = try programs.run(
                "broker", [arguments[0], "--entity", "Item", "--store", "b.sqlite", arguments[1]])
            #expect(result.status == 0 && !result.complaints.contains("http"), "\(result)")
        }
        #expect(try rows("SELECT id, status FROM Item", "b") == ["7|404", "8|500"])
    }

    @Test func `lines of JSON with commas between them are records`() throws {
        try programs.write("{\"id\":1},\n{\"id\":tru},\n{\"id\":3},\n", to: "a.ndjson")
        let result = try submit(["--on-invalid", "skip", "a.ndjson"])
        #expect(result.status == 3 && result.complaints.contains("a.ndjson, line 2"), "\(result.complaints)")
        #expect(try rows("SELECT id FROM Item") == ["1", "3"])
    }

    /// A frame of the protocol has less than 16 MiB.
    @Test func `a record that fits no frame of the protocol is stored without a server, and read again`() throws {
        var generator = SeededGenerator()
        var bytes = Data(count: 18 << 20)
        bytes.withUnsafeMutableBytes { bytes in
            for index in stride(from: 0, to: bytes.count, by: 8) {
                bytes.storeBytes(
                    of: UInt64.random(in: 0...UInt64.max, using: &generator), toByteOffset: index, as: UInt64.self)
            }
        }
        let text = bytes.base64EncodedString()
        try programs.write("[{\"id\": 1}, {\"id\": 2, \"data\": \"\(text)\"}, {\"id\": 3}]", to: "a.json")
        let result = try submit(["a.json"])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(try rows("SELECT id, length(data) FROM Item") == ["1|NULL", "2|\(text.utf8.count)", "3|NULL"])
        let fetched = try programs.run("broker", ["fetch", "Item", "--store", "a.sqlite", "--object", "2"])
        #expect(fetched.status == 0 && fetched.output.utf8.count > text.utf8.count, "\(fetched.complaints)")
    }

    @Test func `a pipe that does not end is stored as it comes, and none of it twice`() throws {
        mkfifo(programs.path("pipe"), 0o600)
        let broker = programs.executable("broker").path
        let process = try programs.start("\(broker) submit --entity Item --store a.sqlite --flush 50ms pipe")
        let pipe = try #require(FileHandle(forWritingAtPath: programs.path("pipe")))
        // Less than a record, a record, and two at once.
        for (text, ids) in [("{\"id\":", []), ("1}\n", ["1"]), ("{\"id\":2}{\"id\":3}\n", ["1", "2", "3"])] {
            try pipe.write(contentsOf: Data(text.utf8))
            func isStored() -> Bool { (try? rows("SELECT id FROM Item ORDER BY id")) == ids }
            while !ids.isEmpty, !isStored(), process.isRunning { sched_yield() }
        }
        try pipe.close()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(try rows("SELECT id FROM Item ORDER BY id") == ["1", "2", "3"])
    }

    @Test(
        arguments: [
            (
                "a.xml",
                "<rss version='2.0'><channel><title>t</title><item><guid>g</guid><title>a</title></item></channel></rss>",
                "a"
            ),
            ("a.json", #"{"jsonrpc": "2.0", "id": 9, "result": [{"guid": "g", "title": "a"}]}"#, "a"),
            (
                "a.json",
                #"{"items": [{"guid": "g", "title": "a"}], "page": 1}{"items": [{"guid": "h", "title": "b"}], "page": 2}"#,
                "a,b"
            ),
        ])
    func `records are found in a feed of one, in the result of a call, and in pages one after the other`(
        name: String, text: String, titles: String
    ) throws {
        try programs.write(text, to: name)
        let result = try submit([name])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(try rows("SELECT group_concat(title) FROM (SELECT title FROM Item ORDER BY title)") == [titles])
    }

    @Test func `a list at a root that is larger than what shows it is read whole`() throws {
        let pad = String(repeating: "x", count: 1_000)
        let list = (1...9_000).map { "{\"id\": \($0), \"pad\": \"\(pad)\"}" }.joined(separator: ",")
        try programs.write("{\"type\": \"list\", \"features\": [\(list)], \"last\": true}", to: "a.json")
        let result = try submit(["--ignore", "pad", "a.json"])
        #expect(result.status == 0 && result.complaints.contains("taken from /features"), "\(result.complaints)")
        #expect(try rows("SELECT count(*) FROM Item") == ["9000"])
    }
}
