import Foundation
import TestSupport

/// One of three machines: a network namespace, with a nats-server and a brokerd in it. Its folder is in the working directory.
final class Machine {
    let number: Int
    let name: String
    private let programs: ReplicaPrograms
    private(set) var nats: ChildProcess?
    private(set) var broker: ChildProcess?
    private var stopped: Set<pid_t> = []
    /// Bytes of the file system of the nats-server's data.
    private static let diskBytes = 192 << 20

    static let network = "10.79.0"
    static let port = 4222

    var address: String { "\(Self.network).\(number)" }
    var socket: String { "\(name)/broker.sock" }
    var store: String { "\(name)/store.sqlite" }

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

    @discardableResult func inside(_ words: [String]) throws -> String {
        try Shell.run(["ip", "netns", "exec", name] + words)
    }

    // MARK: - Processes

    /// Prepares a folder with an empty disk.
    func prepare() throws {
        try FileManager.default.createDirectory(atPath: "\(name)/data", withIntermediateDirectories: true)
        try Shell.run(["mount", "-t", "tmpfs", "-o", "size=\(Self.diskBytes)", "none", "\(name)/data"])
        let routes = (1...3).map { "nats://\(Self.network).\($0):6222" }.joined(separator: ", ")
        try """
        server_name: \(name)
        listen: "\(address):\(Self.port)"
        http: "\(address):8222"
        max_payload: 17825792
        max_pending: 256MB
        jetstream { store_dir: "\(FileManager.default.currentDirectoryPath)/\(name)/data", sync_interval: always, max_file_store: 1GB }
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
        broker?.kill()
        nats?.kill()
        try Shell.run(["umount", "\(FileManager.default.currentDirectoryPath)/\(name)/data"])
    }

    func startNATS() throws {
        nats?.kill()
        nats = try start([programs.nats, "-c", "\(name)/nats.conf"], "nats.log")
    }

    func startBroker(_ log: String) throws {
        broker?.kill()
        broker = try start(
            [
                programs.server, "--model", Model.graph, "--model", "\(name)/\(Model.more)", "--store", store,
                "--socket",
                socket, "--workers", "2", "--log", log, "--log-system-credentials", "system", "--replica", name,
            ], "broker.log")
    }

    private func start(_ words: [String], _ log: String) throws -> ChildProcess {
        let output = open("\(name)/\(log)", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw Difference("\(name)/\(log) cannot be written.") }
        defer { close(output) }
        return try ChildProcess(["ip", "netns", "exec", name] + words, output: output, complaints: "\(name)/\(log)")
    }

    func pause(_ process: ChildProcess?) {
        guard let process, !process.hasEnded else { return }
        kill(process.number, SIGSTOP)
        stopped.insert(process.number)
    }

    func resume() {
        for number in stopped { kill(number, SIGCONT) }
        stopped = []
    }

    // MARK: - Network

    func cut() throws { try inside(["ip", "link", "set", "net0", "down"]) }

    /// Nothing of this machine reaches the other one; the other way is open.
    func cut(to other: Machine) throws {
        _ = try Shell.attempt(["ip", "netns", "exec", name, "ip", "route", "add", "blackhole", other.address])
    }

    func heal() throws {
        try inside(["ip", "link", "set", "net0", "up"])
        for number in 1...3 where number != self.number {
            _ = try Shell.attempt([
                "ip", "netns", "exec", name, "ip", "route", "del", "blackhole", "\(Self.network).\(number)",
            ])
        }
    }

    // MARK: - Disk

    func fillDisk() throws {
        _ = try Shell.attempt([
            "dd", "if=/dev/zero", "of=\(name)/data/ballast", "bs=1M", "count=\(Self.diskBytes >> 20)",
        ])
    }

    func emptyDisk() throws { try Shell.run(["rm", "-f", "\(name)/data/ballast"]) }

    // MARK: - Looking

    /// The member of `stats` at that path; nil when the server does not answer.
    func statistics() -> Message? {
        guard let client = try? RawClient(socket) else { return nil }
        client.setPatience(seconds: 5)
        return try? client.ask(#"{"type": "stats"}"#)
    }

    /// The state of the copy that the nats-server has of the stream.
    func copy(of stream: String) throws -> String {
        let text = try inside(["curl", "-sf", "http://\(address):8222/jsz?acc=BROKER&streams=true"])
        let message = try Message(text: text)
        for index in 0..<100 {
            let path = "account_details.0.stream_detail.\(index)"
            guard let name = message["\(path).name"] else { break }
            guard name == stream else { continue }
            return ["messages", "bytes", "first_seq", "last_seq"].map {
                "\($0) \(message["\(path).state.\($0)"] ?? "?")"
            }
            .joined(separator: ", ")
        }
        return "none"
    }
}

struct ReplicaPrograms {
    let server: String
    let command: String
    let nats: String
    /// This one, which is a client, too.
    let own: String
}
