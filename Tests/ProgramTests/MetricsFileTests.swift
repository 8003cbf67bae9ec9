import Foundation
import Testing

/// `brokerd --metrics-file` replaces and deletes measurements, and no other file.
@Suite(.timeLimit(.minutes(5))) struct MetricsFileTests {
    private let programs: Programs
    private let files = FileManager.default

    init() throws { programs = try Programs() }

    private func brokerd(_ metrics: String, check: Bool) throws -> Programs.Result {
        try programs.run(
            "brokerd",
            ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock", "--metrics-file", metrics]
                + (check ? ["--check"] : []))
    }

    @Test func `files of the store, other files and what is no file stay, and the check says so`() throws {
        _ = try programs.run(
            "broker", ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee"],
            input: #"[{"id": 1}]"#)
        try files.createDirectory(atPath: programs.path("store.sqlite.journal"), withIntermediateDirectories: false)
        try programs.write("other\n# HELP broker_info 1\n", to: "other.prom")
        try files.createSymbolicLink(atPath: programs.path("link.prom"), withDestinationPath: "/dev/null")
        try files.createSymbolicLink(atPath: programs.path("alias"), withDestinationPath: programs.folder)
        try #require(mkfifo(programs.path("fifo.prom"), 0o600) == 0)
        let names = [
            "store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "store.sqlite-journal", "store.sqlite.lock",
            "alias/store.sqlite-wal", "store.sqlite.journal/a.prom", "model.json", "other.prom", "link.prom",
            "fifo.prom", "store.sqlite.journal",
        ]
        func snapshot() throws -> [String: Data] {
            var contents: [String: Data] = [:]
            for name in try files.contentsOfDirectory(atPath: programs.folder) where !name.hasPrefix(".") {
                contents[name] = name == "fifo.prom" ? Data() : files.contents(atPath: programs.path(name)) ?? Data()
            }
            return contents
        }
        let before = try snapshot()
        for name in names {
            for check in [true, false] {
                let result = try brokerd(name, check: check)
                #expect(result.status == 1, "\(name): \(result)")
                #expect(
                    result.complaints.contains("The file \(name) of --metrics-file cannot be written: "),
                    "\(name): \(result)")
                #expect(try snapshot() == before, "\(name)")
            }
        }
    }

    @Test func `measurements of an earlier run are replaced, and a file that was put in their place stays`() throws {
        try programs.write("# HELP broker_info of another version\n", to: "broker.prom")
        #expect(try brokerd("broker.prom", check: true).status == 0)
        let server = try programs.startServer(["--metrics-file", "broker.prom"])
        while !(try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8).contains("broker_uptime")) {}
        // A start that is refused because the store is taken leaves the file of the server that has it.
        #expect(try brokerd("broker.prom", check: false).status == 1)
        let text = try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8)
        #expect(text.contains("\nbroker_config_last_reload_successful 1\n"))
        try programs.write("mine", to: "broker.prom")
        server.terminate()
        server.waitUntilExit()
        #expect(try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8) == "mine")
    }
}
