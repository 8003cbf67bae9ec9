import TestSupport
import Broker
import BrokerClient
import BrokerCommandLine
import Foundation
import TestSupport
import Testing

@testable import brokerd

/// Real processes over a real socket.
@Suite(.timeLimit(.minutes(5))) struct BrokerdTests {
    @Test func `SIGTERM finishes what was accepted and ends with status 0`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let broker = try await RemoteBroker.connect(to: .unixSocket(programs.path("broker.sock")))
        var tickets: [SubmittedJob] = []
        for number in 0..<50 {
            let json = RawJSON(#"[{"id": \#(number), "name": "n"}]"#)
            tickets.append(try await broker.submit(Job(.process(json: json, as: "Employee"))))
        }
        kill(server.processIdentifier, SIGTERM)
        for ticket in tickets { _ = try await ticket.completion }
        broker.close()
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        #expect(server.terminationReason == .exit)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite-wal")))
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["50"])
    }

    @Test func `completed jobs survive a kill, and the same jobs sent again are applied once`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let input = (0..<2_000).map { #"{"id": \#($0), "name": "name \#($0)", "department": {"id": \#($0 % 7)}}"# }
            .joined(separator: "\n")
        let broker = try await RemoteBroker.connect(to: .unixSocket(programs.path("broker.sock")))
        var completed = 0
        for number in 0..<20 {
            let json = RawJSON(#"[{"id": \#(number), "name": "first"}]"#)
            let outcome = try await broker.process(json, as: "Employee", id: JobID("job \(number)"))
            completed += outcome.isDuplicate ? 0 : 1
            if number == 10 { kill(server.processIdentifier, SIGKILL) }
            if number == 10 {
                server.waitUntilExit()
                _ = try programs.startServer()
            }
        }
        for number in 0..<20 {
            let json = RawJSON(#"[{"id": \#(number), "name": "first"}]"#)
            let again = try await broker.process(json, as: "Employee", id: JobID("job \(number)"))
            #expect(again.isDuplicate)
        }
        broker.close()
        #expect(completed == 20)
        let submitted = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "100"],
            input: input)
        #expect(submitted.status == 0)
        let database = Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT count(*), count(DISTINCT department) FROM Employee") == ["2000|7"])
        #expect(try database.rows("PRAGMA integrity_check") == ["ok"])
        #expect(try database.rows("PRAGMA foreign_key_check") == [])
        #expect(
            try database.rows(
                "SELECT count(*), count(DISTINCT id), count(DISTINCT sequence) FROM _broker_jobs WHERE id LIKE 'job %'")
                == ["20|20|20"])
    }

    @Test func `a second server on the store or the socket is refused with the process of the first`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        for (store, socket) in [("store.sqlite", "other.sock"), ("other.sqlite", "broker.sock")] {
            let refused = try programs.run(
                "brokerd", ["--model", "model.json", "--store", store, "--socket", socket])
            #expect(refused.status == 1)
            #expect(refused.complaints.split(separator: "\n").count == 1)
            #expect(refused.complaints.contains("process \(server.processIdentifier)"))
        }
        #expect(!FileManager.default.fileExists(atPath: programs.path("other.sqlite")))
    }

    @Test func `wrong arguments are status 2`() throws {
        let programs = try Programs()
        #expect(try programs.run("brokerd", ["--modell", "x"]).status == 2)
        #expect(try programs.run("brokerd", ["--help"]).status == 0)
    }
}

