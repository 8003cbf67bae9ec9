package import ArgumentParser
internal import BrokerJSON
internal import Glibc

/// The exit statuses of Broker's programs, as stated in the contract.
package enum ExitStatus: Int32, Sendable {
    case success = 0
    /// A requested operation failed.
    case failed = 1
    /// The arguments were wrong.
    case usage = 2
    /// Everything is committed, but some records were skipped.
    case rejected = 3
    case cannotConnect = 4
}

/// Ends a program with a status and one clear line on standard error.
package struct CommandFailure: Error, CustomStringConvertible {
    package let status: ExitStatus
    /// What happened and the remedy; nil when it has been reported already.
    package let message: String?

    package init(_ status: ExitStatus, _ message: String? = nil) {
        self.status = status
        self.message = message
    }

    package var description: String { message ?? "exit status \(status.rawValue)" }
}

/// The `main` of Broker's programs.
package enum Program {
    /// Parses the arguments, runs the command and ends the process with the status that the contract promises.
    package static func run(_ root: any AsyncParsableCommand.Type) async -> Never {
        do {
            var command = try root.parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            exit(ExitStatus.success.rawValue)
        } catch let failure as CommandFailure {
            if let message = failure.message { complain("\(root._commandName): \(message)") }
            exit(failure.status.rawValue)
        } catch {
            // Help and version are also errors, with the status 0.
            let status = root.exitCode(for: error)
            guard status.isSuccess else {
                let line = root.message(for: error).split(whereSeparator: \.isNewline).joined(separator: " ")
                complain("\(root._commandName): \(line) (See `\(root._commandName) --help`.)")
                exit(ExitStatus.usage.rawValue)
            }
            do throws(CommandFailure) { try write(root.fullMessage(for: error)) } catch { exit(error.status.rawValue) }
            exit(ExitStatus.success.rawValue)
        }
    }

    /// Writes a line for people to standard output, at once. Characters that a terminal interprets are escaped.
    package static func say(_ line: String) throws(CommandFailure) { try write(line.printable) }

    /// Writes a document for programs, such as JSON or SQL, to standard output, at once, and a line end after it.
    package static func write(_ document: String) throws(CommandFailure) {
        try StandardOutput.write(Array((document + "\n").utf8))
    }

    /// Writes a line that is no data to standard error. Characters that a terminal interprets are escaped: messages
    /// quote keys, file names and texts of servers. An error of the write cannot be reported anywhere.
    package static func complain(_ line: String) {
        let bytes = Array((line.printable + "\n").utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
    }
}
