import Broker
import BrokerClient
import BrokerInput
import Dispatch
import Foundation
import Testing

@testable import BrokerCommand

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
        #expect(encoded.complaints.contains("--encoding UTF-16LE"))
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

/// `broker submit` whose server or whose patience ends before its input does.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SubmitLifeTests {
    /// Waits until the server has committed that many jobs.
    private func wait(_ programs: Programs, forJobs count: Int) throws {
        while true {
            let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
            let line = try #require(stats.output.split(separator: "\n").first { $0.hasPrefix("jobs.completed ") })
            let completed = try #require(Int(line.dropFirst("jobs.completed ".count)))
            try #require(completed <= count)
            if completed == count { return }
        }
    }

    @Test(arguments: [true, false])
    func
        `when the server is lost, the report has the committed records, those in doubt, and the command that continues`(
            hasID: Bool
        ) throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        // Records that wait for others are not sent meanwhile.
        let arguments =
            ["--batch-records", "100", "--reconnect-timeout", "0"] + (hasID ? ["--id", "load"] : ["--flush", "1h"])
        let submission = try RunningSubmission(programs, arguments)
        try submission.write(1...101)
        try wait(programs, forJobs: 1)
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        try submission.write(102...301)
        try submission.endInput()
        submission.process.waitUntilExit()
        let complaints = try submission.complaints()
        #expect(submission.process.terminationStatus == 4)
        #expect(complaints.contains("the connection was lost"), "\(complaints)")
        #expect(complaints.contains("standard input: records committed: 1 to 100"))
        #expect(complaints.contains("the same --id") == hasID)
        #expect(complaints.contains("--skip 100") == !hasID)
        #expect(
            try String(contentsOfFile: programs.path("submit.output"), encoding: .utf8)
                .contains("100 records in 1 job committed"))
        _ = try programs.startServer()
        let again = try programs.run(
            "broker",
            ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "100", "--json"]
                + (hasID ? ["--id", "load"] : ["--skip", "100"]),
            input: (1...301).map { "{\"id\": \($0)}\n" }.joined())
        #expect(again.status == 0)
        #expect(again.output.contains("\"duplicates\":\(hasID ? 1 : 0),"))
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["301"])
    }

    @Test(arguments: [(SIGINT, Int32(130)), (SIGTERM, Int32(143))])
    func `a signal ends it with one line that says how far it came, and the command for the rest`(
        signal: Int32, status: Int32
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let submission = try RunningSubmission(programs, ["--batch-records", "100", "--flush", "1h"])
        try submission.write(1...150)
        try wait(programs, forJobs: 1)
        kill(submission.process.processIdentifier, signal)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationReason == .exit)
        #expect(submission.process.terminationStatus == status)
        #expect(
            try submission.complaints()
                == "broker: interrupted: 100 records are committed; to go on, run with the same standard input: "
                + "\(programs.executable("broker").path) submit --socket broker.sock --entity Employee --batch-records 100 "
                + "--flush 1h --skip 100\n")
    }

    @Test(arguments: [true, false])
    func `a signal while a job is not answered says what is committed, and the command that submits the rest`(
        hasID: Bool
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let lines = (1...250).map { "{\"id\": \($0)}\n" }.joined()
        try programs.write(lines, to: "my records.ndjson")
        let options = ["--batch-records", "100"] + (hasID ? ["--id", "load"] : [])
        let submission = try RunningSubmission(programs, options + ["my records.ndjson", "-"])
        // The file is committed. The pause holds the job of standard input, and the end of the submission waits for it.
        try wait(programs, forJobs: 3)
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        try submission.write(251...260)
        try submission.endInput()
        while true {
            let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
            if stats.output.contains("jobs.inFlight 1\n") { break }
        }
        kill(submission.process.processIdentifier, SIGINT)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationStatus == 130)
        let complaints = try submission.complaints()
        #expect(
            complaints.hasPrefix("broker: interrupted: 250 records are committed, 10 more were sent"), "\(complaints)")
        #expect(try programs.run("broker", ["admin", "resume", "--socket", "broker.sock"]).status == 0)
        let command = try #require(complaints.split(separator: ": ").last?.trimmingCharacters(in: .newlines))
        let again = try programs.shell(
            command + " --json", input: (251...260).map { "{\"id\": \($0)}\n" }.joined())
        #expect(again.status == 0, "\(command): \(again.complaints)")
        #expect(again.output.contains(hasID ? "\"duplicates\":" : "\"records\":10,"), "\(again.output)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["260"])
    }

    @Test func `records that failed are submitted by the command that is printed, and no others`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        func write(_ third: String) throws {
            try programs.write(
                (1...9).map { $0 == 5 ? third : "{\"id\": \($0)}" }.joined(separator: "\n"), to: "e.ndjson")
        }
        try write(#"{"id": "x"}"#)
        let failed = try programs.run(
            "broker",
            ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "2", "--json", "e.ndjson"])
        #expect(failed.status == 1)
        let line = try #require(failed.complaints.split(separator: "\n").last { $0.contains("to go on") })
        #expect(line.hasPrefix("broker: to go on, correct records 5 to 6 of e.ndjson and run: "), "\(line)")
        try write(#"{"id": 5}"#)
        let again = try programs.shell(String(try #require(line.split(separator: ": ").last)))
        #expect(again.status == 0 && again.output.contains("\"records\":2,"), "\(again)")
        #expect(again.output.contains("\"inserted\":2,"), "\(again)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["9"])
    }

    @Test(arguments: [UInt16(80), 40, 24, 10])
    func `the progress bar fits the terminal and is removed at the end`(columns: UInt16) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write((1...5_000).map { "{\"id\": \($0)}\n" }.joined(), to: "e.ndjson")
        let submission = try RunningSubmission(programs, ["--batch-records", "50", "e.ndjson", "-"], columns: columns)
        _ = submission.show(until: "\r")
        kill(submission.process.processIdentifier, SIGINT)
        let shown = submission.show(until: "interrupted")
        let drawn = shown.components(separatedBy: "\r\u{1B}[K")
        #expect(drawn.last?.contains("interrupted") == true, "\(shown.debugDescription)")
        #expect(drawn.dropLast().allSatisfy { $0.count <= Int(columns) - 3 }, "\(shown.debugDescription)")
        submission.process.waitUntilExit()
    }
}