/// brokerd refuses invalid options with one line, and leaves no file.
@Suite(.timeLimit(.minutes(5))) struct StartTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private var names: [String] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter { !$0.hasPrefix(".") }.sorted()
        }
    }

    /// The one line on standard error of a start that is refused and leaves the folder as it was.
    private func refusal(_ status: Int32, _ arguments: [String], store: String = "store.sqlite") throws -> String {
        let before = try names
        // One that starts all the same would serve for ever.
        let words = ["--model", "model.json", "--store", store, "--socket", "new.sock"] + arguments
        let result = try programs.shell(
            "exec timeout \(Patience.seconds) \(programs.executable("brokerd").path) \(words.map { "'\($0)'" }.joined(separator: " "))"
        )
        #expect(result.status == status, "\(result.complaints)")
        let lines = result.complaints.split(separator: "\n")
        #expect(lines.count == 1 && lines.first?.hasPrefix("brokerd: ") == true, "\(result.complaints)")
        #expect(result.output.isEmpty)
        #expect(try names == before)
        return lines.first.map(String.init) ?? ""
    }

    @Test(arguments: [
        ("--keep-outcomes-seconds", "99999999999999999"), ("--keep-outcomes-seconds", "0"),
        ("--keep-outcomes-seconds", "99999999999999999999"), ("--keep-outcomes", "9223372036854775807"),
        ("--keep-outcomes", "-1"), ("--feed-bytes", "-1"), ("--feed-bytes", "9223372036854775807"),
        ("--max-content-bytes", "9223372036854775807"), ("--max-content-bytes", "0"),
        ("--max-frame-bytes", "16777216"), ("--max-bytes-in-flight", "9223372036854775807"),
        ("--max-jobs-in-flight", "9223372036854775807"), ("--jobs-per-connection", "9223372036854775807"),
        ("--connections", "9223372036854775807"), ("--workers", "1000000"), ("--workers", "0"), ("--workers", "many"),
        ("--allow-user", "4294967295"), ("--allow-user", "no such user"), ("--allow-group", "99999999999"),
        ("--allow-group", ""), ("--socket-group", "no such group"), ("--socket-mode", "9999"),
        ("--socket-mode", "0440"),
        ("--socket-mode", "+660"), ("--store-mode", "1777"), ("--store-mode", "rw-r-----"),
        ("--store-mode", "000000660"),
        ("--synchronous", "sometimes"), ("--modell", "x"), ("--user-connections", "0"),
        ("--user-connections", "65534:many"), ("--user-connections", "no such user:8"), ("--user-connections", "0:8"),
        ("--user-bytes-in-flight", "65534:9223372036854775807"), ("--user-bytes-in-flight", "64X"),
        ("--user-jobs-per-second", "65534:-1"), ("--user-jobs-per-second", ":5"), ("--user-jobs-per-second", "root:5"),
    ])
    func `an invalid number is reported in one line that names its option, with status 2`(
        option: String, value: String
    ) throws {
        #expect(try refusal(2, ["\(option)=\(value)"]).contains(option))
    }

    @Test func `a file that is no store is refused with one line and status 1, and does not change`() throws {
        try programs.write(String(repeating: "this is no database\n", count: 99), to: "garbage")
        #expect(try programs.shell("sqlite3 foreign 'CREATE TABLE t (x)'; mkfifo fifo; mkdir dir").status == 0)
        for (store, message) in [
            ("", "has no name"), (":memory:", "in memory"), ("fifo", "is a FIFO"), ("dir", "is a folder"),
            ("garbage", "garbage is no SQLite database"), ("foreign", "foreign is a database, but not one"),
            ("missing/store", "missing/store cannot be reached"), ("/dev/full", "is a device"),
        ] {
            let line = try refusal(1, [], store: store)
            #expect(line.contains(message), "\(line)")
        }
        #expect(try programs.shell("ln -s model.json store.sqlite.lock").status == 0)
        let model = try String(contentsOfFile: programs.path("model.json"), encoding: .utf8)
        #expect(try refusal(1, []).contains("store.sqlite.lock is a symbolic link"))
        #expect(try String(contentsOfFile: programs.path("model.json"), encoding: .utf8) == model)
    }

    @Test func `one store has one server, whatever the name that it is given`() throws {
        let server = try programs.startServer()
        #expect(
            try programs.shell(
                "ln -s store.sqlite link; ln store.sqlite hard; mkdir sub; ln -s ../link sub/link; ln -s . here"
            ).status == 0)
        let names = [
            "store.sqlite", "./store.sqlite", "sub/../store.sqlite", "link", "hard", "sub/link", "here/link",
            programs.path("store.sqlite"), "/proc/self/cwd/store.sqlite",
        ]
        for name in names {
            let line = try refusal(1, [], store: name)
            #expect(line.contains("belongs to another broker, process \(server.processIdentifier)"), "\(line)")
        }
        // An open descriptor is a name as well.
        let result = try programs.shell(
            "exec 9<store.sqlite; exec timeout \(Patience.seconds) \(programs.executable("brokerd").path) --model model.json --store /proc/self/fd/9 "
                + "--socket new.sock")
        #expect(result.status == 1)
        #expect(result.complaints.contains("process \(server.processIdentifier)"), "\(result.complaints)")
    }

    @Test func `stats report how many jobs a transaction has and how long its COMMIT takes`() throws {
        _ = try programs.startServer()
        let submitted = try programs.run("broker", ["submit", "--entity", "Employee"], input: #"[{"id": 1}]"#)
        #expect(submitted.status == 0)
        let result = try programs.run("broker", ["stats", "--socket", "broker.sock"])
        let lines = result.output.split(separator: "\n").map { $0.split(separator: " ") }
        func value(_ name: String) -> Int? { lines.first { $0.first ?? "" == name }?.last.flatMap { Int($0) } }
        #expect(value("batches.jobs.max") == 1)
        #expect(value("batches.commitMicroseconds.max").map { $0 > 0 } == true)
    }

    @Test func `stats report the size of the write-ahead log`() throws {
        _ = try programs.startServer()
        let result = try programs.run("broker", ["stats", "--socket", "broker.sock"])
        let lines = result.output.split(separator: "\n").filter { $0.hasPrefix("wal.") }
        #expect(lines.map { $0.split(separator: " ")[0] } == ["wal.bytes", "wal.uncheckpointedPages"])
    }
}

