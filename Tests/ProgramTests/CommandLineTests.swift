import ArgumentParser
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
        #expect(try ByteSize(parsing: text).bytes == bytes)
        #expect(try ByteSize(parsing: ByteSize(bytes).description).bytes == bytes)
    }

    @Test(arguments: [
        "", "M", "-1", "+1", "1.", ".5K", "1.5", "1.0001K", "1X", "1iB", "1BB", "1KK", "1e3", "8388608T", "٣",
        "1000000000000000000", "0.0000000000000000000000000001",
    ])
    func `what is no size is refused with its text`(text: String) {
        let fault = #expect(throws: ValidationError.self) { try ByteSize(parsing: text) }
        #expect(fault?.message.contains("\"\(text)\"") == true)
    }

    @Test(arguments: [
        ("0", "0s", 0), ("30", "30s", 30), ("90s", "90s", 90), ("5m", "5m", 300), ("120", "2m", 120),
        ("2h", "2h", 7_200),
        ("7d", "7d", 604_800), ("500ms", "500ms", 1), ("0.5", "500ms", 1), ("1.5 s", "1500ms", 2),
        ("10 min", "10m", 600),
    ])
    func `a time has seconds or a unit`(text: String, description: String, seconds: Int) throws {
        let time = try TimeSpan(parsing: text)
        #expect(time.description == description)
        #expect(time.seconds == seconds)
        #expect(try TimeSpan(parsing: description) == time)
    }

    @Test(arguments: ["", "s", "-1", "1.0005", "5M", "1y", "365001d", "999999999999999999h"])
    func `what is no time is refused with its text`(text: String) {
        let fault = #expect(throws: ValidationError.self) { try TimeSpan(parsing: text) }
        #expect(fault?.message.contains("\"\(text)\"") == true)
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

    @Test func `the usage of every command fits into 80 columns, and loses no argument`() {
        func commands(_ command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
            [command] + command.configuration.subcommands.flatMap(commands)
        }
        for program in Self.programs {
            for command in commands(program) {
                let help = program.helpMessage(for: command, columns: 80)
                let wrapped = HelpText.wrapped(help, columns: 80)
                #expect(help.contains("USAGE: "), "\(command)")
                #expect(wrapped.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(command)")
                #expect(wrapped.split { $0.isWhitespace } == help.split { $0.isWhitespace }, "\(command)")
            }
        }
        let usage = "USAGE: broker x [--one <a>] [--two <b> ...]"
        #expect(HelpText.wrapped(usage, columns: 30) == "USAGE: broker x [--one <a>]\n       [--two <b> ...]")
        #expect(HelpText.wrapped(usage, columns: 80) == usage)
    }

    @Test func `a value that is none of an option's is reported with the nearest one, on one line`() throws {
        let error = #expect(throws: (any Error).self) { try SubmitCommand.parse(["--entity", "E", "--type", "jsn"]) }
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
