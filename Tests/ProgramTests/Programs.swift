import TestSupport
import Foundation

/// Runs Broker's programs as a user does, in a folder of their own that goes with this object.
final class Programs {
    struct Result {
        let status: Int32
        let output: String
        let complaints: String
    }

    struct Failure: Error { let what: String }

    static let model = """
        {"entities": {
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}
        }}
        """

    let folder: String
    private var servers: [Process] = []

    init() throws {
        folder = NSTemporaryDirectory() + "broker-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try write(Self.model, to: "model.json")
    }

    deinit {
        for server in servers where server.isRunning {
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
        }
        // Nothing can be done in a deinit about a folder that stays.
        do { try FileManager.default.removeItem(atPath: folder) } catch {}
    }

    func path(_ name: String) -> String { folder + "/" + name }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: path(name), atomically: true, encoding: .utf8)
    }

    /// Starts brokerd in the folder and waits for its ready line.
    ///
    /// - Parameters:
    ///   - complaints: where standard error goes.
    ///   - limit: options of the shell's `ulimit`; nil leaves the limits as they are.
    ///   - environment: variables beside those of this process.
    ///   - usesDefaults: false leaves model, store and socket to the arguments.
    ///   - waitsUntilReady: false comes back at once.
    func startServer(
        _ arguments: [String] = [], complaints: FileHandle = .nullDevice, limit: String? = nil,
        environment: [String: String] = [:], usesDefaults: Bool = true, waitsUntilReady: Bool = true
    ) throws -> Process {
        let defaults = ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"]
        var process = process("brokerd", (usesDefaults ? defaults : []) + arguments)
        if let limit, let program = process.executableURL {
            let arguments = process.arguments ?? []
            process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", "trap '' XFSZ; ulimit \(limit); exec \"$0\" \"$@\"", program.path] + arguments
            process.currentDirectoryURL = URL(fileURLWithPath: folder)
        }
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardError = complaints
        let output = Pipe()
        if waitsUntilReady { process.standardOutput = output } else { process.standardOutput = FileHandle.nullDevice }
        try process.run()
        // A reader of the pipes sees their end with the server's.
        if complaints !== FileHandle.nullDevice { try complaints.close() }
        servers.append(process)
        guard waitsUntilReady else { return process }
        let line = output.fileHandleForReading.availableData
        guard String(decoding: line, as: UTF8.self).contains("ready on broker.sock") else {
            throw Failure(what: "brokerd did not become ready")
        }
        return process
    }

    /// Runs a program to its end.
    func run(_ program: String, _ arguments: [String], input: String = "") throws -> Result {
        try finish(process(program, arguments), input)
    }

    /// Runs one of the repository's scripts to its end.
    func runScript(_ name: String, _ arguments: [String], input: String = "") throws -> Result {
        let scripts = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("scripts")
        let process = Process()
        process.executableURL = scripts.appendingPathComponent(name)
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        return try finish(process, input)
    }

    /// Runs a line of shell to its end.
    func shell(_ line: String, input: String = "") throws -> Result {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", line]
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        return try finish(process, input)
    }

    /// Starts a line of shell, without its output. It is killed with this object.
    func start(_ line: String) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "exec \(line)"]
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        servers.append(process)
        return process
    }

    private func finish(_ process: Process, _ input: String) throws -> Result {
        // Files, not pipes: no reader is needed while the program runs.
        try write(input, to: ".input")
        for name in [".output", ".complaints"] { try write("", to: name) }
        process.standardInput = FileHandle(forReadingAtPath: path(".input"))
        process.standardOutput = FileHandle(forWritingAtPath: path(".output"))
        process.standardError = FileHandle(forWritingAtPath: path(".complaints"))
        try process.run()
        process.waitUntilExit()
        return Result(
            status: process.terminationStatus, output: try String(contentsOfFile: path(".output"), encoding: .utf8),
            complaints: try String(contentsOfFile: path(".complaints"), encoding: .utf8))
    }

    private func process(_ program: String, _ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = executable(program)
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        return process
    }

    /// The folder of programs that were built for release; nil to run those beside the tests.
    static let releaseFolder = ProcessInfo.processInfo.environment["BROKER_RELEASE_PROGRAMS"]

    /// The programs are beside the bundle of the running tests, unless the environment names a folder.
    func executable(_ program: String) -> URL {
        if let folder = Self.releaseFolder { return URL(fileURLWithPath: folder).appendingPathComponent(program) }
        return Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }
            .map { URL(fileURLWithPath: $0.bundlePath).deletingLastPathComponent() }
            .map { $0.appendingPathComponent(program) } ?? Self.besideTests(program)
    }

    private static func besideTests(_ program: String) -> URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appendingPathComponent(program)
    }
}

/// A reader of the store with its own tool, as any program may be.
struct Database {
    private let path: String

    init(_ path: String) { self.path = path }

    /// The rows of a query, their columns joined by `|`.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }
}
