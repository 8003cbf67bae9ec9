import Foundation
import Testing

/// The program `forgetful-disk`, in a mount namespace of its own. The tests reach its files through `/proc`. It ends with this
/// object, or with the process of the tests: its shell then reads the end of a pipe.
final class MountedDisk {
    let mountPoint: String
    private let folder: String
    private let shell = Process()
    private let input = Pipe()
    private let output: LineReader
    private let complaints: String
    /// The number of the program's process.
    let process: pid_t
    private(set) var cuts = 0

    /// Mounting takes root, and the kernel's driver.
    static let isPossible = geteuid() == 0 && FileManager.default.fileExists(atPath: "/dev/fuse")

    static let programs = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path

    init(seed: UInt64 = 0, unsynced: String, size: Int = 64 << 20) throws {
        // A program that ends early must not end the tests.
        signal(SIGPIPE, SIG_IGN)
        folder = FileManager.default.temporaryDirectory.appending(path: "forgetful-\(UUID().uuidString)").path
        mountPoint = "\(folder)/disk"
        complaints = "\(folder)/complaints"
        try FileManager.default.createDirectory(atPath: mountPoint, withIntermediateDirectories: true)
        let pipe = Pipe()
        shell.executableURL = URL(filePath: "/usr/bin/unshare")
        shell.arguments = [
            "--mount", "/bin/bash", "-c",
            """
            (echo $BASHPID; exec "${@:2}" 2> "$1" < /dev/null) &
            exec > /dev/null 2>&1
            read -r
            kill -9 %1 2> /dev/null
            wait
            """, "disk", complaints, "\(Self.programs)/forgetful-disk", mountPoint, "--size", "\(size)", "--seed",
            "\(seed)",
            "--unsynced", unsynced,
        ]
        shell.standardInput = input
        shell.standardOutput = pipe
        try shell.run()
        output = LineReader(pipe.fileHandleForReading.fileDescriptor, owner: pipe)
        guard let line = output.next(), let number = pid_t(line) else { throw CocoaError(.executableLoad) }
        process = number
        try #require(output.next() == "ready")
    }

    deinit {
        try? input.fileHandleForWriting.close()
        shell.waitUntilExit()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// The program's messages on its standard error.
    var complaint: String { (try? String(contentsOfFile: complaints, encoding: .utf8)) ?? "" }

    /// The path through which the tests reach a file of the disk.
    func path(_ name: String) -> String { "/proc/\(process)/root\(mountPoint)/\(name)" }

    /// Cuts the power.
    func cut() throws {
        kill(process, SIGUSR1)
        cuts += 1
        try #require(output.next() == "cut \(cuts)", "\(complaint)")
    }

    /// Sends a signal and waits until the program has ended, which closes its output.
    func end(_ signal: Int32) throws {
        kill(process, signal)
        try #require(output.next() == nil)
    }

    /// Whether the mount table of the namespace, which the shell stays in, has the disk.
    var isMounted: Bool {
        let table = (try? String(contentsOfFile: "/proc/\(shell.processIdentifier)/mounts", encoding: .utf8)) ?? ""
        return table.contains(mountPoint)
    }

    /// Starts a program that sees the disk at its mount point.
    func start(_ words: [String], output: Pipe? = nil, input: Pipe? = nil) throws -> Process {
        let program = Process()
        program.executableURL = URL(filePath: "/usr/bin/nsenter")
        program.arguments = ["--mount=/proc/\(process)/ns/mnt"] + words
        program.standardInput = input ?? FileHandle.nullDevice
        program.standardOutput = output ?? FileHandle.nullDevice
        program.standardError = output ?? FileHandle.nullDevice
        try program.run()
        return program
    }
}

extension Process {
    /// Ends it as a power cut does. `nsenter` has become the program.
    func strike() {
        kill(processIdentifier, SIGKILL)
        waitUntilExit()
    }
}

/// The lines of a pipe.
final class LineReader {
    private let descriptor: Int32
    /// Closes the descriptor with this object.
    private let owner: AnyObject
    private var bytes: [UInt8] = []

    init(_ descriptor: Int32, owner: AnyObject) {
        self.descriptor = descriptor
        self.owner = owner
    }

    /// Nil at the end.
    func next() -> String? {
        while true {
            if let end = bytes.firstIndex(of: 10) {
                defer { bytes.removeSubrange(...end) }
                return String(decoding: bytes[..<end], as: UTF8.self)
            }
            var chunk = [UInt8](repeating: 0, count: 4096)
            let count = read(descriptor, &chunk, chunk.count)
            if count <= 0 { return nil }
            bytes += chunk[..<count]
        }
    }

    func next(_ count: Int) -> [UInt8]? {
        while bytes.count < count {
            var chunk = [UInt8](repeating: 0, count: 4096)
            let read = read(descriptor, &chunk, chunk.count)
            if read <= 0 { return nil }
            bytes += chunk[..<read]
        }
        defer { bytes.removeFirst(count) }
        return Array(bytes[..<count])
    }
}
