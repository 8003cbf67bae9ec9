import Foundation

/// `broker submit`, or another command that reads records, while it runs: its input is written bit by bit, and its standard error may be a terminal.
final class RunningSubmission {
    let process = Process()
    private let input = Pipe()
    private let output: FileHandle
    private let programs: Programs
    /// The other side of the terminal that standard error is.
    private let terminal: FileHandle?

    /// - Parameters:
    ///   - connection: where the server is, or the store.
    ///   - columns: of the terminal; nil when standard error is to be a file.
    init(
        _ programs: Programs, command: String = "submit", _ arguments: [String],
        to connection: [String] = ["--socket", "broker.sock"], columns: UInt16? = nil
    ) throws {
        self.programs = programs
        process.executableURL = programs.executable("broker")
        process.arguments = [command] + connection + ["--entity", "Employee"] + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: programs.folder)
        try programs.write("", to: "submit.output")
        try programs.write("", to: "submit.complaints")
        output = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("submit.output")))
        process.standardInput = input
        process.standardOutput = output
        if let columns {
            let (own, other) = try Self.openTerminal(columns)
            terminal = own
            process.standardError = other
            try process.run()
            try other.close()
        } else {
            terminal = nil
            process.standardError = try FileHandle(
                forWritingTo: URL(fileURLWithPath: programs.path("submit.complaints")))
            try process.run()
        }
    }

    deinit {
        if process.isRunning {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    func write(_ ids: ClosedRange<Int>) throws {
        let lines = ids.map { "{\"id\": \($0)}\n" }.joined()
        try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
    }

    func endInput() throws { try input.fileHandleForWriting.close() }

    func complaints() throws -> String {
        try String(contentsOfFile: programs.path("submit.complaints"), encoding: .utf8)
    }

    /// Reads what is shown on the terminal until it has this text, or the program ends.
    func show(until text: String) -> String {
        var shown = ""
        var space = [UInt8](repeating: 0, count: 1_000)
        while let terminal, !shown.contains(text) {
            // A terminal whose other side is closed cannot be read any more.
            let count = read(terminal.fileDescriptor, &space, space.count)
            guard count > 0 else { break }
            shown += String(decoding: space[..<count], as: UTF8.self)
        }
        return shown
    }

    private static func openTerminal(_ columns: UInt16) throws -> (own: FileHandle, other: FileHandle) {
        // As posix_openpt, unlockpt and ptsname do it, which Swift's Glibc does not have.
        let own = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var lock: Int32 = 0
        var number: Int32 = 0
        guard own >= 0, ioctl(own, 0x4004_5431, &lock) == 0, ioctl(own, 0x8004_5430, &number) == 0 else {
            throw Programs.Failure(what: "no terminal: \(String(cString: strerror(errno)))")
        }
        let other = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        guard other >= 0, ioctl(other, UInt(TIOCSWINSZ), &size) == 0 else {
            throw Programs.Failure(what: "no terminal: \(String(cString: strerror(errno)))")
        }
        return (FileHandle(fileDescriptor: own, closeOnDealloc: true), FileHandle(fileDescriptor: other))
    }
}
