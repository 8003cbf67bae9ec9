import ArgumentParser
import Broker
import BrokerFastJSON
import BrokerJSON
import BrokerModel
import Foundation
import Testing

@testable import BrokerCommand
@testable import BrokerCommandLine
@testable import brokerd
@testable import brokerload

/// The common parts of all programs, without starting one.
@Suite(.timeLimit(.minutes(5))) struct CommandLineTests {
    @Test(arguments: [
        ("0", 0), ("65536", 65_536), ("64K", 65_536), ("64k", 65_536), ("64KiB", 65_536), ("64 KB", 65_536), ("9b", 9),
        ("1.5K", 1_536), ("16M", 16 << 20), ("2G", 2 << 30), ("1T", 1 << 40), ("8191T", 8191 << 40),
    ])
    func `a size has bytes or a unit`(text: String, bytes: Int) throws {
        #expect(ByteSize(argument: text)?.bytes == bytes)
        #expect(ByteSize(argument: ByteSize(bytes).description)?.bytes == bytes)
    }

    @Test(arguments: [
        "", "M", "-1", "+1", "1.", ".5K", "1.5", "1.0001K", "1X", "1iB", "1BB", "1KK", "1e3", "8388608T", "٣",
        "1000000000000000000", "0.0000000000000000000000000001",
    ])
    func `what is no size is refused`(text: String) {
        #expect(ByteSize(argument: text) == nil)
    }

    @Test(arguments: [
        ("0", "0s", 0), ("30", "30s", 30), ("90s", "90s", 90), ("5m", "5m", 300), ("120", "2m", 120),
        ("2h", "2h", 7_200),
        ("7d", "7d", 604_800), ("500ms", "500ms", 1), ("0.5", "500ms", 1), ("1.5 s", "1500ms", 2),
        ("10 min", "10m", 600),
    ])
    func `a time has seconds or a unit`(text: String, description: String, seconds: Int) throws {
        let time = try #require(TimeSpan(argument: text))
        #expect(time.description == description)
        #expect(time.seconds == seconds)
        #expect(TimeSpan(argument: description) == time)
    }

    @Test(arguments: ["", "s", "-1", "1.0005", "5M", "1y", "365001d", "999999999999999999h"])
    func `what is no time is refused`(text: String) {
        #expect(TimeSpan(argument: text) == nil)
    }

    @Test func `a size out of range is reported with units`() throws {
        let error = #expect(throws: (any Error).self) { try Brokerd.parse(Self.server + ["--max-frame-bytes", "1G"]) }
        #expect(Brokerd.message(for: error!) == "--max-frame-bytes must be 1 to 16777215, but is 1G.")
        for (option, remedy) in [("--max-memory", "Give bytes"), ("--drain-timeout", "Give seconds")] {
            let wrong = #expect(throws: (any Error).self) { try Brokerd.parse(Self.server + [option, "1Q"]) }
            #expect(OptionUnits.remedy(for: Brokerd.message(for: wrong!)).contains(remedy))
        }
        #expect(Brokerd.helpMessage().contains("(default: 64M)"))
    }

    private static let server = ["--model", "m", "--store", "s", "--socket", "b"]

    @Test func `sizes and times reach the server's limits`() throws {
        let options =
            Self.server + [
                "--max-memory", "2M", "--max-job-memory", "3K", "--max-bytes-in-flight", "4096", "--feed-bytes", "1G",
                "--drain-timeout", "2m", "--keep-outcomes-seconds", "1d",
            ]
        let limits = try Brokerd.parse(options).limits
        #expect(limits.coordinator.memory == 2 << 20)
        #expect(limits.coordinator.jobMemory == 3 << 10)
        #expect(limits.coordinator.bytes == 4_096)
        #expect(limits.feedBytes.bytes == 1 << 30)
        #expect(limits.drainTimeout.seconds == 120)
        #expect(limits.keepOutcomesSeconds.seconds == 86_400)
    }

    private static let programs: [any ParsableCommand.Type] = [RootCommand.self, Brokerd.self, Brokerload.self]

    /// The arguments that lead to each command.
    private static func paths(_ command: any ParsableCommand.Type) -> [[String]] {
        [[]] + command.configuration.subcommands.flatMap { next in paths(next).map { [next._commandName] + $0 } }
    }

    @Test func `every command of every program has a version`() {
        for program in Self.programs {
            for path in Self.paths(program) {
                let end = #expect(throws: (any Error).self) { try program.parseAsRoot(path + ["--version"]) }
                #expect(end.map { program.fullMessage(for: $0) } == BrokerVersion.text, "\(path)")
            }
        }
    }

    @Test func `the version has the commit that the programs were built from, when the build knows it`() {
        #expect(BrokerVersion.text(ofCommit: "40779def") == BrokerVersion.text(ofCommit: "") + "+g40779def")
        let commit = ProcessInfo.processInfo.environment["BROKER_COMMIT"] ?? ""
        #expect(BrokerVersion.text == BrokerVersion.text(ofCommit: commit))
    }

    @Test(arguments: [
        (["sumbit", "file"], "There is no command \"sumbit\"; did you mean \"submit\"?"),
        (["model", "chek", "m.json"], "There is no command \"chek\"; did you mean \"check\"?"),
        (["frobnicate"], "There is no command \"frobnicate\"."),
        (["submit", "sumbit"], nil), (["--jsn", "sumbit"], nil), (["help", "submit"], nil), ([], nil),
        (["help", "sumbit"], "There is no command \"sumbit\"; did you mean \"submit\"?"),
    ])
    func `a command that does not exist is reported with the one that was meant`(arguments: [String], fault: String?) {
        #expect(CommandPath(RootCommand.self, arguments).fault == fault)
    }

    @Test func `a name that no command resembles is an argument of the default one`() {
        #expect(
            CommandPath(Brokerload.self, ["baselin"]).fault
                == "There is no command \"baselin\"; did you mean \"baseline\"?")
        #expect(CommandPath(Brokerload.self, ["frobnicate"]).fault == nil)
        #expect(CommandPath(RootCommand.self, ["model", "check", "m.json"]).name == "broker model check")
        #expect(CommandPath(Brokerload.self, ["baseline"]).name == "brokerload baseline")
    }

    @Test(arguments: [
        (["delete", "--entiti", "Employee", "4"], "Unknown option '--entiti'. Did you mean '--entity'?"),
        (["relate", "--entity=Employee", "--frobnicate"], "Unknown option '--frobnicate'."),
        (["delete", "--where=x", "--", "--entiti"], nil),
    ])
    func `an option that the command lacks is found where a required one is missing`(
        arguments: [String], fault: String?
    ) {
        #expect(CommandPath(RootCommand.self, arguments).unknownOption(in: arguments) == fault)
    }

    @Test func `a value that is none of an option's is reported with the nearest one, on one line`() async throws {
        let error = await #expect(throws: (any Error).self) {
            try await SubmitCommand.asyncParse(["--entity", "E", "--type", "jsn"])
        }
        let line = UsageFault.line(SubmitCommand.message(for: try #require(error)))
        #expect(
            line
                == "The value 'jsn' is invalid for '--type <type>'. It is one of json, ndjson, csv, tsv, form, xml; did you "
                + "mean \"json\"?")
        #expect(UsageFault.line("One.\n  - two") == "One. - two")
    }

    @Test func `a value that is refused is reported with the form of one that is not`() {
        #expect(OptionUnits.remedy(for: "Missing value for '--sort <attribute>'").contains("OPTION=VALUE"))
        let wrong = "The value 'x' is invalid for '--max-delete <count>'"
        #expect(OptionUnits.remedy(for: wrong).contains("10%"))
        #expect(OptionUnits.remedy(for: "The value 'x' is invalid for '--limit <count>'").isEmpty)
    }

    @Test func `the words of the protocol are completed`() {
        let script = RootCommand.completionScript(for: .bash)
        for words in ["fail'$'\\n''skip", "pause'$'\\n''resume"] { #expect(script.contains(words), "\(words)") }
    }

    @Test func `the exit statuses are those of the page, in their order`() throws {
        let rows = try Repository.text(of: "protocol/guides/commands.md").components(separatedBy: "\n")
            .filter { $0.wholeMatch(of: /\| \d+ \| .* \|/) != nil }
        #expect(rows == ExitStatus.allCases.map { "| \($0.rawValue) | \($0.meaning) |" })
        for status in ExitStatus.allCases {
            #expect(RootCommand.configuration.discussion.contains("\(status.rawValue) \(status.meaning)"))
        }
    }
}

