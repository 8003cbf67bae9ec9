package import ArgumentParser
internal import BrokerJSON
internal import Glibc

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
    ///
    /// - Parameter configure: adds arguments to those of the command line.
    package static func run(
        _ root: any AsyncParsableCommand.Type,
        configure: @Sendable ([String]) throws(CommandFailure) -> ProgramArguments = { ProgramArguments($0) }
    ) async -> Never {
        // Writing to a pipe without a reader is an error of the write instead; ``StandardOutput`` says what it means.
        signal(SIGPIPE, SIG_IGN)
        var explain: @Sendable (String) -> String = { $0 }
        do {
            let configured = try configure(Array(CommandLine.arguments.dropFirst()))
            explain = configured.explain
            var command = try root.parseAsRoot(configured.arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            exit(ExitStatus.success.rawValue)
        } catch let failure as CommandFailure {
            if let message = failure.message { complain("\(root._commandName): \(message)", .error) }
            exit(failure.status.rawValue)
        } catch {
            // Help and version are also errors, with the status 0.
            let arguments = Array(CommandLine.arguments.dropFirst())
            let path = CommandPath(root, arguments)
            guard root.exitCode(for: error).isSuccess, path.fault == nil else {
                var message = path.fault ?? explain(root.message(for: error))
                if message.hasPrefix("Missing expected argument") {
                    message = path.unknownOption(in: arguments) ?? message
                }
                let line = UsageFault.line(message) + OptionUnits.remedy(for: message)
                complain("\(root._commandName): \(line) (See `\(path.name) --help`.)", .error)
                exit(ExitStatus.usage.rawValue)
            }
            do throws(CommandFailure) { try write(HelpText.wrapped(root.fullMessage(for: error))) } catch {
                exit(error.status.rawValue)
            }
            exit(ExitStatus.success.rawValue)
        }
    }

    /// Writes a line for people to standard output, at once. Characters that a terminal interprets are escaped.
    package static func say(_ line: String) throws(CommandFailure) { try write(line.printable) }

    /// The same for the first line of a table.
    package static func sayHeading(_ line: String) throws(CommandFailure) {
        try write(Terminal.styled(line.printable, .heading, on: STDOUT_FILENO))
    }

    /// Writes a document for programs, such as JSON or SQL, to standard output, at once, and a line end after it.
    package static func write(_ document: String) throws(CommandFailure) {
        try StandardOutput.write(Array((document + "\n").utf8))
    }

    /// The weight of a line on standard error.
    package enum Complaint: Sendable {
        case note, warning, error
    }

    /// Writes a line that is no data to standard error. Characters that a terminal interprets are escaped: messages
    /// quote keys, file names and texts of servers. An error of the write cannot be reported anywhere.
    ///
    /// - Parameter complaint: on a terminal, the beginning of a warning or an error, up to its first space, is in color.
    package static func complain(_ line: String, _ complaint: Complaint = .note) {
        var line = line.printable
        let style: Terminal.Style? =
            switch complaint {
            case .note: nil
            case .warning: .warning
            case .error: .error
            }
        if let style, let end = line.firstIndex(of: " ") {
            line = Terminal.styled(String(line[..<end]), style, on: STDERR_FILENO) + line[end...]
        }
        let bytes = Array((line + "\n").utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
    }
}
