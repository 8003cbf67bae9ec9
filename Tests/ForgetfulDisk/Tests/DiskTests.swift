import Foundation
import Testing

/// The mounted file system.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .timeLimit(.minutes(5))) struct DiskTests {
    @Test func `Synced files survive a cut, and unsynced ones do not`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("synced", to: "a", isSynced: true)
        try disk.write("unsynced", to: "b", isSynced: false)
        try disk.write("longer than before", to: "a", isSynced: false)
        try disk.cut()
        #expect(try disk.read("a") == "synced")
        #expect(access(disk.path("b"), F_OK) != 0)
        // The second cut leaves what the first one left.
        try disk.cut()
        #expect(try disk.read("a") == "synced")
    }

    @Test(arguments: [O_SYNC, O_DSYNC]) func `Synchronous writes are durable at once`(flag: Int32) throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("content", to: "a", flags: flag, isSynced: false)
        try disk.cut()
        #expect(try disk.read("a") == "content")
    }

    @Test func `A file renamed without a sync is empty when another sync committed its name`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("old", to: "target", isSynced: true)
        try disk.write("new", to: "draft", isSynced: false)
        #expect(rename(disk.path("draft"), disk.path("target")) == 0)
        try disk.write("", to: "other", isSynced: true)
        try disk.cut()
        #expect(try disk.read("target") == "")
        #expect(access(disk.path("draft"), F_OK) != 0)
    }

    @Test func `The sync of a directory commits its names`() throws {
        let disk = try MountedDisk(unsynced: "none")
        #expect(mkdir(disk.path("folder"), 0o700) == 0)
        try disk.write("content", to: "folder/a", isSynced: false)
        let descriptor = open(disk.path("folder"), O_RDONLY | O_DIRECTORY)
        #expect(fsync(descriptor) == 0)
        close(descriptor)
        #expect(mkdir(disk.path("later"), 0o700) == 0)
        try disk.cut()
        #expect(try disk.read("folder/a") == "")
        #expect(access(disk.path("later"), F_OK) != 0)
    }

    @Test func `Pages of a shared mapping are unsynced writes until msync`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write(String(repeating: "-", count: 8192), to: "a", isSynced: true)
        let descriptor = open(disk.path("a"), O_RDWR)
        let pages = try #require(mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
        pages.storeBytes(of: UInt8(ascii: "1"), as: UInt8.self)
        #expect(msync(pages, 8192, Int32(MS_SYNC)) == 0)
        (pages + 4096).storeBytes(of: UInt8(ascii: "2"), as: UInt8.self)
        // Another descriptor sees the page at once.
        #expect(try disk.read("a").utf8.dropFirst(4096).first == UInt8(ascii: "2"))
        munmap(pages, 8192)
        close(descriptor)
        try disk.cut()
        #expect(try disk.read("a") == "1" + String(repeating: "-", count: 8191))
    }

    @Test func `Files behave as those of other file systems`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let shell = try disk.start([
            "/bin/bash", "-euc",
            """
            cd "$1"
            mkdir a a/b; echo text > a/b/file; ln a/b/file a/link; ln -s b/file a/symbolic
            [[ $(< a/symbolic) == text && $(stat -c %h a/link) == 2 ]]
            ! rmdir a/b; ! mv -T a/b/file a/b; chmod 640 a/link; [[ $(stat -c %a a/b/file) == 640 ]]
            mkfifo a/pipe; [[ -p a/pipe ]]
            exec 5<> a/b/file; rm a/b/file a/link; echo more >&5; [[ $(cat /proc/self/fd/5) == $'more' ]] || exit 3; exec 5>&-
            for n in {1..3000}; do : > "many-$n"; done; [[ $(ls | wc -l) == 3001 ]]; rm many-*; [[ $(ls) == a ]]
            truncate -s 10000 sparse; [[ $(stat -c '%s %b' sparse) == '10000 0' ]]
            fallocate -l 20000 sparse; [[ $(stat -c '%s %b' sparse) == '20000 40' ]]
            fallocate -n -o 20480 -l 4096 sparse; [[ $(stat -c '%s %b' sparse) == '20000 48' ]]
            flock sparse true; touch -d @5 sparse; [[ $(stat -c %Y sparse) == 5 ]]
            head -c 3000000 /dev/urandom > random; cp random copy; cmp random copy
            ! dd if=/dev/zero of=big bs=1M count=200 2> /dev/null; [[ $(df --output=avail . | tail -1) -lt 4 ]]; rm big
            [[ $(df --output=avail . | tail -1) -gt 40000 ]]
            """, "shell", disk.mountPoint,
        ])
        shell.waitUntilExit()
        #expect(shell.terminationStatus == 0)
    }

    @Test func `SIGTERM unmounts and ends the program`() throws {
        let disk = try MountedDisk(unsynced: "none")
        #expect(disk.isMounted)
        try disk.end(SIGTERM)
        #expect(!disk.isMounted)
        #expect(disk.complaint == "")
    }

    @Test func `A cut reverts what a killed process of another mount namespace wrote`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let output = Pipe()
        let user = try disk.start(
            [
                "/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/bash", "-c",
                #"cd "$1"; echo text > a; sync a; exec 5> b; echo text >&5; echo there; exec 6<> <(:); read -r <&6"#,
                "user", disk.mountPoint,
            ], output: output)
        #expect(LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next() == "there")
        user.strike()
        try disk.cut()
        #expect(try disk.read("a") == "text\n")
        #expect(access(disk.path("b"), F_OK) != 0)
    }

    @Test func `A cut during use names the process and ends the program`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let (input, output) = (Pipe(), Pipe())
        let user = try disk.start(
            ["/bin/bash", "-c", #"cd "$1"; echo there; read -r"#, "user", disk.mountPoint], output: output, input: input
        )
        #expect(LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next() == "there")
        try disk.end(SIGUSR1)
        #expect(disk.complaint.contains("in use by \(user.processIdentifier) (bash: \(disk.mountPoint))"))
        #expect(!disk.isMounted)
        user.strike()
    }
}