/// How brokerd ends: real signals to a real process.
@Suite(.timeLimit(.minutes(5))) struct StopTests {
    private let ping = #"{"type": "ping"}"#

    /// Waits for a line with those words.
    private func line(_ words: String, from complaints: Pipe) -> String? {
        var text = ""
        while !text.contains(words) {
            let more = complaints.fileHandleForReading.availableData
            if more.isEmpty { return nil }
            text += String(decoding: more, as: UTF8.self)
        }
        return text.split(separator: "\n").map(String.init).first { $0.contains(words) }
    }

    /// Connects as soon as that can be done.
    private func firstClient(of programs: Programs) throws -> RawClient {
        let deadline = ContinuousClock.now + Patience.duration
        while true {
            do {
                return try RawClient(programs.path("broker.sock"))
            } catch {
                guard ContinuousClock.now < deadline else { throw error }
            }
        }
    }

    /// Jobs with keys in their answers, about 100 KB each.
    private func sendJobs(_ count: Int, _ client: RawClient) throws {
        for number in 0..<count {
            // Another name each time, so that every key is reported each time.
            let records = (0..<20_000).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            try client.send(#"{"id": "\#(number)", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#)
        }
    }

    /// Waits until the jobs have ended. A job that the server has not read yet is asked for again.
    private func wait(forJobs count: Int, _ client: RawClient) throws {
        for number in 0..<count {
            while try client.ask(##"{"type": "await", "id": "\##(number)"}"##).type == "error" {}
        }
    }

    @Test func `SIGTERM right after the first answer finishes what was sent before`() throws {
        for _ in 0..<2 {
            let programs = try Programs()
            let server = try programs.startServer(waitsUntilReady: false)
            let client = try firstClient(of: programs)
            #expect(try client.ask(ping).type == "pong")
            kill(server.processIdentifier, SIGTERM)
            server.waitUntilExit()
            #expect(server.terminationReason == .exit)
            #expect(server.terminationStatus == 0)
            #expect(try client.receive() == nil)
            #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite-wal")))
        }
    }

    @Test func `a second SIGTERM ends at once, and everything committed is there`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting)
        let client = try RawClient(programs.path("broker.sock"))
        try sendJobs(6, client)
        let other = try RawClient(programs.path("broker.sock"))
        try wait(forJobs: 6, other)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("Stopping", from: complaints) != nil)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("at once", from: complaints) != nil)
        server.waitUntilExit()
        #expect(server.terminationReason == .exit)
        #expect(server.terminationStatus == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        _ = try programs.startServer()
        let again = try RawClient(programs.path("broker.sock"))
        for number in 0..<6 {
            let answer = try again.ask(##"{"type": "await", "id": "\##(number)"}"##)
            #expect(answer.type == "completed")
        }
        #expect(try Database(programs.path("store.sqlite")).rows("PRAGMA integrity_check") == ["ok"])
    }

    @Test func `--drain-timeout is how long SIGTERM waits for a client that reads nothing`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(
            ["--drain-timeout", "1"], complaints: complaints.fileHandleForWriting)
        let client = try RawClient(programs.path("broker.sock"))
        try sendJobs(6, client)
        let other = try RawClient(programs.path("broker.sock"))
        try wait(forJobs: 6, other)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("within 1 s of the stop", from: complaints) != nil)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        withExtendedLifetime(client) {}
    }

    @Test func `SIGHUP reads the model again, and the log reports it`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting)
        kill(server.processIdentifier, SIGHUP)
        #expect(line("The model was reloaded, and is in effect.", from: complaints)?.contains("notice") == true)
        #expect(try RawClient(programs.path("broker.sock")).ask(ping).type == "pong")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `a socket in a missing folder leaves no store`() throws {
        let programs = try Programs()
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "s.sqlite", "--socket", "missing/broker.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("missing/broker.sock"))
        #expect(refused.complaints.split(separator: "\n").count == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.sqlite")))
    }

    /// Seconds of processor time that the process has used (proc(5), stat).
    private func processorSeconds(_ process: Int32) throws -> Double {
        let line = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        // The name in parentheses may contain anything; utime and stime are the twelfth and the thirteenth field after it.
        let fields = line.drop { $0 != ")" }.split(separator: " ")
        return (Double(fields[12])! + Double(fields[13])!) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    @Test func `without descriptors the server waits, logs it once, and continues when there are some`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting, limit: "-n 64")
        var clients = try (0..<100).map { _ in try RawClient(programs.path("broker.sock")) }
        #expect(try clients[0].ask(ping).type == "pong")
        #expect(line("No more clients can be accepted", from: complaints) != nil)
        // It looks again after a second; the limit is for how long nothing comes.
        let before = try processorSeconds(server.processIdentifier)
        clients[99].setPatience(seconds: 5)
        #expect(throws: RawClient.Failure.self) { try clients[99].ask(ping) }
        #expect(try processorSeconds(server.processIdentifier) - before < 0.5)
        #expect(try clients[0].ask(ping).type == "pong")
        let last = clients.removeLast()
        clients = []
        last.setPatience(seconds: Patience.seconds)
        #expect(try last.next().type == "pong")
        #expect(line("accepted again", from: complaints) != nil)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }
}

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
        ("{\"journal\": \"yes\"}", "\"journal\" must be true or false, not a string."),
        ("{\n\n\"store\": true}", ":3: \"store\" must be a text or a number, not true."),
        ("{\"store\": [\"a\"]}", "\"store\" must be a text or a number, not an array."),
        ("{\"model\": [null]}", "\"model\" must be a text, a number, or a list of them, not an array."),
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
