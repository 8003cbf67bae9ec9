import BrokerCommandLine
import Foundation
import TestSupport
import Testing

@testable import brokerd

/// The configuration of brokerd: file, then environment, then command line.
@Suite(.timeLimit(.minutes(5))) struct ConfigurationTests {
    /// Made of the help of all options, which takes a while.
    private static let options = Brokerd.options

    private let folder = TemporaryFolder()

    private func file(_ text: String) throws -> String {
        try text.write(toFile: folder.path("a.json"), atomically: true, encoding: .utf8)
        return folder.path("a.json")
    }

    /// The arguments that are parsed, for a configuration file and a command line.
    private func arguments(
        _ text: String, _ environment: [String: String] = [:], _ given: [String] = []
    ) throws -> [String] {
        let configuration = try ServerConfiguration(
            ["--config", file(text)] + given, environment: environment, options: Self.options)
        return Array(configuration.arguments.dropLast(2 + given.count))
    }

    @Test func `every option has a key in the file and a variable, which the command line replaces`() throws {
        let options = Self.options
        let names = Set(options.map(\.name))
        #expect(
            names.isSuperset(of: [
                "model", "store", "socket", "journal", "max-memory", "allow-user", "log-level", "migrate",
            ]))
        #expect(names.isDisjoint(with: ["config", "check", "help", "version", "no-journal"]))
        for option in options {
            let spelling = "--\(option.name)"
            let isFlag = option.kind == .flag
            let (one, other) = isFlag ? ("true", "no") : ("1", "2")
            let text = "{\"\(option.name)\": \(one)}"
            #expect(try arguments(text) == [isFlag ? spelling : "\(spelling)=1"])
            #expect(option.variable == "BROKERD_" + option.name.uppercased().replacingOccurrences(of: "-", with: "_"))
            #expect(try arguments("{}", [option.variable: one]) == [isFlag ? spelling : "\(spelling)=1"])
            #expect(try arguments(text, [option.variable: other]) == (isFlag ? [] : ["\(spelling)=2"]))
            #expect(try arguments(text, [option.variable: other], isFlag ? [spelling] : [spelling, "3"]).isEmpty)
            #expect(try arguments(text, [:], ["\(spelling)=3"]).isEmpty)
            // The parser knows the argument that was made: at most its value is wrong.
            #expect(!Brokerd.message(for: fault(of: isFlag ? spelling : "\(spelling)=1")).contains("Unknown option"))
        }
    }

    private func fault(of argument: String) -> any Error {
        do {
            _ = try Brokerd.parse([argument])
            return CommandFailure(.success)
        } catch {
            return error
        }
    }

    @Test func `options that may be repeated are replaced as a whole, and comments are ignored`() throws {
        let text = """
            // The store of the "shop".
            {
                "model": ["a.json", "b//c.json"],   // the second extends the first
                "journal": false,
                "max-memory": "64M",
            }
            """
        #expect(try arguments(text) == ["--model=a.json", "--model=b//c.json", "--max-memory=64M"])
        #expect(try arguments(text, ["BROKERD_MODEL": "c,d"]).prefix(2) == ["--model=c", "--model=d"])
        #expect(try arguments(text, ["BROKERD_MODEL": "c,d"], ["--model", "e"]) == ["--max-memory=64M"])
        #expect(try arguments(text, [:], ["--no-journal", "--", "--model"]).count == 3)
    }

    @Test(arguments: [
        ("{\n\"stroe\": \"a\"}", #":2: there is no option "stroe"; did you mean "store"?"#),
        ("{\"zzzzzz\": 1}", #":1: there is no option "zzzzzz". `brokerd --help` lists them."#),
        ("{\"config\": \"b.json\"}", "there is no option \"config\""),
        ("{\"journal\": \"yes\"}", "\"journal\" must be true or false, not a text."),
        ("{\n\n\"store\": true}", ":3: \"store\" must be a text or a number, not true or false."),
        ("{\"store\": [\"a\"]}", "\"store\" must be a text or a number, not a list."),
        ("{\"model\": [null]}", "\"model\" must be a text, a number, or a list of them, not a list."),
        ("{\"store\": \"a\",\n\"store\": \"b\"}", ":2: \"store\" is given twice."),
        ("{\"store\": \n}", ":2: this is not JSON: "), ("[]", " is no object."),
    ])
    func `a wrong file is status 2, with the file, the line and the key`(text: String, words: String) throws {
        let failure = #expect(throws: CommandFailure.self) { try arguments(text) }
        #expect(failure?.status == .usage)
        #expect(failure?.message?.hasPrefix(folder.path("a.json")) == true)
        #expect(failure?.message?.contains(words) == true, "\(failure?.message ?? "")")
    }

    @Test func `a wrong value is reported with the place that has it`() throws {
        let path = try file("{\n\"max-memory\": \"many\", \"workers\": 0}")
        let configuration = try ServerConfiguration(
            ["--config", path, "--workers", "4"], environment: ["BROKERD_CONNECTIONS": "0", "BROKERD_OTHER": "1"],
            options: Brokerd.options)
        func place(_ fault: String) -> String { configuration.explain(fault) }
        #expect(
            place("The value 'many' is invalid for '--max-memory <bytes>'").hasPrefix("\(path):2, \"max-memory\": The"))
        #expect(place("--connections must be 1 to 5, but is 0.").hasPrefix("BROKERD_CONNECTIONS: "))
        #expect(place("--workers must be 1 to 5, but is 0.").hasPrefix("--workers"))
        #expect(throws: CommandFailure.self) { try arguments("{}", ["BROKERD_JOURNAL": "perhaps"]) }
    }

    @Test func `the configuration beside the units is one`() throws {
        let text = try Repository.text(of: "scripts/systemd/brokerd.json")
        let made = try arguments(text)
        #expect(made.contains("--store=/var/lib/broker/store.sqlite") && made.contains("--allow-group=broker"))
    }

    @Test func `a server starts with a file alone, and --check beside it reports and touches nothing`() throws {
        let programs = try Programs()
        try programs.write(
            #"{"model": "model.json", "store": "store.sqlite", "socket": "broker.sock", "workers": 2}"#,
            to: "brokerd.json")
        func check(_ arguments: [String] = []) throws -> Programs.Result {
            try programs.run("brokerd", ["--config", "brokerd.json", "--check"] + arguments)
        }
        let new = try check()
        #expect(new.status == 0 && new.complaints.isEmpty, "\(new.complaints)")
        for words in ["2 entities", "The store store.sqlite would be made.", "would be made.\nA start would succeed."] {
            #expect(new.output.contains(words), "\(new.output)")
        }
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
        let server = try programs.startServer(["--config", "brokerd.json"], usesDefaults: false)
        let beside = try check()
        #expect(beside.status == 0)
        #expect(
            beside.output.contains("store.sqlite fits the model.")
                && beside.output.contains("Process \(server.processIdentifier) listens"))
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted()
        let refused = try check(["--socket", "missing/a.sock"])
        #expect(refused.status == 1 && refused.complaints.contains("missing/a.sock"), "\(refused.complaints)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted() == names)
        let wrong = try check(["--socket-group", "nobody-has-this-name"])
        #expect(wrong.status == 2)
    }

    @Test func `--check finds whether the journal is the store's, and whether the metrics file can be written`() throws
    {
        let programs = try Programs()
        try programs.write(
            #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#, to: "model.json")
        func check(_ arguments: String, _ words: String, status: Int32 = 0, line: Int = #line) throws {
            let before = try programs.shell("ls -lR --full-time -I '*-shm'").output
            let result = try programs.shell(
                "'\(programs.executable("brokerd").path)' --check --model model.json --store store.sqlite \(arguments)")
            #expect(result.status == status, "line \(line): \(result.output)\(result.complaints)")
            #expect((result.output + result.complaints).contains(words), "line \(line): \(result)")
            #expect(try programs.shell("ls -lR --full-time -I '*-shm'").output == before, "line \(line)")
        }
        try check("", "The model is valid: 1 entity.")
        try check("--journal", "store.sqlite.journal would be made.")
        let server = try programs.startServer(["--journal"])
        let submit = ["submit", "--socket", "broker.sock", "--entity", "Row"]
        #expect(try programs.run("broker", submit, input: #"{"id": 1}"#).status == 0)
        try check("--journal --socket broker.sock", "store.sqlite.journal is that of the store.")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        try check("", "would be deleted if the store has applied all its jobs.")
        _ = try programs.shell("cp -r store.sqlite.journal other.sqlite.journal")
        try check("--journal --store other.sqlite", "the store was never fed from it", status: 1)
        _ = try programs.shell("rm -r store.sqlite.journal")
        try check("--journal", "is missing: jobs in it that the store has not applied would be lost. A new one would")
        _ = try programs.shell("mkdir store.sqlite.journal")
        try check("--journal", "lacks its files", status: 1)
        try check(
            "--store new.sqlite --metrics-file missing/broker.prom", "missing/broker.prom of --metrics-file", status: 1)
    }
}
