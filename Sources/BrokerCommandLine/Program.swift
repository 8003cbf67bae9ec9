package import ArgumentParser
package import BrokerJSON
internal import BrokerModel
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Ends a program with a status and one clear line on standard error.
package struct CommandFailure: Error, CustomStringConvertible {
    package let status: ExitStatus
    /// What happened and the remedy; nil when it has been reported already.
    package let message: String?

    package init(_ status: ExitStatus, _ message: String? = nil) {
        self.status = status
        self.message = message
    }

    package init(_ message: String) { self.init(.failed, message) }

    package var description: String { message ?? "exit status \(status.rawValue)" }
}

/// An error whose message says what happened, where, and the remedy: a command that throws it fails with the status.
package protocol ExplainedError: Error {
    var message: String { get }
    var status: ExitStatus { get }
}

extension ExplainedError {
    package var status: ExitStatus { .failed }
}

/// The `main` of Broker's programs.
package enum Program {
    /// Parses the arguments, runs the command and ends the process with the status that the contract promises.
    package static func run(
        _ root: any AsyncParsableCommand.Type,
        configure: @Sendable ([String]) throws -> ProgramArguments = { ProgramArguments($0) }
    ) async -> Never {
        // Writing to a pipe without a reader is an error of the write instead; ``StandardOutput`` says what it means.
        signal(SIGPIPE, SIG_IGN)
        var explain: @Sendable (String) -> String = { $0 }
        do {
            let configured = try configure(Array(CommandLine.arguments.dropFirst()))
            explain = configured.explain
            var command = try await root.asyncParseAsRoot(configured.arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            exit(ExitStatus.success.rawValue)
        } catch let failure as CommandFailure {
            if let message = failure.message { report("\(root._commandName): \(message)", .error) }
            exit(failure.status.rawValue)
        } catch let error as any ExplainedError {
            report("\(root._commandName): \(error.message)", .error)
            exit(error.status.rawValue)
        } catch {
            // Help and version are also errors, with the status 0.
            let arguments = Array(CommandLine.arguments.dropFirst())
            let path = CommandPath(root, arguments)
            guard root.exitCode(for: error).isSuccess, path.fault == nil else {
                var message = path.fault ?? explain(root.message(for: error))
                if message.hasPrefix("Missing expected argument") {
                    message = path.unknownOption(in: arguments) ?? message
                }
                report("\(root._commandName): \(UsageFault.remedied(message)) (See `\(path.name) --help`.)", .error)
                exit(ExitStatus.usage.rawValue)
            }
            let isWritten = (try? write(root.fullMessage(for: error))) != nil
            exit((isWritten ? ExitStatus.success : .failed).rawValue)
        }
    }

    /// Parses arguments again, while the command runs.
    ///
    /// - Throws: their fault, on one line.
    package static func parse<Command: AsyncParsableCommand>(
        _ root: Command.Type, _ configured: ProgramArguments
    ) throws(CommandFailure) -> Command {
        do {
            return try root.parse(configured.arguments)
        } catch {
            throw CommandFailure(.usage, UsageFault.remedied(configured.explain(root.message(for: error))))
        }
    }

    /// Writes a line for people to standard output, at once. Characters that a terminal interprets are escaped.
    package static func say(_ line: String) throws(CommandFailure) {
        try write(Terminal.wrapped(line.printable, on: STDOUT_FILENO))
    }

    package static func sayHeading(_ line: String) throws(CommandFailure) {
        try write(Terminal.styled(line.printable, .heading, on: STDOUT_FILENO))
    }

    /// Writes a JSON object with these members as a document for programs.
    package static func writeObject(_ members: (inout JSONWriter) -> Void) throws(CommandFailure) {
        try writeJSON { $0.object(members) }
    }

    /// Writes one JSON value as a document for programs.
    package static func writeJSON(_ value: (inout JSONWriter) -> Void) throws(CommandFailure) {
        var writer = JSONWriter()
        value(&writer)
        try write(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// Writes a document for programs, such as JSON or SQL, to standard output, at once, and a line end after it.
    package static func write(_ document: String) throws(CommandFailure) {
        try StandardOutput.write(Array((document + "\n").utf8))
    }

    /// Writes a line that is no data to standard error. Characters that a terminal interprets are escaped: messages
    /// quote keys, file names and texts of servers. An error of the write cannot be reported anywhere.
    ///
    /// - Parameter style: on a terminal, that of the beginning of a warning or an error, up to its first space.
    package static func report(_ line: String, _ style: Terminal.Style? = nil) {
        TerminalLine.clear()
        var line = Terminal.wrapped(line.printable, on: STDERR_FILENO)
        if let style, let end = line.firstIndex(of: " ") {
            line = Terminal.styled(String(line[..<end]), style, on: STDERR_FILENO) + line[end...]
        }
        Terminal.write(line + "\n")
    }
}

extension Program {
    /// A number and its noun, as in "1 entity" and "2 entities".
    package static func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
    }
}

/// The arguments of a program, which may come from elsewhere than its command line, too.
package struct ProgramArguments: Sendable {
    package let arguments: [String]
    /// Adds to a fault of the arguments where the argument comes from.
    let explain: @Sendable (_ fault: String) -> String

    package init(_ arguments: [String], explain: @escaping @Sendable (_ fault: String) -> String = { $0 }) {
        self.arguments = arguments
        self.explain = explain
    }
}

/// A fault of the arguments, as swift-argument-parser reports it.
enum UsageFault {
    /// The message on one line, with the remedy for a value that the parser refuses.
    static func remedied(_ message: String) -> String { line(message) + OptionUnits.remedy(for: message) }

    /// The message on one line. Of the values that an option takes, the one that was probably meant is named.
    static func line(_ message: String) -> String {
        let (mark, heading) = ("- ", "Please provide one of the following:")
        let lines = message.split(whereSeparator: \.isNewline).map { $0.trimmingPrefix { $0 == " " } }
        let values = lines.filter { $0.hasPrefix(mark) }.map { String($0.dropFirst(mark.count)) }
        let text = lines.filter { !$0.hasPrefix(mark) }.joined(separator: " ")
        guard !values.isEmpty, text.hasSuffix(heading) else { return text + values.map { " \(mark)\($0)" }.joined() }
        let given = text.firstMatch(of: /The value '(.*?)' is invalid/).map { String($0.1) } ?? ""
        return text.dropLast(heading.count) + "It is one of \(values.joined(separator: ", "))"
            + NearMiss.ending(given, among: values)
    }
}

/// The forms of values that the options of all programs take.
package enum OptionUnits {
    package static let explanation =
        "A size is bytes, or has a unit: 64K, 16M, 2G, 1T, each 1024 of the one before. A time is seconds, or has a unit: "
        + "500ms, 30s, 5m, 2h, 7d."

    /// The remedy for a value that swift-argument-parser refuses: the names of the values say what they are.
    static func remedy(for fault: String) -> String {
        if fault.hasPrefix("Missing value for '") {
            return ". A value that begins with a dash is given as OPTION=VALUE."
        }
        guard fault.contains(" is invalid for ") else { return "" }
        if fault.contains("<size>'") { return ". Give bytes, or a number with K, M, G or T, as in 64M." }
        if fault.contains("'--max-delete ") { return ". Give a number of objects, or a share of them, as in 10%." }
        return fault.contains("<time>'") ? ". Give seconds, or a number with ms, s, m, h or d, as in 5m." : ""
    }
}

/// The exit statuses of Broker's programs, as in the table of protocol/guides/commands.md.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    case success = 0
    case failed = 1
    case usage = 2
    case rejected = 3
    case cannotConnect = 4
    /// The server answers, and its store takes nothing at the moment.
    case waiting = 5
    /// The server answers, and was paused, or stops.
    case paused = 6
    /// The server serves, and refused the last reload of its model.
    case degraded = 7

    package var meaning: String {
        switch self {
        case .success: "everything asked for is committed"
        case .failed: "failed"
        case .usage: "wrong arguments"
        case .rejected: "some records were rejected, all others are committed (`--on-invalid skip`)"
        case .cannotConnect: "no connection, or no answer in time"
        case .waiting: "of `broker health`: the store cannot be written; jobs wait or are refused"
        case .degraded:
            "of `broker health`: the server serves, and the next start would fail, because a reload was refused"
        case .paused: "of `broker health`: the server is paused or stopping"
        }
    }

    /// A sentence for the help of a program that ends with these.
    package static func explanation(_ statuses: [ExitStatus] = allCases) -> String {
        "Exit status: " + statuses.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: "; ") + "."
    }
}