extension MountedDisk {
    /// Writes a text to the beginning of a file, in one write.
    fileprivate func write(_ text: String, to name: String, flags: Int32 = 0, isSynced: Bool) throws {
        let descriptor = open(path(name), O_WRONLY | O_CREAT | flags, 0o644)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        #expect(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
        if isSynced { #expect(fsync(descriptor) == 0) }
    }

    fileprivate func read(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path(name))), as: UTF8.self)
    }
}

/// A database of SQLite in WAL mode on the disk.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .timeLimit(.minutes(5))) struct SQLiteTests {
    private static let count = 200

    @Test(arguments: [0, 1, 2, 3, 4, 5] as [UInt64])
    func `Committed transactions survive with synchronous FULL`(seed: UInt64) throws {
        let disk = try MountedDisk(seed: seed, unsynced: seed == 0 ? "none" : "some")
        for round in 1...3 {
            try Self.insert(Self.count, on: disk, synchronous: "FULL")
            try disk.cut()
            #expect(try Self.query("PRAGMA integrity_check", on: disk) == "ok")
            #expect(try Self.query("SELECT count(*) FROM row", on: disk) == "\(round * Self.count)")
        }
    }

    @Test func `Committed transactions are lost with synchronous OFF`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try Self.insert(Self.count, on: disk, synchronous: "FULL")
        try disk.cut()
        try Self.insert(Self.count, on: disk, synchronous: "OFF")
        try disk.cut()
        let rows = try #require(Int(try Self.query("SELECT count(*) FROM row", on: disk)))
        #expect(rows < 2 * Self.count)
        #expect(rows >= Self.count)
    }

    /// Commits so many transactions, then ends the program as a power cut does.
    private static func insert(_ count: Int, on disk: MountedDisk, synchronous: String) throws {
        let (input, output) = (Pipe(), Pipe())
        let program = try disk.start(
            ["sqlite3", "-bail", "\(disk.mountPoint)/store.sqlite"], output: output, input: input)
        let lines = LineReader(output.fileHandleForReading.fileDescriptor, owner: output)
        func send(_ text: String) throws { try input.fileHandleForWriting.write(contentsOf: Data((text + "\n").utf8)) }
        try send("PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous);")
        #expect(lines.next() == "wal")
        try send("CREATE TABLE IF NOT EXISTS row(id INTEGER PRIMARY KEY, text); PRAGMA wal_autocheckpoint = 50;")
        #expect(lines.next() == "50")
        for number in 0..<count {
            try send("INSERT INTO row(text) VALUES (hex(randomblob(500))); SELECT 'committed \(number)';")
            try #require(lines.next() == "committed \(number)")
        }
        program.strike()
    }

    private static func query(_ statement: String, on disk: MountedDisk) throws -> String {
        let output = Pipe()
        let program = try disk.start(["sqlite3", "\(disk.mountPoint)/store.sqlite", statement], output: output)
        let line = LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next()
        program.waitUntilExit()
        return try #require(line)
    }
}

/// A single nats-server with JetStream on the disk.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .serialized, .timeLimit(.minutes(5)))
struct NATSTests {
    private static let count = 300

