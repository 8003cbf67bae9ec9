import ArgumentParser
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

#if Replication
import BrokerJournal
import BrokerReplication
#endif
import TestSupport

/// The entries of a log, read from each server's own copy.
struct LogCopies {
    fileprivate struct Entry: Equatable {
        let position: Int
        let isJob: Bool
        let id: String
        let isIDMade: Bool
        /// The payload of a checkpoint.
        let checkpoint: String?
    }

    private let entries: [Entry]

    private var firstPosition: Int { entries.first?.position ?? 1 }

    /// Each job that was reported as accepted is in the log, at its sequence, and none more often than it was sent.
    ///
    /// - Parameters:
    ///   - filled: by id, small jobs that were sent more than once.
    ///   - ledger: of a store that has applied everything.
    func check(_ answers: ClientAnswers, jobs: some Sequence<CrashJob>, filled: [String: Int], ledger: [LedgerLine])
        throws
    {
        let byPosition = Dictionary(uniqueKeysWithValues: entries.filter(\.isJob).map { ($0.position, $0) })
        let hasID = Dictionary(uniqueKeysWithValues: jobs.map { ($0.name, $0.hasID) })
        for (name, sequences) in answers.accepted {
            for sequence in sequences where sequence >= firstPosition {
                guard let entry = byPosition[sequence], entry.isIDMade != hasID[name],
                    entry.isIDMade || entry.id == name
                else {
                    throw Difference(
                        "\(name) was accepted as \(sequence), where the log has \(byPosition[sequence], default: "nothing")."
                    )
                }
            }
        }
        var counts: [String: Int] = [:]
        for entry in byPosition.values { counts[entry.id, default: 0] += 1 }
        let made = Set(byPosition.values.filter(\.isIDMade).map(\.id))
        for (id, count) in counts {
            let sendings = made.contains(id) ? 1 : Filling.isOne(id) ? filled[id] ?? 1 : answers.sendings[id] ?? 0
            guard count <= sendings else {
                throw Difference("\(id) was sent \(sendings) times, and is \(count) times in the log.")
            }
        }
        let ids = Set(ledger.map(\.id))
        for line in ledger where line.sequence >= firstPosition {
            guard byPosition[line.sequence]?.id == line.id else {
                throw Difference(
                    "\(line) is in the ledger, and the log has \(byPosition[line.sequence], default: "nothing") there.")
            }
        }
        guard let missing = byPosition.values.first(where: { !ids.contains($0.id) }) else { return }
        throw Difference("\(missing) is in the log, and not in the ledger.")
    }

    /// The servers have reported the same digests at the same positions.
    ///
    /// - Parameter replica: one that was made to differ, and must have reported another one.
    func checkDigests(differing replica: String?) throws {
        var digests: [String: Set<String>] = [:]
        var others: [String: Set<String>] = [:]
        for text in entries.compactMap(\.checkpoint) {
            let checkpoint = try Message(text: text)
            guard let position = checkpoint["position"], position != "0", let digest = checkpoint["digest"] else {
                continue
            }
            if checkpoint["replica"] == replica {
                others[position, default: []].insert(digest)
            } else {
                digests[position, default: []].insert(digest)
            }
        }
        if let (position, different) = digests.first(where: { $0.value.count > 1 }) {
            throw Difference("At position \(position) the servers have reported the digests \(different).")
        }
        guard replica != nil else { return }
        guard others.contains(where: { position, own in digests[position].map { !own.isSubset(of: $0) } ?? false })
        else {
            throw Difference("The store that was made to differ has reported no other digest.")
        }
    }
}

#if Replication
extension LogCopies {
    /// Bytes that are read at a time.
    private static let batch = 1 << 20

    /// - Parameter servers: whose copies are read.
    init(_ address: String, of servers: [String], _ deadline: ContinuousClock.Instant) throws {
        do {
            let stream = try ReplicatedStream.open(StreamConnection(StreamAddress(address)))
            defer { stream.stop() }
            let status = try stream.status()
            var first: [LogEntry] = []
            var seen: Set<String> = []
            while seen.count < servers.count {
                guard ContinuousClock.now < deadline else {
                    throw Difference("Only \(seen) have delivered their copies.")
                }
                let reader = StreamReader(stream, after: status.firstPosition - 1)
                defer { reader.stop() }
                guard var copy = try reader.read(bytes: 1) else { continue }
                // JetStream chooses the server.
                guard let server = reader.state.server, seen.insert(server).inserted else { continue }
                while copy.last?.position ?? 0 < status.lastPosition, let more = try reader.read(bytes: Self.batch) {
                    copy += more
                }
                guard reader.state.server == server else {
                    seen.remove(server)
                    continue
                }
                if first.isEmpty { first = copy }
                guard copy == first else { throw Difference("The copy of \(server) has other entries.") }
            }
            entries = first.map { Entry($0) }
        } catch let error as ReplicationError {
            throw Difference("The log cannot be read: \(error.message)")
        }
    }
}

