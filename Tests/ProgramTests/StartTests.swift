import TestSupport
import Broker
import BrokerClient
import Foundation
import Testing

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
        ("--synchronous", "sometimes"), ("--modell", "x"),
    ])
    func `an invalid number is reported in one line that names its option, with status 2`(
        option: String, value: String
    ) throws {
        #expect(try refusal(2, ["\(option)=\(value)"]).contains(option))
    }

    @Test func `the other programs refuse such numbers, too`() throws {
        for (program, arguments) in [
            ("broker", ["submit", "--entity", "E", "--max-in-flight", "9223372036854775807"]),
            ("broker", ["submit", "--entity", "E", "--batch-records", "0"]),
            ("brokerload", ["run", "--jobs", "9223372036854775807"]),
            ("brokerload", ["records", "--jobs", "1000000", "--records", "1000000"]),
            ("brokerload", ["records", "--first", "9223372036854775807"]),
            ("brokerload", ["run", "--in-flight", "9223372036854775807"]),
        ] {
            let result = try programs.run(program, arguments)
            #expect(result.status == 2, "\(program) \(arguments): \(result.complaints)")
            #expect(result.complaints.split(separator: "\n").count == 1)
        }
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

    @Test func `a start that fails after creating the store deletes it again, but no existing store`() throws {
        let before = try names
        let arguments = ["--model", "model.json", "--store", "store.sqlite", "--socket", "missing/new.sock"]
        #expect(try programs.run("brokerd", arguments).status == 1)
        #expect(try names == before)
        let server = try programs.startServer()
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(try programs.run("brokerd", arguments).status == 1)
        #expect(try names.contains("store.sqlite"))
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

    @Test func `a store that is deleted under the server acknowledges nothing more`() async throws {
        let server = try programs.startServer()
        let broker = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        let first: [UInt8] = Array(#"[{"id": 1}]"#.utf8)
        _ = try await broker.process(first, as: "Employee")
        try FileManager.default.removeItem(atPath: programs.path("store.sqlite"))
        for id in 2...3 {
            let json: [UInt8] = Array("[{\"id\": \(id)}]".utf8)
            let error = await #expect(throws: BrokerError.self) { try await broker.process(json, as: "Employee") }
            #expect("\(error as Any)".contains("store.sqlite was deleted or moved"), "\(error as Any)")
        }
        broker.close()
        #expect(server.isRunning)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
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
