internal import Foundation
internal import Synchronization

/// A program that was started here, and ends with this object at the latest.
final class ChildProcess: Sendable {
    private let process = Process()

    /// The running processes, so that all of them can be ended.
    private static let running = Mutex<[ObjectIdentifier: ChildProcess]>([:])

    /// - Parameters:
    ///   - input: a file for standard input.
    ///   - output: a file for standard output and error, which is replaced; nil discards both.
    init(
        _ program: String, _ arguments: [String], in folder: String, input: String? = nil, output: String? = nil
    ) throws(LoadError) {
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        process.standardInput = input.flatMap { FileHandle(forReadingAtPath: $0) } ?? FileHandle.nullDevice
        var sink = FileHandle.nullDevice
        if let output, FileManager.default.createFile(atPath: output, contents: nil) {
            sink = FileHandle(forWritingAtPath: output) ?? sink
        }
        process.standardOutput = sink
        process.standardError = sink
        do {
            try process.run()
        } catch {
            throw LoadError(.failed, "\(program) cannot be started: \(error.localizedDescription)")
        }
        Self.running.withLock { $0[ObjectIdentifier(self)] = self }
    }

    var isRunning: Bool { process.isRunning }
    var identifier: Int32 { process.processIdentifier }

    /// Waits for its end and gives its status.
    func wait() -> Int32 {
        process.waitUntilExit()
        Self.running.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(self)) }
        return process.terminationStatus
    }

    /// Ends it, politely at first.
    func stop() {
        if process.isRunning { process.terminate() }
        let deadline = monotonicNanoseconds() + 20_000_000_000
        while process.isRunning {
            if monotonicNanoseconds() > deadline { kill(process.processIdentifier, SIGKILL) }
            usleep(10_000)
        }
        _ = wait()
    }

    /// Ends all that still runs.
    static func stopAll() {
        for process in running.withLock({ Array($0.values) }) { process.stop() }
    }

    /// Waits until `isReady`, which is asked every few milliseconds; throws when the program ends before.
    func wait(until isReady: () -> Bool, name: String, log: String) throws(LoadError) {
        let deadline = monotonicNanoseconds() + 30_000_000_000
        while !isReady() {
            guard process.isRunning, monotonicNanoseconds() < deadline else {
                let said = (ProcessUsage.text(log) ?? "").split(separator: "\n").last.map(String.init)
                throw LoadError(.failed, "\(name) does not start: \(said ?? "it says nothing").")
            }
            usleep(5_000)
        }
    }
}

/// Where programs are.
package enum ProgramPath {
    /// The first of that name on the PATH, or in one of the folders; nil when there is none.
    package static func find(_ name: String, also folders: [String] = []) -> String? {
        if name.contains("/") { return access(name, X_OK) == 0 ? name : nil }
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        for folder in path.split(separator: ":").map(String.init) + folders {
            let candidate = "\(folder)/\(name)"
            if access(candidate, X_OK) == 0 { return candidate }
        }
        return nil
    }
}

/// A folder of its own, which goes with this object.
package final class WorkFolder: Sendable {
    package let path: String

    /// - Parameter parent: nil is where temporary files go.
    package init(in parent: String?) throws(LoadError) {
        path = "\(parent ?? NSTemporaryDirectory())/brokerload-\(UUID().uuidString.prefix(8))"
        do {
            // Others may pass through: a database server runs as a user of its own.
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
        } catch {
            throw LoadError(.failed, "No folder can be made at \(path): \(error.localizedDescription)")
        }
    }

    deinit { remove() }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func write(_ bytes: [UInt8], to name: String) throws(LoadError) {
        guard FileManager.default.createFile(atPath: file(name), contents: Data(bytes)) else {
            throw LoadError(.failed, "\(file(name)) cannot be written.")
        }
    }

    /// The remaining files are in the folder for temporary files, whose owner deletes them.
    func remove() { do { try FileManager.default.removeItem(atPath: path) } catch {} }
}
