import Foundation
import TestSupport

/// One of three machines: a network namespace, with a nats-server and a brokerd in it. Its folder is in the working directory.
final class Machine {
    let number: Int
    let name: String
    let programs: ReplicaPrograms
    private(set) var nats: ChildProcess?
    private(set) var broker: ChildProcess?
    private var stopped: Set<pid_t> = []
    /// Forgets what was not synced; nil for one that does not.
    var disk: ChildProcess?
    /// The server is of another version.
    var isOther = false
    /// The server can have another time than the system.
    var hasClock = false

    static let network = "10.79.0"
    static let port = 4222

    var address: String { "\(Self.network).\(number)" }
    var socket: String { "\(name)/broker.sock" }
    /// A file system of its own.
    var data: String { "\(name)/data" }
    /// A disk that is full is full for JetStream alone.
    var store: String { disk == nil ? "\(name)/store.sqlite" : "\(data)/store.sqlite" }
    var serverLog: String { "\(name)/broker.log" }
    var clock: String { "\(name)/clock" }

    /// Makes the namespace and its cable to the bridge.
    init(_ number: Int, _ programs: ReplicaPrograms) throws {
        self.number = number
        name = "n\(number)"
        self.programs = programs
        try Shell.run(["ip", "netns", "add", name])
        try Shell.run(["ip", "link", "add", "cable\(number)", "type", "veth", "peer", "name", "net0", "netns", name])
        try Shell.run(["ip", "link", "set", "cable\(number)", "master", "switch", "up"])
        for words in [
            ["addr", "add", "\(address)/24", "dev", "net0"], ["link", "set", "net0", "up"],
            ["link", "set", "lo", "up"],
        ] { try inside(["ip"] + words) }
    }

    @discardableResult func inside(_ words: [String]) throws -> String { try Shell.run(entrance + words) }

    /// Words before a command in the network of this machine. (`ip netns exec` makes a mount namespace, too: the disk of another
    /// machine would be mounted in it, and stay.)
    private var entrance: [String] { ["nsenter", "--net=/run/netns/\(name)"] }

    // MARK: - Processes

    /// Prepares a folder with an empty disk.
    ///
    /// - Parameter seed: of a disk that forgets; nil for one that does not.
    func prepare(forgetful seed: UInt64?) throws {
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        try mountDisk(forgetful: seed)
        try Data(count: 8).write(to: URL(fileURLWithPath: clock))
        let routes = (1...3).map { "nats://\(Self.network).\($0):6222" }.joined(separator: ", ")
        try """
        server_name: \(name)
        listen: "\(address):\(Self.port)"
        http: "\(address):8222"
        max_payload: 17825792
        max_pending: 256MB
        jetstream { store_dir: "\(FileManager.default.currentDirectoryPath)/\(data)", sync_interval: always, max_file_store: 1GB }
        cluster { name: broker, listen: "\(address):6222", routes: [\(routes)] }
        system_account: SYS
        accounts {
          SYS { users: [{ user: system, password: system }] }
          BROKER { jetstream: enabled, users: [{ user: broker, password: broker }] }
        }
        no_auth_user: broker
        """.write(toFile: "\(name)/nats.conf", atomically: true, encoding: .utf8)
    }

    /// The folder is left, and its disk emptied.
    func abandon() throws {
        kill()
        try unmountDisk()
    }

    /// Both servers.
    func kill() {
        broker?.kill()
        nats?.kill()
    }

    func startNATS() throws {
        nats?.kill()
        nats = try start(entrance + [programs.nats, "-c", "\(name)/nats.conf"], "\(name)/nats.log")
    }

    func startBroker(_ log: String) throws {
        broker?.kill()
        broker = try start(
            entrance + environment + [
                programs.server, "--model", Model.graph, "--model", "\(name)/\(Model.more)", "--store", store,
                "--socket",
                socket, "--workers", "2", "--log", log, "--log-system-credentials", "system", "--replica", name,
            ], serverLog)
    }

    /// Words before those that start the server.
    private var environment: [String] {
        guard isOther || hasClock else { return [] }
        return ["env", "LD_PRELOAD=\(programs.another)"]
            + (isOther ? ["ANOTHER_SQLITE=another"] : []) + (hasClock ? ["ANOTHER_CLOCK=\(clock)"] : [])
    }

    /// The server has so many hours more than the system, from now on.
    func setClock(hours: Int) throws {
        let seconds = Int64(hours) * 3_600
        guard let file = FileHandle(forUpdatingAtPath: clock) else { throw Difference("\(clock) cannot be written.") }
        try withUnsafeBytes(of: seconds.littleEndian) { try file.write(contentsOf: Data($0)) }
        try file.close()
    }