/// Standard output for bytes that are not lines of text.
package enum StandardOutput {
    private static let isUnread = Atomic(false)

    /// False once a write found that the reader is gone, as of `broker fetch … | head -1`. What is written then is lost
    /// without an error, as it is not missed; a command that goes on writing for long ends.
    package static var hasReader: Bool { !isUnread.load(ordering: .relaxed) }

    /// Ends the process with status 0 when the reader goes, also while nothing is written. For a command that may wait for
    /// long, and has nothing to finish.
    package static func endWithoutReader() {
        // A queue of its own: its thread waits for as long as there is a reader.
        DispatchQueue(label: "reader").async {
            var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&output, 1, -1) < 0, errno == EINTR {}
            // A pipe has POLLERR then, a socket POLLHUP. What is closed from the start (POLLNVAL) fails when it is written.
            guard Int32(output.revents) & (POLLERR | POLLHUP) != 0 else { return }
            _exit(ExitStatus.success.rawValue)
        }
    }

    package static func write(_ bytes: [UInt8]) throws(CommandFailure) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(STDOUT_FILENO, $0.baseAddress! + written, $0.count - written)
            }
            guard count >= 0 else {
                if errno == EINTR { continue }
                if errno == EPIPE { return isUnread.store(true, ordering: .relaxed) }
                throw CommandFailure("Standard output cannot be written: \(String(cString: strerror(errno))).")
            }
            written += count
        }
    }
}

