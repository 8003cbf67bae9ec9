import Foundation
import Testing

/// The reports and the exit status of `broker submit` when a part of the input cannot be submitted.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SubmitFaultTests {
    private func submit(_ programs: Programs, _ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"] + arguments, input: input)
    }

    private func count(_ programs: Programs) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee")
    }

    private func lines(_ ids: ClosedRange<Int>) -> String { ids.map { "{\"id\": \($0)}\n" }.joined() }

    @Test
    func `a broken last line is reported with its position, records before it are committed, and the rest can follow`()
        throws
    {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write(lines(1...1_999) + "{\"id\": 2000, \"na", to: "e.ndjson")
        let broken = try submit(programs, ["--batch-records", "300", "--id", "load", "e.ndjson"])
        #expect(broken.status == 1)
        #expect(broken.complaints.contains("e.ndjson, line 2000, column 14 (byte "))
        #expect(broken.complaints.contains("the 1999 records before it were sent, nothing after it"))
        #expect(broken.complaints.contains("records committed: 1 to 1999"))
        #expect(broken.complaints.contains("--batch-records 300 --id load-after-1999 --skip 1999 e.ndjson"))
        #expect(broken.output.contains("1999 records in 7 jobs committed"))
        #expect(try count(programs) == ["1999"])
        try programs.write(lines(1...2_001), to: "e.ndjson")
        let rest = try submit(programs, ["--skip", "1999", "--id", "rest", "--json", "e.ndjson"])
        #expect(rest.status == 0)
        #expect(rest.output.contains(#""records":2,"#) && rest.output.contains(#""committed":[[2000,2001]]"#))
        #expect(try count(programs) == ["2001"])
    }

    @Test(arguments: [
        ("[{\"id\": 1}, {\"id\": 2}", 2, "line 1, column 22"), ("[{\"id\": 1}, {\"id\": 2", 1, "line 1, column 13"),
        ("[{\"id\": 1},\n {\"id\": 2},\n]", 2, "line 3, column 1"),
        ("[{\"id\": 1} {\"id\": 2}]", 1, "line 1, column 12"),
        ("{\"id\": 1}\n{\"id\": 2\n{\"id\": 3}\n", 1, "in the record that begins at line 2"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": \"x}\n{\"id\": 3}\n", 1, "line 2, column 22"),
        ("{\"id\": 1}\n{\"id\": 02}\n{\"id\": 3}\n", 1, "line 2, column 8"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": nul}\n", 1, "line 2, column 19"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": \"\\x\"}\n", 1, "line 2, column 20"),
        ("{\"id\": 1}\n{\"id\": 2]\n", 1, "line 2, column 9"), ("{\"id\": 1}\n}\n{\"id\": 2}\n", 1, "line 2, column 1"),
        ("hello", 0, "line 1, column 1 (byte 0)"),
        ("<html>", 0, "line 1, column 1 (byte 0): expected a record, saw '<'"),
        ("\u{1E}{\"id\": 1\u{1E}{\"id\": 2}", 0, "saw a record separator"),
        (String(repeating: "[", count: 600), 0, "nested deeper than 508 levels"),
    ])
    func `complete records before a fault are committed, and the fault is reported with its position`(
        input: String, committed: Int, place: String
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        for records in ["1", "100"] {
            let result = try submit(programs, ["--batch-records", records], input)
            #expect(result.status == 1)
            #expect(result.complaints.contains(place), "\(result.complaints)")
            #expect(result.output.contains("\(committed) record\(committed == 1 ? "" : "s") in "))
            #expect(try count(programs) == ["\(committed)"])
        }
    }

    @Test func `an input without records is an error, unless it is allowed`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        for input in ["", " \n", "[]"] {
            let result = try submit(programs, [], input)
            #expect(result.status == 1)
            #expect(result.complaints == "broker: standard input holds no records; --empty allows that\n")
            let allowed = try submit(programs, ["--empty"], input)
            #expect(allowed.status == 0)
            #expect(allowed.complaints == "broker: standard input holds no records\n")
        }
        try programs.write("[{\"id\": 1}]", to: "one.json")
        try programs.write("[]", to: "none.json")
        #expect(try submit(programs, ["one.json", "none.json"]).status == 1)
        #expect(try submit(programs, ["--take", "1", "one.json", "none.json"]).status == 0)
        #expect(try submit(programs, ["--skip", "1", "one.json"]).status == 0)
    }

    @Test func `as many records are submitted as requested`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write(lines(1...10), to: "a.ndjson")
        try programs.write(lines(11...20), to: "b.ndjson")
        let part = try submit(
            programs, ["--skip", "3", "--take", "9", "--batch-records", "4", "--json", "a.ndjson", "b.ndjson"])
        #expect(part.status == 0 && part.output.contains(#""records":9,"#), "\(part)")
        #expect(
            try Database(programs.path("store.sqlite")).rows("SELECT min(id), max(id), count(*) FROM Employee")
                == ["4|12|9"])
    }

    @Test func `keys that the model does not name fail their records where that is asked for`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let records = "{\"id\": 1, \"nmae\": \"a\"}\n{\"id\": 2}\n"
        let failed = try submit(programs, ["--unknown", "fail"], records)
        #expect(failed.status == 1)
        #expect(
            failed.complaints.contains(
                "standard input, line 1 (record 1): unknownKey at /json/0: The model does not name"),
            "\(failed.complaints)")
        let skipped = try submit(programs, ["--unknown", "fail", "--on-invalid", "skip"], records)
        #expect(skipped.status == 3 && skipped.complaints.contains("unknownKey"), "\(skipped.complaints)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT id FROM Employee") == ["2"])
    }

    @Test func `byte order marks and record separators are read`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        for (input, total) in [
            ("\u{FEFF}[{\"id\": 1}]", 1), ("\u{1E}{\"id\": 2}\n\u{1E}{\"id\": 3}\n", 3),
            ("\u{FEFF}{\"id\": 4}\n\u{FEFF}{\"id\": 5}\n", 5),
        ] {
            let result = try submit(programs, [], input)
            #expect(result.status == 0, "\(result.complaints)")
            #expect(try count(programs) == ["\(total)"])
        }
        let broken = try submit(programs, [], "\u{FEFF}{\"id\": 6]")
        #expect(broken.complaints.contains("line 1, column 9 (byte 11)"))
        let encoded = try programs.shell(
            "printf '[1]' | iconv -t UTF-16LE | \(programs.executable("broker").path) submit --socket broker.sock "
                + "--entity Employee")
        #expect(encoded.complaints.contains("iconv -f UTF-16"))
    }

    @Test func `a root is keys or a JSON Pointer, in each line of NDJSON`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let lines = "{\"data\": {\"a/b.c\": [{\"id\": 1}]}}\n{\"data\": {\"a/b.c\": [{\"id\": 2},\n{\"id\": 3}]}}\n"
        #expect(try submit(programs, ["--root", "/data/a~1b.c"], lines).status == 0)
        #expect(try count(programs) == ["3"])
        let nested = #"{"pages": [{"rows": {"id": 4}}, {"rows": [{"id": 5, "name": "é\n"}]}]}"#
        #expect(try submit(programs, ["--root", "/pages/1/rows"], nested).status == 0)
        #expect(try submit(programs, ["--root", "pages"], #"{"pages": {"id": 6}}"#).status == 0)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT max(id), count(*) FROM Employee") == ["6|5"])
        let missing = try submit(programs, ["--root", "/data/x"], lines)
        #expect(missing.status == 1)
        #expect(missing.complaints.contains(#"there is no "x" at /data; there is "a/b.c""#), "\(missing.complaints)")
        let second = try submit(programs, ["--root", "/data"], "{\"data\": {\"id\": 7}}\n{\"date\": 1}\n")
        #expect(second.complaints.contains("line 2, column 1") && second.output.contains("1 record in 1 job"))
        #expect(try submit(programs, ["--root", "/a~2"], "{}").status == 2)
    }

    @Test func `a missing file, a failed job and a broken file are all reported, and the rest is committed`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write("{\"id\": 1}\n{\"id\": \"x\"}\n{\"id\": 3}\n", to: "bad.ndjson")
        try programs.write("[{\"id\": 4}, ?]", to: "broken.json")
        try programs.write("[{\"id\": 5}]", to: "good.json")
        let files = ["bad.ndjson", "gone.json", "broken.json", "good.json"]
        let result = try submit(programs, ["--batch-records", "1"] + files)
        #expect(result.status == 1)
        #expect(result.complaints.contains("bad.ndjson, line 2 (record 2): invalidValue"), "\(result.complaints)")
        #expect(result.complaints.contains("gone.json cannot be read: No such file"))
        #expect(result.complaints.contains("broken.json, line 1, column 13"))
        #expect(result.complaints.contains("bad.ndjson: records committed: 1, 3; failed: 2"))
        #expect(result.complaints.contains("to go on, correct broken.json and run: "))
        #expect(result.complaints.contains("--batch-records 1 --skip 1 broken.json\n"))
        #expect(result.complaints.contains("--batch-records 1 --skip 1 --take 1 bad.ndjson\n"))
        #expect(!result.complaints.contains("good.json"))
        #expect(result.output.contains("4 records in 4 jobs committed"))
        let all = try submit(programs, ["--json"] + files)
        #expect(
            all.output.contains(#""failures":[{"message":"bad.ndjson, line 2"#)
                && all.output.contains(#""fault":{"message":"#))
    }

    @Test(arguments: [
        ([], "name the records' entity by --entity"), (["--entity", "Employe"], "with a name that the model has"),
        (["--mapping", "x"], "with a name that the model has"),
    ])
    func `where an option is wrong, no record is to be corrected`(options: [String], remedy: String) throws {
        let programs = try Programs()
        let store = ["submit", "--store", "app.sqlite", "--model", "model.json"]
        let result = try programs.run("broker", store + options, input: lines(1...3))
        #expect(result.status == 1 && result.complaints.contains(remedy), "\(result.complaints)")
        #expect(!result.complaints.contains("correct records") && !result.complaints.contains("--take"))
        #expect(result.output == "0 records in 0 jobs committed\n")
    }

    @Test func `a failed trial counts no job as committed`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let result = try submit(programs, ["--dry-run"], "{\"id\": \"x\"}")
        #expect(result.status == 1 && result.complaints.contains("correct record 1 of "), "\(result.complaints)")
        #expect(result.output == "0 records in 0 jobs tried; nothing was written\n")
    }

    @Test func `a name that is wrong or missing is reported with what was meant`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let wrong = try programs.run("broker", ["entities", "--socket", "broker.sock", "Employe"])
        #expect(wrong.status == 1 && wrong.complaints.contains("did you mean \"Employee\"?"), "\(wrong.complaints)")
        let option = try programs.run("broker", ["delete", "--entiti", "Employee", "4"])
        #expect(option.status == 2 && option.complaints.contains("Did you mean '--entity'?"), "\(option.complaints)")
        let command = try programs.run("broker", ["help", "sumbit"])
        #expect(command.status == 2 && command.output.isEmpty, "\(command)")
        let gone = try programs.run("broker", ["fetch", "--store", "gone.sqlite", "Employee"])
        #expect(gone.status == 2 && gone.complaints.contains("There is no store gone.sqlite"), "\(gone.complaints)")
    }
}