    func start(_ words: [String], _ log: String) throws -> ChildProcess {
        let output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw Difference("\(log) cannot be written.") }
        defer { close(output) }
        return try ChildProcess(words, output: output, complaints: log)
    }

    func pause(_ process: ChildProcess?) {
        guard let process, !process.hasEnded else { return }
        Foundation.kill(process.number, SIGSTOP)
        stopped.insert(process.number)
    }

    func resume() {
        for number in stopped { Foundation.kill(number, SIGCONT) }
        stopped = []
    }

    // MARK: - Network

    func cut() throws { try inside(["ip", "link", "set", "net0", "down"]) }

    /// Nothing of this machine reaches the other one; the other way is open.
    func cut(to other: Machine) throws {
        _ = try Shell.attempt(entrance + ["ip", "route", "add", "blackhole", other.address])
    }

    func heal() throws {
        try inside(["ip", "link", "set", "net0", "up"])
        for number in 1...3 where number != self.number {
            _ = try Shell.attempt(entrance + ["ip", "route", "del", "blackhole", "\(Self.network).\(number)"])
        }
    }

    // MARK: - Looking

    /// The member of `stats` at that path; nil when the server does not answer.
    func statistics() -> Message? {
        guard let client = try? RawClient(socket) else { return nil }
        client.setPatience(seconds: 5)
        return try? client.ask(#"{"type": "stats"}"#)
    }

    /// The state of the copy that the nats-server has of the stream, by name; nil without an answer.
    func copy(of stream: String) throws -> [String: String]? {
        let words = entrance + ["curl", "-sf", "http://\(address):8222/jsz?acc=BROKER&streams=true"]
        let (status, text, _) = try Shell.attempt(words)
        guard status == 0 else { return nil }
        let message = try Message(text: text)
        for index in 0..<100 {
            let path = "account_details.0.stream_detail.\(index)"
            guard let name = message["\(path).name"] else { break }
            guard name == stream else { continue }
            return Dictionary(
                uniqueKeysWithValues: ["messages", "bytes", "first_seq", "last_seq"].map {
                    ($0, message["\(path).state.\($0)"] ?? "?")
                })
        }
        return nil
    }

    /// The causes of all halts of this machine's servers, in their order.
    func halts() throws -> [String] {
        let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: serverLog)), as: UTF8.self)
        return text.split(separator: "\n").filter { $0.contains("This server has halted") }.map(String.init)
    }
}

struct ReplicaPrograms {
    let server: String
    let command: String
    let nats: String
    /// A library that is preloaded: AnotherMachine.c.
    let another: String
    /// A file system that forgets what was not synced; nil when no power is cut.
    let disk: String?
    /// This one, which is a client, too.
    let own: String
}

/// The file system of a machine.
extension Machine {
    /// Bytes of one that can be full.
    private static let diskBytes = 192 << 20
    private static let patience = Patience.duration

    private var place: String { "\(FileManager.default.currentDirectoryPath)/\(data)" }
    private var diskLog: String { "\(name)/disk.log" }

    func mountDisk(forgetful seed: UInt64?) throws {
        guard let seed, let program = programs.disk else {
            try Shell.run(["mount", "-t", "tmpfs", "-o", "size=\(Self.diskBytes)", "none", place])
            return
        }
        disk = try start([program, place, "--seed", "\(seed &* 3 &+ UInt64(number))"], diskLog)
        try awaitLine("ready", 1)
    }

    func unmountDisk() throws {
        guard let disk else {
            try Shell.run(["umount", place])
            return
        }
        disk.terminate()
        let deadline = ContinuousClock.now + Self.patience
        while !disk.hasEnded, ContinuousClock.now < deadline { usleep(1_000) }
        self.disk = nil
    }

    // MARK: - Power

    /// After ``kill()``: what was not synced is lost. Comes back before it is.
    func forget() -> Int {
        guard let disk else { return 0 }
        let cuts = lines("cut")
        Foundation.kill(disk.number, SIGUSR1)
        return cuts + 1
    }

    /// Waits for the end of ``forget()``.
    func awaitForgetting(_ number: Int) throws { try awaitLine("cut", number) }

    private func lines(_ word: String) -> Int {
        let text = (try? String(contentsOfFile: diskLog, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").count { $0.hasPrefix(word) }
    }

    private func awaitLine(_ word: String, _ number: Int) throws {
        let deadline = ContinuousClock.now + Self.patience
        while lines(word) < number {
            guard disk.map({ !$0.hasEnded }) ?? false, ContinuousClock.now < deadline else {
                throw Difference("\(name)'s disk has not become \(word); see \(diskLog).")
            }
            usleep(1_000)
        }
    }

    // MARK: - A full disk

    private var ballast: String { "\(data)/ballast" }

    var isFull: Bool { FileManager.default.fileExists(atPath: ballast) }

    func fillDisk() throws {
        _ = try Shell.attempt(["dd", "if=/dev/zero", "of=\(ballast)", "bs=1M", "count=\(Self.diskBytes >> 20)"])
    }

    func emptyDisk() throws { try FileManager.default.removeItem(atPath: ballast) }

    // MARK: - The store

    /// The server has ended. It starts again with that file, as if an operator had copied it.
    func replaceStore(by file: String) throws {
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store + suffix) }
        try Shell.run(["cp", file, store])
        try Shell.run(["sync", store, URL(fileURLWithPath: store).deletingLastPathComponent().path])
    }
}

/// Short commands of the system. (Foundation's `Process` needs a run loop, whose sockets a network namespace lacks.)
enum Shell {
    private static let output = FileManager.default.temporaryDirectory.path + "/replicas-\(getpid()).output"
    private static let complaints = FileManager.default.temporaryDirectory.path + "/replicas-\(getpid()).complaints"
    private static let patience = Patience.duration * 2

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

    private static func text(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
}