/// External text writes only characters to a terminal.
@Suite(.timeLimit(.minutes(5))) struct TerminalOutputTests {
    private let programs: Programs
    private static let escape = "\u{1B}[2J\u{9B}31m\u{202E}\n"

    init() throws { programs = try Programs() }

    private func check(_ result: Programs.Result, quotes: String, line: Int = #line) {
        for text in [result.complaints, result.output] {
            let bad = text.unicodeScalars.filter {
                $0 != "\n" && ($0.value < 0x20 || (0x7F...0x9F).contains($0.value) || $0.value == 0x202E)
            }
            #expect(bad.isEmpty, "line \(line): \(text.debugDescription)")
            #expect(
                text.split(separator: "\n").allSatisfy { $0.hasPrefix("broker") || !text.hasPrefix("broker") },
                "line \(line): \(text.debugDescription)")
        }
        #expect((result.complaints + result.output).contains(quotes), "line \(line): \(result)")
    }

    @Test func `keys, headers, names of files and messages of the server are escaped`() throws {
        let store = ["--store", "app.sqlite", "--model", "model.json"]
        let escaped = #"\u{1B}[2J\u{9B}31m\u{202E}\u{A}"#
        let key = Self.escape.debugDescription.replacing("\\u{1B}", with: "\\u001b").replacing(
            "\\u{9B}", with: "\u{9B}"
        )
        .replacing("\\u{202E}", with: "\u{202E}")
        let unknown = try programs.run(
            "broker", ["submit", "--entity", "Employee"] + store, input: "{\"id\": 1, \(key): 2}")
        #expect(unknown.status == 0)
        check(unknown, quotes: escaped)
        try programs.write("id,\"x\(Self.escape)\"\n2,3\n", to: "e.csv")
        check(try programs.run("broker", ["submit", "--entity", "Employee", "e.csv"] + store), quotes: "x\(escaped)")
        check(
            try programs.run("broker", ["submit", "--entity", "Employee", "no\(Self.escape)file"] + store),
            quotes: "no\(escaped)file")
        check(
            try programs.run("broker", ["submit", "--entity", "E\(Self.escape)"] + store, input: "{\"id\": 1}"),
            quotes: "E\(escaped)")
        // A line of the output, not of the complaints.
        try programs.write(#"{"entities": {"E": {"attributes": {"text": "string"}}}}"#, to: "m\(Self.escape).json")
        check(try programs.run("broker", ["model", "check", "m\(Self.escape).json"]), quotes: "m\(escaped).json: good")
        check(try programs.run("broker", ["await", "a\(Self.escape)"] + store), quotes: "a\(escaped)")
        check(try programs.run("broker", ["stats", "--\(Self.escape)"]), quotes: #"\u{1B}[2J"#)
        check(
            try programs.run(
                "broker", ["submit", "--entity", "Employee"] + store, input: "{\"id\": \(key)}"), quotes: #"\u{1B}[2J"#)
    }

    @Test func `values in tables are escaped, and those in JSON and CSV are data`() throws {
        let store = ["--store", "app.sqlite", "--model", "model.json"]
        let input = "{\"id\": 1, \"name\": \"a\\u001b[2J\u{9B}b\"}"
        #expect(try programs.run("broker", ["submit", "--entity", "Employee"] + store, input: input).status == 0)
        check(
            try programs.run("broker", ["fetch", "Employee", "--table"] + store),
            quotes: #"a\u{1B}[2J\u{9B}b"#)
        let csv = try programs.run("broker", ["fetch", "Employee", "--csv"] + store)
        #expect(csv.output.contains("1,a\u{1B}[2J\u{9B}b"))
        let json = try programs.run("broker", ["fetch", "Employee", "--json"] + store)
        #expect(json.output.contains("\"a\\u001b[2J\u{9B}b\""), "\(json.output.debugDescription)")
    }
}

/// The tables of `broker fetch`.
@Suite(.timeLimit(.minutes(5))) struct TableLayoutTests {
    private func table(_ json: String, terminal: Int?) throws -> (lines: [String], omitted: [String]) {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            let rows = document.root.elements.map(FetchedCell.cells)
            var columns = FetchedColumns(of: rows)
            let lines = rows.map { columns.line($0) }
            let layout = TableLayout(columns.names, lines, terminal: terminal)
            return ([layout.header] + lines.map(layout.line), layout.omitted)
        }
    }

    @Test func `numbers are at the right, and wide and combining characters count by their columns`() throws {
        let (lines, _) = try table(
            #"[{"id": 1, "name": "李小龍", "n": 1.5}, {"id": 12, "name": "e\u0301", "n": null}, {"id": 3, "name": "x", "n": -10}]"#,
            terminal: 80)
        #expect(lines == ["id  name      n", " 1  李小龍  1.5", "12  e\u{301}", " 3  x       -10"])
    }

    @Test func `a table is never wider than the terminal`() throws {
        let row = (0..<12).map { #""column\#($0)": "\#(String(repeating: $0 % 2 == 0 ? "ab" : "李", count: 3 * $0))""# }
        let json = "[{\(row.joined(separator: ","))}, {\"number\": 12345678901234567890123}]"
        for terminal in [1, 2, 7, 30, 79, 80, 137, 138, 200, 400] {
            let (lines, omitted) = try table(json, terminal: terminal)
            for line in lines { #expect(Terminal.width(of: line) <= terminal, "\(terminal): \(line)") }
            #expect(omitted.isEmpty == (terminal >= 138), "\(terminal): \(omitted)")
        }
        let (lines, _) = try table(
            #"[{"id": 7, "text": "0123456789", "more": "0123456789012345678901234"}]"#, terminal: 30)
        #expect(lines[1] == " 7  0123456789  01234567890123…" || Terminal.width(of: lines[1]) == 30, "\(lines)")
        #expect(lines[1].contains("0123456789  "), "a column with room is not cut")
    }

    @Test func `the columns of leading paths come first, in the order of the paths`() throws {
        let json = #"[{"a": 1, "b": {"x": 2, "id": 3}, "bc": 4, "id": 5}]"#
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        withExtendedLifetime(document) {
            let rows = document.root.elements.map(FetchedCell.cells)
            let columns = FetchedColumns(of: rows, leading: ["id", "b.id", "b", "none"])
            #expect(columns.names == ["id", "b.id", "b.x", "a", "bc"])
        }
    }

    @Test func `a value that is wider than the first ones is cut on a terminal alone`() throws {
        let document = try JSONDocument(parsing: JSONText(copying: Array(#"[{"n": 12}, {"n": 200000}]"#.utf8)))
        withExtendedLifetime(document) {
            let lines = document.root.elements.map { FetchedCell.cells(of: $0).map(Optional.some) }
            let first = [lines[0]]
            #expect(TableLayout(["n"], first, terminal: nil).line(lines[1]) == "200000")
            #expect(TableLayout(["n"], first, terminal: 80).line(lines[1]) == "2…")
        }
    }

    @Test func `a terminal gets no control characters, whatever is cut`() throws {
        let text = String(repeating: "\u{1B}[2J\n\u{9B}\u{202E}", count: 100)
        let escaped = text.unicodeScalars.map {
            $0.value < 0x20 ? "\\u00\(String($0.value + 0x100, radix: 16).suffix(2))" : String($0)
        }
        for terminal in [1, 2, 9, 10, 60] {
            let (lines, _) = try table(#"[{"a": "\#(escaped.joined())"}]"#, terminal: terminal)
            #expect(
                lines.joined().unicodeScalars.allSatisfy {
                    $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0.value != 0x202E
                })
        }
    }

    @Test func `a nested object that is null in some rows has the columns of its values alone`() throws {
        let (lines, _) = try table(#"[{"id": 1, "d": null}, {"id": 2, "d": {"x": 1, "y": "z"}}]"#, terminal: nil)
        #expect(lines == ["id  d.x  d.y", " 1", " 2    1  z"])
        let rest = try JSONDocument(parsing: JSONText(copying: Array(#"{"id": 3, "late": 4, "none": null}"#.utf8)))
        withExtendedLifetime(rest) {
            var columns = FetchedColumns(names: ["id"])
            #expect(columns.line(FetchedCell.cells(of: rest.root)).map { $0?.text } == ["3"])
            #expect(columns.missing == ["late"], "what has no column is reported")
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct ProgressBarTests {
    @Test func `a progress line is never wider than the terminal`() {
        for columns in 0...130 {
            for (share, records) in [(0.0, 0), (0.33, 1_200_000), (1, 123_456_789), (nil, 5_000)] as [(Double?, Int)] {
                let line = ProgressBar.line(columns: columns, share: share, records: records, perSecond: 600_000)
                #expect(line.count <= columns, "\(line)")
            }
        }
        func line(_ columns: Int) -> String {
            ProgressBar.line(columns: columns, share: 0.5, records: 1_200_000, perSecond: 600_000)
        }
        #expect(
            line(120) == "[" + String(repeating: "#", count: 15) + String(repeating: ".", count: 15)
                + "] 50 %, 1200000 records committed, 600000 a second")
        #expect(line(63) == "[######......] 50 %, 1200000 records committed, 600000 a second")
        #expect(line(37) == "[######.......] 50 %, 1200000 records")
        #expect(line(20) == "50 %, 1200000 records" || line(20) == "50 %")
        #expect(line(4) == "50 %")
    }

    @Test func `the time that is left is estimated from the time so far`() {
        #expect(ProgressBar.left(after: 1.9, share: 0.5) == nil && ProgressBar.left(after: 60, share: 0.009) == nil)
        #expect(ProgressBar.left(after: 10, share: 0.25) == "30 s left")
        let line = ProgressBar.line(columns: 70, share: 0.25, left: "30 s left", records: 9, perSecond: 3)
        #expect(line == "[####...............] 25 %, 30 s left, 9 records committed, 3 a second")
    }
}

@Suite(.timeLimit(.minutes(5))) struct WarningCountsTests {
    @Test func `the warnings of all jobs are one line for each code and entity`() {
        var warnings = WarningCounts()
        for job in 1...3 {
            warnings.add(.init(code: .unknownKey, entity: "A", key: "one", count: 2))
            for key in 1...12 where key % job == 0 {
                warnings.add(.init(code: .unknownKey, entity: "B", key: "k\(key)", count: 1))
            }
        }
        warnings.add(.init(code: .inexact, entity: "A", key: "price", count: 1))
        warnings.add(.init(code: .inexact, entity: "B", key: "x"))
        warnings.add(.init(code: .inexact, entity: "B", key: "y", count: 3))
        warnings.add(.init(code: .objectNotFound, entity: "A", count: 2))
        warnings.add(.init(code: .deletionSkipped, entity: "B"))
        warnings.add(.init(code: .init(rawValue: "later"), count: 4))
        #expect(
            warnings.lines == [
                "the model does not name these keys of A: one 6 times",
                "the model does not name these keys of B: k6 3 times, k12 3 times, k2 2 times, k3 2 times, k4 2 times, "
                    + "k8 2 times, k9 2 times, k10 2 times, k1 once, k5 once, and 2 more, which --json lists",
                "attributes of A do not hold values exactly (decimal keeps every digit, and a date as many as its "
                    + "\"precision\"): price once",
                "attributes of B do not hold values exactly (decimal keeps every digit, and a date as many as its "
                    + "\"precision\"): y 3 times, x once",
                "2 keys name no A", "no B was deleted, because a record was skipped", "later, 4 times",
            ])
        for (key, line) in [
            ("lamp.enabled", "lamp.enabled once"),
            (
                "\"lamp.enabled\"",
                "\"lamp.enabled\" once (the model names a key with dots by an array: [\"http.status\"])"
            ),
        ] {
            var paths = WarningCounts()
            paths.add(.init(code: .unknownKey, entity: "A", key: key, count: 1))
            #expect(paths.lines == ["the model does not name these keys of A: " + line])
        }
        var writer = JSONWriter()
        warnings.write(to: &writer)
        let json = String(decoding: writer.bytes, as: UTF8.self)
        #expect(json.hasPrefix(#"[{"code":"unknownKey","entity":"A","key":"one","count":6},{"code":"unknownKey","#))
        #expect(
            json.hasSuffix(
                #","key":"y","count":3},{"code":"objectNotFound","entity":"A","count":2},{"code":"#
                    + #""deletionSkipped","entity":"B","count":1},{"code":"later","count":4}]"#))
    }
}
