import Foundation

/// Short commands of the system. (Foundation's `Process` needs a run loop, whose sockets a network namespace lacks.)
enum Shell {
    private static let output = FileManager.default.temporaryDirectory.path + "/replicas-\(getpid()).output"
    private static let complaints = FileManager.default.temporaryDirectory.path + "/replicas-\(getpid()).complaints"
    private static let patience: Duration = .seconds(120)

    /// Runs a command to its end.
    ///
    /// - Returns: what it printed.
    /// - Throws: ``Difference`` with what it complained about, when it fails.
    @discardableResult static func run(_ words: [String]) throws -> String {
        let (status, output, complaints) = try attempt(words)
        guard status == 0 else {
            throw Difference("\(words.joined(separator: " ")) ended with \(status): \(complaints)\(output)")
        }
        return output
    }

    static func attempt(_ words: [String]) throws -> (status: Int32, output: String, complaints: String) {
        let descriptor = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Difference("\(output) cannot be written.") }
        defer {
            close(descriptor)
            unlink(output)
            unlink(complaints)
        }
        let process = try ChildProcess(words, output: descriptor, complaints: complaints)
        let deadline = ContinuousClock.now + patience
        while !process.hasEnded {
            guard ContinuousClock.now < deadline else {
                process.kill()
                throw Difference("\(words.joined(separator: " ")) has not ended for \(patience).")
            }
            usleep(500)
        }
        return (process.status ?? -1, text(output), text(complaints))
    }

    private static func text(_ path: String) -> String {
        (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    }
}