    @Test(arguments: [0, 1, 2, 3] as [UInt64])
    func `Acknowledged messages survive with sync_interval always`(seed: UInt64) throws {
        let disk = try MountedDisk(seed: seed, unsynced: seed == 0 ? "none" : "some", size: 256 << 20)
        for round in 1...2 {
            let server = try NATSServer(on: disk, syncInterval: "always")
            if round == 1 { try server.makeStream() }
            try server.publish(from: (round - 1) * Self.count, count: Self.count)
            server.strike()
            try disk.cut()
        }
        let server = try NATSServer(on: disk, syncInterval: "always")
        #expect(try server.messageCount() == 2 * Self.count)
        for number in 0..<2 * Self.count { #expect(try server.message(number + 1) == NATSServer.payload(number)) }
        server.strike()
    }

    @Test func `Acknowledged messages are lost with the default sync_interval`() throws {
        let disk = try MountedDisk(unsynced: "none", size: 256 << 20)
        let first = try NATSServer(on: disk, syncInterval: nil)
        try first.makeStream()
        try first.publish(from: 0, count: Self.count)
        first.strike()
        try disk.cut()
        let second = try NATSServer(on: disk, syncInterval: nil)
        #expect(try second.messageCount() < Self.count)
        second.strike()
    }
}

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

/// A nats-server that stores a stream on a disk, and a connection to it.
final class NATSServer {
    private let process: Process
    private let connection: Int32
    private let reader: LineReader

    /// The program that `need_nats` of scripts/install-dependencies installs.
    private static let program: String = {
        var root = URL(filePath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appending(path: ".build/nats/bin/nats-server").path
    }()

    /// Starts the server and waits for its ports.
    ///
    /// - Parameter syncInterval: nil for the default of nats-server, two minutes.
    init(on disk: MountedDisk, syncInterval: String?) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "forgetful-nats-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let configuration = """
            listen: "127.0.0.1:-1"
            jetstream { store_dir: "\(disk.mountPoint)/nats", max_file_store: 128MB
              \(syncInterval.map { "sync_interval: \($0)" } ?? "") }
            """
        try configuration.write(toFile: "\(folder)/server.conf", atomically: true, encoding: .utf8)
        let output = Pipe()
        process = try disk.start([Self.program, "-c", "\(folder)/server.conf"], output: output)
        let lines = LineReader(output.fileHandleForReading.fileDescriptor, owner: output)
        var port: UInt16?
        while let line = lines.next() {
            if let found = line.firstMatch(of: /client connections on 127\.0\.0\.1:(\d+)/) { port = UInt16(found.1) }
            if line.hasSuffix("Server is ready") { break }
        }
        connection = try Self.connect(try #require(port))
        reader = LineReader(connection, owner: FileHandle(fileDescriptor: connection, closeOnDealloc: true))
        try #require(reader.next()?.hasPrefix("INFO ") == true)
        try send(#"CONNECT {"verbose": false}"# + "\r\nSUB answer 1\r\n")
    }

    deinit { strike() }

    /// Ends the server as a power cut does.
    func strike() {
        if process.isRunning { process.strike() }
    }

    static func payload(_ number: Int) -> String {
        "message \(number) " + String(repeating: "\(number % 10)", count: number * 7 % 1500)
    }

    func makeStream() throws {
        let answer = try ask("$JS.API.STREAM.CREATE.test", #"{"name": "test", "subjects": ["test"]}"#)
        try #require(answer.contains("\"created\""), "\(answer)")
    }

    /// Publishes messages, each after the acknowledgement of the one before.
    func publish(from start: Int, count: Int) throws {
        for number in start..<start + count {
            let answer = try ask("test", Self.payload(number))
            try #require(answer.contains("\"seq\":\(number + 1)"), "\(answer)")
        }
    }

    /// The count of messages in the stream; 0 when there is no stream.
    func messageCount() throws -> Int {
        let answer = try ask("$JS.API.STREAM.INFO.test", "")
        if answer.contains("stream not found") { return 0 }
        return try #require(answer.firstMatch(of: /"messages":(\d+)/).flatMap { Int($0.1) }, "\(answer)")
    }

    func message(_ sequence: Int) throws -> String {
        let answer = try ask("$JS.API.STREAM.MSG.GET.test", #"{"seq": \#(sequence)}"#)
        let text = try #require(answer.firstMatch(of: /"data":"([^"]*)"/)?.1, "\(answer)")
        return String(decoding: try #require(Data(base64Encoded: String(text))), as: UTF8.self)
    }

    // MARK: - Protocol

    private func ask(_ subject: String, _ payload: String) throws -> String {
        try send("PUB \(subject) answer \(payload.utf8.count)\r\n\(payload)\r\n")
        while true {
            let line = try #require(reader.next()).trimmingCharacters(in: .whitespacesAndNewlines)
            if line == "PING" { try send("PONG\r\n") }
            guard line.hasPrefix("MSG ") else { continue }
            let length = try #require(line.split(separator: " ").last.flatMap { Int($0) })
            return String(decoding: try #require(reader.next(length + 2)).dropLast(2), as: UTF8.self)
        }
    }

    private func send(_ text: String) throws {
        let bytes = Array(text.utf8)
        try #require(Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    private static func connect(_ port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
        // A server without the stream does not answer.
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        return descriptor
    }
}