extension JSONText {
    /// Reads a file, or standard input for `-`.
    ///
    /// - Parameters:
    ///   - limit: bytes; of a longer file, only one byte more than that is read.
    ///   - isRegular: refuses pipes and devices.
    package static func file(
        _ path: String, limit: Int = .max >> 2, isRegular: Bool = false
    ) throws(CommandFailure) -> JSONText {
        let descriptor: Int32
        do throws(RegularFile.Refusal) {
            descriptor =
                path == "-" ? STDIN_FILENO : isRegular ? try RegularFile.open(path) : open(path, O_RDONLY | O_CLOEXEC)
        } catch {
            throw CommandFailure("\(path) \(error.reason).")
        }
        guard descriptor >= 0 else {
            throw CommandFailure("\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        defer { if path != "-" { close(descriptor) } }
        var builder = JSONTextBuilder(maximumCount: limit + 1)
        while true {
            let before = builder.count
            try builder.withFreeSpace(atLeast: 64 << 10) { free throws(CommandFailure) in
                guard free.count > 0 else { return 0 }
                let count = Glibc.read(descriptor, free.baseAddress, free.count)
                guard count >= 0 else {
                    throw CommandFailure("\(path) cannot be read: \(String(cString: strerror(errno))).")
                }
                return count
            }
            if builder.count == before { return builder.finish() }
        }
    }
}

/// The command that the first arguments of a program name.
struct CommandPath {
    /// As typed after a shell's prompt: `broker model check`.
    private(set) var name: String
    private let root: any ParsableCommand.Type
    private var command: any ParsableCommand.Type
    /// The argument at which a command was expected, when it names none.
    private var unknown: String?
    private var siblings: [String] = []

    init(_ root: any ParsableCommand.Type, _ arguments: [String]) {
        name = root._commandName
        self.root = root
        command = root
        for argument in arguments {
            let commands = command.configuration.subcommands
            // An option ends the path: whether the next argument is its value is not known here.
            guard !commands.isEmpty, !argument.hasPrefix("-") else { return }
            if argument == "help" { continue }
            let named = commands.first {
                $0._commandName == argument || $0.configuration.aliases.contains(argument)
            }
            guard let named else {
                siblings = commands.map { $0._commandName }
                // Another word may be an argument of the default one.
                let isCertain = command.configuration.defaultSubcommand == nil
                if isCertain || NearMiss.nearest(to: argument, among: siblings) != nil { unknown = argument }
                return
            }
            command = named
            name += " \(named._commandName)"
        }
    }

    /// The fault of the argument at which a command was expected; nil when it names one, or is none.
    var fault: String? {
        unknown.map { "There is no command \"\($0)\"\(NearMiss.ending($0, among: siblings))" }
    }

    /// The fault of an option that the command lacks: swift-argument-parser reports a missing argument instead of it.
    func unknownOption(in arguments: [String]) -> String? {
        let help = root.helpMessage(for: command, includeHidden: true, columns: 1_000)
        let known = help.matches(of: /--[a-z][a-z0-9-]*/).map { String($0.output) }
        let given = arguments.prefix { $0 != "--" }.filter { $0.hasPrefix("--") }.map { $0.prefix { $0 != "=" } }
        guard let unknown = given.map(String.init).first(where: { !known.contains($0) }) else { return nil }
        let nearest = NearMiss.nearest(to: unknown, among: known)
        return "Unknown option '\(unknown)'." + (nearest.map { " Did you mean '\($0)'?" } ?? "")
    }
}

/// Catches SIGINT and SIGTERM while it lives, so that a program can report its progress before it ends. The newest one counts.
package final class Interruption: Sendable {
    private typealias Act = @Sendable () -> Void

    /// The signals are caught from the first one on, and never given back: a source that was cancelled would take those of the next.
    // Immutable, and not used after it was made.
    nonisolated(unsafe) private static let sources = makeSources()
    private static let acts = Mutex<[(id: ObjectIdentifier, act: Act)]>([])

    /// - Parameter act: called with the first signal, on a thread that may wait. The process ends after it, with the
    ///   status that shells give a program that was ended by a signal; a second signal ends it at once.
    package init(_ act: @escaping @Sendable () -> Void) {
        Self.acts.withLock { $0.append((ObjectIdentifier(self), act)) }
        _ = Self.sources
    }

    deinit { Self.acts.withLock { acts in acts.removeAll { $0.id == ObjectIdentifier(self) } } }

    private static func makeSources() -> [any DispatchSourceSignal] {
        // One after the other, so that a second signal is not mistaken for the first.
        let arrivals = DispatchQueue(label: "signals")
        let isActing = DispatchSemaphore(value: 1)
        let isRegistered = DispatchSemaphore(value: 0)
        return [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: arrivals)
            source.setEventHandler {
                guard isActing.wait(timeout: .now()) == .success else { _exit(128 + number) }
                DispatchQueue.global().async {
                    acts.withLock { $0.last }?.act()
                    _exit(128 + number)
                }
            }
            source.setRegistrationHandler { isRegistered.signal() }
            source.resume()
            // Until then, a signal would be lost.
            isRegistered.wait()
            return source
        }
    }
}

extension Program {
    /// The path of a file for a process that runs in another folder.
    package static func absolutePath(_ file: String) -> String {
        guard file.utf8.first != UInt8(ascii: "/"), let folder = getcwd(nil, 0) else { return file }
        defer { free(folder) }
        return "\(String(cString: folder))/\(file)"
    }
}
