import Foundation
import Testing

/// Files that the programs read at their start, and files of a command that a signal ends.
@Suite(.timeLimit(.minutes(5))) struct CommandReaderTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func makePipe(_ name: String) { mkfifo(programs.path(name), 0o600) }

    @Test func `a pipe as a model, contents or configuration is refused`() throws {
        makePipe("pipe")
        try FileManager.default.createDirectory(
            atPath: programs.path("m.xcdatamodel"), withIntermediateDirectories: true)
        makePipe("m.xcdatamodel/contents")
        try FileManager.default.createDirectory(
            atPath: programs.path("n.xcdatamodeld/1.xcdatamodel"), withIntermediateDirectories: true)
        makePipe("n.xcdatamodeld/.xccurrentversion")
        for model in ["pipe", "m.xcdatamodel", "n.xcdatamodeld"] {
            for (program, arguments) in [
                ("broker", ["model", "check", model]),
                ("brokerd", ["--check", "--store", "s.sqlite", "--model", model]),
                ("broker", ["fetch", "Employee", "--store", "s.sqlite", "--model", model]),
            ] {
                let result = try programs.run(program, arguments)
                #expect(result.status != 0 && result.complaints.contains("it is a pipe or device"), "\(result)")
            }
        }
        let configured = try programs.run("brokerd", ["--config", "pipe"])
        #expect(configured.status == 2 && configured.complaints.contains("it is a pipe or device"), "\(configured)")
    }

    @Test func `a reload with a pipe in the model's place is refused, and the server goes on`() throws {
        _ = try programs.startServer()
        try FileManager.default.removeItem(atPath: programs.path("model.json"))
        makePipe("model.json")
        let reload = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reload.status == 1 && reload.complaints.contains("it is a pipe or device"), "\(reload)")
        let submitted = try programs.shell(
            "echo '{\"id\": 1}' | '\(programs.executable("broker").path)' submit --socket broker.sock --entity Employee"
        )
        #expect(submitted.status == 0, "\(submitted)")
    }

    @Test(arguments: [SIGINT, SIGTERM]) func `a dry run that a signal ends leaves no copy of the store`(signal: Int32)
        throws
    {
        let made = try programs.shell(
            "echo '{\"id\": 1}' | '\(programs.executable("broker").path)' submit --store s.sqlite --model model.json "
                + "--entity Employee")
        try #require(made.status == 0, "\(made)")
        try programs.write(
            Programs.model.replacing(#""name": "string""#, with: #""name": "string", "x": "string""#), to: "other.json")
        let temporary = programs.path("tmp")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let run = Process()
        let (input, complaints) = (Pipe(), Pipe())
        run.executableURL = programs.executable("broker")
        run.arguments = ["submit", "--store", "s.sqlite", "--model", "other.json", "--entity", "Employee", "--dry-run"]
        run.currentDirectoryURL = URL(fileURLWithPath: programs.folder)
        run.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": temporary]) { $1 }
        run.standardInput = input
        run.standardError = complaints
        run.standardOutput = FileHandle.nullDevice
        try run.run()
        // It says so as soon as there is a copy.
        var text = ""
        while !text.contains("a copy of the store") {
            let data = complaints.fileHandleForReading.availableData
            try #require(!data.isEmpty, "\(text)")
            text += String(decoding: data, as: UTF8.self)
        }
        kill(run.processIdentifier, signal)
        run.waitUntilExit()
        #expect(run.terminationStatus == 128 + signal)
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary) == [])
    }
}