/// The commands that submit what a submission has not committed.
@Suite(.timeLimit(.minutes(5))) struct SubmissionContinuationTests {
    /// Reads so many records of the inputs, commits some, and fails others.
    private func lines(
        _ arguments: [String], read: [Int], committed: [[ClosedRange<Int>]], failed: [[ClosedRange<Int>]] = [],
        ended: Int = 0, fault: Bool = false
    ) async throws -> [String] {
        let command = try await SubmitCommand.asyncParse(arguments)
        var state = JobTally.State(
            inputs: command.input.sources.map { SubmittedInput(name: $0.name) })
        for (index, count) in read.enumerated() {
            state.inputs[index].recordsRead = count
            state.inputs[index].recordsSkipped = index == 0 ? command.skip : 0
            state.inputs[index].committed = IndexSet(committed[index].joined())
            state.inputs[index].failed = IndexSet(index < failed.count ? Array(failed[index].joined()) : [])
            state.inputs[index].hasEnded = index < ended
            if fault, index == ended - 1 { state.inputs[index].fault = InputFault(reason: "broken", place: nil) }
        }
        return SubmissionReport(state: state, command: command, given: ["broker", "submit"] + arguments).continuation
            .map {
                $0.replacing("broker submit ", with: "")
            }
    }

    @Test func `unread records follow uncommitted ones, in one command`() async throws {
        #expect(
            try await lines(
                ["--entity", "E", "a", "b", "c"], read: [10, 5, 0], committed: [[1...10], [1...2], []], ended: 1)
                == ["to go on, run: --entity E --skip 2 b c"])
        #expect(
            try await lines(["--entity", "E"], read: [0], committed: [[]])
                == ["to go on, run with the same standard input: --entity E"])
        #expect(
            try await lines(["--entity", "E", "--skip", "3", "--take", "9", "a"], read: [8], committed: [[4...6]])
                == ["to go on, run: --entity E --skip 6 --take 6 a"])
    }

    @Test
    func `each failed range of records has its own command, and no command has the committed records between them`()
        async throws
    {
        #expect(
            try await lines(
                ["--entity", "E", "a"], read: [40], committed: [[1...10, 21...30]], failed: [[11...20, 31...40]],
                ended: 1)
                == [
                    "to go on, correct records 11 to 20 of a and run: --entity E --skip 10 --take 10 a",
                    "to go on, correct records 31 to 40 of a and run: --entity E --skip 30 --take 10 a",
                ])
    }

    @Test func `an input that cannot be read goes on from its fault, and needs other ids`() async throws {
        #expect(
            try await lines(
                ["--entity", "E", "--id", "load", "a", "b"], read: [10, 7], committed: [[1...10], [1...7]], ended: 2,
                fault: true)
                == ["to go on, correct b and run: --entity E --id load-after-2.7 --skip 7 b"])
    }

    @Test func `an unanswered job with an id is sent again unchanged`() async throws {
        #expect(
            try await lines(["--entity", "E", "--id", "load", "--skip", "1", "a"], read: [10], committed: [[2...5]])
                == [
                    "what is committed is not applied again under the same --id; to go on, run: --entity E --id load "
                        + "--skip 1 a"
                ])
    }

    @Test(arguments: [
        [],
        [
            "--socket", "s", "--reconnect-timeout", "3s", "--timeout", "4s", "--path", "/a b", "--batch-records", "7",
            "--batch-bytes",
            "8",
            "--max-in-flight", "2", "--on-invalid", "skip", "--unknown", "fail", "--id", "x", "--json", "--empty",
            "--type",
            "csv", "--root", "/a/b", "--delimiter", ";", "--ragged", "fill", "--skip", "3", "--take", "4", "f", "-",
        ],
        ["--store", "s", "--model", "m", "--model", "n", "--migrate", "keep", "--mapping", "m", "--", "-f"],
        ["--store=-s", "--model", "m", "--entity=--", "--id=-"], ["--entity", "", "a"],
        ["b", "--entity", "a", "--check", "a", "--rejects", "c"],
    ])
    func `the command has every option that was given`(arguments: [String]) async throws {
        let command = try await SubmitCommand.asyncParse(arguments)
        func words(_ given: [String]) -> [String] {
            Array(
                command.words(
                    ["a", "f"] + given, of: command.input.files, skip: command.skip, take: command.take, id: command.id
                ).dropFirst(2))
        }
        #expect(words(words(arguments)) == words(arguments))
        #expect(Set(words(arguments)) == Set(arguments).subtracting(["--rejects", "c"]))
        #expect(try await SubmitCommand.asyncParse(words(arguments)).input.files == command.input.files)
    }

    @Test func `words are quoted for a shell`() throws {
        let words = ["plain", "", "two words", "it's", "a\nb", "é", "\u{1B}[2J'\\", "\u{9B}x", "$(id)", "*", "#"]
        #expect(words.shellText.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
        let programs = try Programs()
        let said = try programs.shell("bash -c " + ["printf '%s\\0' " + words.shellText].shellText)
        #expect(said.output == words.map { $0 + "\0" }.joined(), "\(words.shellText)")
    }
}