extension LogCopies.Entry {
    init(_ entry: LogEntry) {
        self.init(
            position: Int(entry.position), isJob: entry.kind == .job, id: entry.id, isIDMade: entry.isIDMade,
            checkpoint: entry.kind == .checkpoint ? String(decoding: entry.payload, as: UTF8.self) : nil)
    }
}
#else
extension LogCopies {
    init(_ address: String, of servers: [String], _ deadline: ContinuousClock.Instant) throws {
        throw Difference("This program was built without the trait Replication.")
    }
}
#endif

/// Jobs of one record each, of an entity that no other job touches: a log gets long by them, and always has entries on their way. The
/// comparison with the replay skips them.
struct Filling {
    static let entity = "Filler"
    private static let mark = "fill-"
    /// Objects that the jobs write, again and again.
    private static let objects = 1_000
    /// Microseconds.
    private static let pause: UInt32 = 200_000
    private static let patienceSeconds = 4 * Patience.seconds

    /// The end of a client.
    struct Report: Codable {
        var count = 0
        /// By id, of jobs that were sent more than once.
        var sendings: [String: Int] = [:]
    }

    let name: String
    let sockets: [String]
    /// Jobs; nil for as many as until there is that file.
    let count: Int?
    let until: String?
    let window: Int
    /// Microseconds that it waits for each job that it has sent, while there is no file of the name ``rush``.
    let pace: UInt32
    static let rush = "load.rush"
    private static let rushPace: UInt32 = 1_000
    private var newest = 0
    private var waiting: Set<Int> = []
    private var sendings: [Int: Int] = [:]

    init(_ name: String, sockets: [String], count: Int?, until: String?, window: Int, pace: UInt32) {
        self.name = name
        self.sockets = sockets
        self.count = count
        self.until = until
        self.window = window
        self.pace = pace
    }

    /// Whether that is the id of such a job.
    static func isOne(_ id: String) -> Bool { id.hasPrefix(mark) }

    /// Comes back when all are completed.
    mutating func run() throws -> Report {
        var connections = 0
        while hasMore || !waiting.isEmpty {
            connections += 1
            do {
                try talk(RawClient(sockets[connections % sockets.count]))
            } catch let failure as RawClient.Failure where !failure.isTimeout {
                usleep(Self.pause)
            }
        }
        let again = sendings.filter { $0.value > 1 }.map { (id(of: $0.key), $0.value) }
        return Report(count: newest, sendings: Dictionary(uniqueKeysWithValues: again))
    }

    private var hasMore: Bool {
        if let count { return newest < count }
        return until.map { access($0, F_OK) != 0 } ?? false
    }

    private func id(of number: Int) -> String { "\(Self.mark)\(name)-\(number)" }

    private func text(of number: Int) -> String {
        let object = (number - 1) % Self.objects + 1
        let operation =
            #"{"op": "process", "entity": "\#(Self.entity)", "json": {"id": \#(object), "value": \#(object)}}"#
        return #"{"id": "\#(id(of: number))", "tag": "\#(number)", "reply": "none", "operations": [\#(operation)]}"#
    }

    private mutating func talk(_ connection: RawClient) throws {
        connection.setPatience(seconds: Self.patienceSeconds)
        var again = waiting.sorted()[...]
        var inFlight = 0
        while true {
            while inFlight < window, let number = again.popFirst() ?? newNumber() {
                sendings[number, default: 0] += 1
                waiting.insert(number)
                try connection.send(text(of: number))
                inFlight += 1
                if pace > 0 { usleep(access(Self.rush, F_OK) == 0 ? Self.rushPace : pace) }
            }
            guard inFlight > 0, let first = try connection.receive() else { return }
            var messages = [first]
            while let message = try connection.takeRead() { messages.append(message) }
            for message in messages {
                guard !message.isRefusal else {
                    usleep(Self.pause)
                    return
                }
                guard message.type == "completed", let number = message["tag"].flatMap({ Int($0) }) else {
                    throw Difference("received \(message.text)")
                }
                if waiting.remove(number) != nil { inFlight -= 1 }
            }
        }
    }

    private mutating func newNumber() -> Int? {
        guard hasMore else { return nil }
        newest += 1
        return newest
    }
}

struct FillingProcess: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill", abstract: "A client that sends many small jobs.", shouldDisplay: false)

    @Argument var name: String
    @Option var count: Int?
    @Option var until: String?
    @Option var window: Int
    @Option var pace: UInt32
    @Option var socket: [String]

    func run() throws {
        var filling = Filling(name, sockets: socket, count: count, until: until, window: window, pace: pace)
        try JSONEncoder().encode(filling.run()).write(to: URL(fileURLWithPath: Self.report(name)))
    }

    static func report(_ name: String) -> String { "fill-\(name).json" }
}