/// `--rejects`, `--check` and `--resume` of `broker submit`.
@Suite(.timeLimit(.minutes(5))) struct RejectsTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "model.json", "--entity", "Employee"] + arguments,
            input: input)
    }

    private func names() throws -> [String] {
        try Database(programs.path("app.sqlite")).rows("SELECT name FROM Employee ORDER BY id")
    }

    private func lines(_ file: String) throws -> [[String: Any]] {
        try String(contentsOfFile: programs.path(file), encoding: .utf8).split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
    }

    private static let records = """
        [{"id": 1, "name": "a"},
         {"id": "x",
          "name": 5},
         {"id": 3, "department": {"id": {}}}]
        """

    @Test func `rejected records are in a file with their places, and are submitted from it`() throws {
        try programs.write(Self.records, to: "e.json")
        let first = try submit(["--on-invalid", "skip", "--rejects", "r.ndjson", "--json", "e.json"])
        #expect(first.status == 3, "\(first.complaints)")
        #expect(first.output.contains(#""file":"e.json","line":2,"record":2"#), "\(first.output)")
        let lines = try lines("r.ndjson")
        try #require(lines.count == 2)
        #expect(lines.map { $0["line"] as? Int } == [2, 4] && lines.map { $0["index"] as? Int } == [2, 3])
        #expect(lines[0]["code"] as? String == "invalidValue" && lines[0]["path"] as? String == "/id")
        #expect(lines[1]["path"] as? String == "/department/id")
        #expect((lines[0]["record"] as? [String: Any])?["name"] as? Int == 5)
        #expect(try submit(["--rejects", "r.ndjson"], "[]").complaints.contains("is not empty"))

        let text = try String(contentsOfFile: programs.path("r.ndjson"), encoding: .utf8)
        try programs.write(
            text.replacing(#""x""#, with: "2").replacing(#""name": 5"#, with: #""name": "b""#)
                .replacing(#"{"id": {}}"#, with: "7"), to: "r.ndjson")
        let again = try submit(["--root", "record", "r.ndjson"])
        #expect(again.status == 0, "\(again.complaints)")
        #expect(try names() == ["a", "b", "NULL"])
    }

    @Test
    func `all records of a failed job are in the file, the one at fault with its error, and an empty file is removed`()
        throws
    {
        let input = "[\n" + (1...5).map { #"{"id": \#($0 == 4 ? "\"x\"" : "\($0)")}"# }.joined(separator: ",\n") + "]"
        let failed = try submit(["--batch-records", "2", "--rejects", "r.ndjson"], input)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("2 records in r.ndjson, 1 of them at fault; when"), "\(failed.complaints)")
        let lines = try lines("r.ndjson")
        #expect(lines.map { $0["index"] as? Int } == [3, 4] && lines.map { $0["line"] as? Int } == [4, 5])
        #expect(lines.map { $0["code"] as? String } == [nil, "invalidValue"])
        let text = try String(contentsOfFile: programs.path("r.ndjson"), encoding: .utf8)
        try programs.write(text.replacing(#""x""#, with: "4"), to: "r.ndjson")
        #expect(try submit(["--root", "record", "r.ndjson"]).status == 0)
        #expect(try Database(programs.path("app.sqlite")).rows("SELECT id FROM Employee") == ["1", "2", "3", "4", "5"])
        #expect(try submit(["--rejects", "s.ndjson"], #"{"id": 1}"#).status == 0)
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.ndjson")))
    }

    @Test func `a check finds all faults of all jobs, and writes nothing`() throws {
        let check = try submit(["--check", "--batch-records", "1"], Self.records)
        #expect(check.status == 1)
        #expect(check.complaints.contains("standard input, line 2 (record 2): invalidValue"), "\(check.complaints)")
        #expect(check.complaints.contains("standard input, line 4 (record 3): invalidValue"))
        #expect(check.output == "3 records in 3 jobs checked: 2 faults; nothing was written\n")
        #expect(!FileManager.default.fileExists(atPath: programs.path("app.sqlite")))
        #expect(try submit(["--check"], #"{"id": 1}"#).status == 0)
    }

    @Test func `a check finds every fault of a record, and none that only the others cause`() throws {
        let model = """
            {"entities": {
              "Employee": {"identity": "id", "attributes": {"id": "integer64", "hired": "date", "salary": "decimal",
                "active": "boolean", "level": {"type": "integer16", "optional": false}},
                "relationships": {"department": {"entity": "Department"}}},
              "Department": {"identity": "id", "attributes": {"id": "integer64", "since": "date"}}}}
            """
        try programs.write(model, to: "model.json")
        let records = """
            {"id": 1, "hired": "soon", "salary": "much", "active": "maybe", "level": 1, "department": {"id": 7, "since": "?"}}
            {"id": 2, "level": 3}
            {"id": "x", "level": 3, "salary": "much"}
            {"id": 4, "salary": "much"}
            """
        let check = try submit(["--check", "--rejects", "bad.ndjson"], records)
        #expect(check.status == 1)
        #expect(check.output == "4 records in 1 job checked: 7 faults; nothing was written\n", "\(check.complaints)")
        let found = check.complaints.matches(of: /\(record (\d)\): (\w+) at \/json\/\d([\w\/]*):/).map {
            "\($0.1) \($0.2) \($0.3)"
        }
        #expect(
            found == [
                "1 invalidValue /hired", "1 invalidValue /salary", "1 invalidValue /active",
                "1 invalidValue /department/since", "3 invalidValue /id", "4 invalidValue /salary", "4 missingValue ",
            ], "\(check.complaints)")
        let rejected = try lines("bad.ndjson")
        #expect(rejected.count == 3)
        #expect((rejected[0]["others"] as? [Any])?.count == 3)
    }

    @Test func `a resumed submission skips what is committed, and sends what was corrected`() throws {
        func run(_ second: String) throws -> String {
            try programs.write(
                #"{"id": 1, "name": "a"}"# + "\n\(second)\n" + #"{"id": 3, "name": "c"}"#, to: "e.ndjson")
            return try submit(["--resume", "--batch-records", "1", "e.ndjson"]).output
        }
        #expect(try run(#"{"id": "x"}"#).hasSuffix("2 records in 2 jobs committed\n"))
        let changed = try Database(programs.path("app.sqlite")).rows("SELECT max(sequence) FROM _broker_jobs")
        #expect(
            try run(#"{"id": 2, "name": "b"}"#).hasSuffix("3 records in 3 jobs committed, 2 of them applied before\n"))
        #expect(try run(#"{"id": 2, "name": "b"}"#).hasSuffix("3 of them applied before\n"))
        #expect(try names() == ["a", "b", "c"])
        #expect(changed != ["0"])
    }

    @Test func `a resumed submission warns where a changed job would insert its records again`() throws {
        try programs.write(
            """
            {"entities": {"Line": {"attributes": {"text": "string"}}, "Note": {"parent": "Line", "attributes": {}},
              "Key": {"identity": "id", "attributes": {"id": "integer64"}}, "Sub": {"parent": "Key", "attributes": {}}}}
            """, to: "lines.json")
        for (entity, isWarned) in [("Line", true), ("Note", true), ("Key", false), ("Sub", false)] {
            let result = try programs.run(
                "broker",
                ["submit", "--store", "l.sqlite", "--model", "lines.json", "--entity", entity, "--resume"],
                input: #"{"id": 1, "text": "a"}"#)
            #expect(result.status == 0, "\(result.complaints)")
            #expect(result.complaints.contains("objects of \(entity) may have no identity") == isWarned)
        }
    }

    @Test func `an id follows from the options, the input, the position and the records`() {
        let jobs = ResumedJobs(options: ["E", "skip"])
        let records = Array(#"[{"id":1}]"#.utf8)
        let ids = [
            jobs.id(of: records, from: "e.json", at: 1), jobs.id(of: records, from: "e.json", at: 2),
            jobs.id(of: records, from: "f.json", at: 1), jobs.id(of: [], from: "e.json", at: 1),
            ResumedJobs(options: ["E", "fail"]).id(of: records, from: "e.json", at: 1),
            ResumedJobs(options: ["Es", "kip"]).id(of: records, from: "e.json", at: 1),
        ]
        #expect(Set(ids).count == ids.count)
        #expect(jobs.id(of: records, from: "./e.json", at: 1) == ids[0])
        #expect(ids.allSatisfy { $0.text.utf8.count <= 128 })
    }
}

/// `broker submit`, or another command that reads records, while it runs: its input is written bit by bit, and its standard error may be a terminal.
final class RunningSubmission {
    let process = Process()
    private let input = Pipe()
    private let output: FileHandle
    private let programs: Programs
    /// The other side of the terminal that standard error is.
    private let terminal: FileHandle?

    /// - Parameters:
    ///   - connection: where the server is, or the store.
    ///   - columns: of the terminal; nil when standard error is to be a file.
    init(
        _ programs: Programs, command: String = "submit", _ arguments: [String],
        to connection: [String] = ["--socket", "broker.sock"], columns: UInt16? = nil
    ) throws {
        self.programs = programs
        process.executableURL = programs.executable("broker")
        process.arguments = [command] + connection + ["--entity", "Employee"] + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: programs.folder)
        try programs.write("", to: "submit.output")
        try programs.write("", to: "submit.complaints")
        output = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("submit.output")))
        process.standardInput = input
        process.standardOutput = output
        if let columns {
            let (own, other) = try Self.openTerminal(columns)
            terminal = own
            process.standardError = other
            try process.run()
            try other.close()
        } else {
            terminal = nil
            process.standardError = try FileHandle(
                forWritingTo: URL(fileURLWithPath: programs.path("submit.complaints")))
            try process.run()
        }
    }

    deinit {
        if process.isRunning {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    func write(_ ids: ClosedRange<Int>) throws {
        let lines = ids.map { "{\"id\": \($0)}\n" }.joined()
        try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
    }

    func endInput() throws { try input.fileHandleForWriting.close() }

    func complaints() throws -> String {
        try String(contentsOfFile: programs.path("submit.complaints"), encoding: .utf8)
    }

    /// Reads what is shown on the terminal until it has this text, or the program ends.
    func show(until text: String) -> String {
        var shown = ""
        var space = [UInt8](repeating: 0, count: 1_000)
        while let terminal, !shown.contains(text) {
            // A terminal whose other side is closed cannot be read any more.
            let count = read(terminal.fileDescriptor, &space, space.count)
            guard count > 0 else { break }
            shown += String(decoding: space[..<count], as: UTF8.self)
        }
        return shown
    }

    private static func openTerminal(_ columns: UInt16) throws -> (own: FileHandle, other: FileHandle) {
        // As posix_openpt, unlockpt and ptsname do it, which Swift's Glibc does not have.
        let own = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var lock: Int32 = 0
        var number: Int32 = 0
        guard own >= 0, ioctl(own, 0x4004_5431, &lock) == 0, ioctl(own, 0x8004_5430, &number) == 0 else {
            throw Programs.Failure(what: "no terminal: \(String(cString: strerror(errno)))")
        }
        let other = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        guard other >= 0, ioctl(other, UInt(TIOCSWINSZ), &size) == 0 else {
            throw Programs.Failure(what: "no terminal: \(String(cString: strerror(errno)))")
        }
        return (FileHandle(fileDescriptor: own, closeOnDealloc: true), FileHandle(fileDescriptor: other))
    }
}
