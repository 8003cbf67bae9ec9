import ArgumentParser
import BrokerCommandLine

#if Replication
import BrokerCoordinator
import BrokerJSON
import BrokerReplication

struct LogCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Makes the stream of a log, with three copies, on servers of NATS.")

    @OptionGroup var access: SharedLogOptions

    @Option(
        help: .value(
            "size",
            "Bytes of one copy. A log that is full takes no jobs until entries are trimmed. As many as the disks have by default."
        ))
    var maxBytes: ByteSize?

    @Argument(help: "The log's address.")
    var address: String

    func run() async throws {
        let connection = try LogConnection.open(address, access)
        let stream = try ReplicatedStream.create(connection, maximumBytes: maxBytes.map { Int64($0.bytes) })
        defer { stream.stop() }
        try Program.say("log \(stream.name) created (identity \(stream.identity))")
    }
}

struct LogStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Shows the copies of a log, and how far each server has applied it.",
        discussion: """
            What servers have applied is as old as their newest checkpoints in the log: one in a thousand entries, and one an hour. \
            `broker stats` of a server has the numbers of now.
            """)

    @OptionGroup var access: SharedLogOptions

    @Flag(help: "Print it as JSON.")
    var json = false

    @Argument(help: "The log's address.")
    var address: String

    func run() async throws {
        let stream = try ReplicatedStream.open(try LogConnection.open(address, access))
        defer { stream.stop() }
        let (name, status) = (stream.name, try stream.status())
        let failure = "did not deliver the newest entries of the log \(name)"
        let replicas = try stream.within(failure: failure) { () throws(ReplicationError) in
            try LogReplicas(stream, status)
        }
        guard !json else { return try Program.writeObject { Self.write(name, status, replicas, to: &$0) } }
        try Program.say(
            "log \(name): positions \(status.firstPosition) to \(status.lastPosition), "
                + "\(ShortText.bytes(Int(status.bytes))) a copy")
        var copies = TextTable(["server", "role", "state", "lag"], right: [3])
        copies.add([status.leader ?? "none", "leader", status.leader == nil ? "no leader" : "current", "0"])
        for peer in status.peers {
            let state = peer.isOffline ? "offline" : peer.isCurrent ? "current" : "behind"
            copies.add([peer.name, "follower", state, "\(peer.lag)"])
        }
        for line in copies.lines(columns: nil) { try Program.say(line) }
        var table = TextTable(
            ["replica", "checkpoint", "digest", "fingerprint", "durable", "backup"], right: [1, 4, 5])
        for (_, checkpoint) in replicas.newest.sorted(by: { $0.key < $1.key }) {
            table.add([
                checkpoint.replica, "\(checkpoint.position)", checkpoint.digest, checkpoint.fingerprint,
                "\(checkpoint.durable)", "\(checkpoint.backup)",
            ])
        }
        for name in replicas.joined where replicas.newest[name] == nil { table.add([name, "", "", "", "", ""]) }
        if !table.isEmpty { for line in table.lines(columns: nil) { try Program.say(line) } }
    }

    private static func write(
        _ name: String, _ status: StreamStatus, _ replicas: LogReplicas, to writer: inout JSONWriter
    ) {
        writer.member("log", name)
        writer.member("first", status.firstPosition)
        writer.member("last", status.lastPosition)
        writer.member("bytes", status.bytes)
        if let leader = status.leader { writer.member("leader", leader) }
        writer.object("copies") { writer in
            for peer in status.peers {
                writer.object(peer.name) { writer in
                    writer.member("current", peer.isCurrent)
                    writer.member("offline", peer.isOffline)
                    writer.member("lag", peer.lag)
                }
            }
        }
        writer.object("replicas") { writer in
            for name in replicas.joined.sorted() {
                writer.object(name) { writer in
                    guard let newest = replicas.newest[name] else { return }
                    writer.member("position", newest.position)
                    writer.member("digest", newest.digest)
                    writer.member("fingerprint", newest.fingerprint)
                    writer.member("durable", newest.durable)
                    writer.member("backup", newest.backup)
                }
            }
        }
    }
}

struct LogRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Removes a server from a log: entries are trimmed without it.",
        discussion: "The server halts when it reads that. Start it again to have it take part again.")

    @OptionGroup var access: SharedLogOptions

    @Argument(help: "The log's address.")
    var address: String

    @Argument(help: "The server's --replica.")
    var replica: String

    func run() async throws {
        let position = try LogConnection.append(.left(replica), to: address, access)
        try Program.say("replica \(replica) removed at position \(position)")
    }
}

struct LogUpgradeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upgrade",
        abstract: "Goes over to other versions: entries after it are applied under another fingerprint.",
        discussion: """
            Each server of another fingerprint halts at that position, and goes on when it is started with the versions that have \
            the new one. `brokerd --check` with those versions prints it.
            """)

    @OptionGroup var access: SharedLogOptions

    @Argument(help: "The log's address.")
    var address: String

    @Argument(help: "The new fingerprint: 16 hexadecimal digits.")
    var fingerprint: String

    mutating func validate() throws {
        guard fingerprint.utf8.count == 16, UInt64(fingerprint, radix: 16) != nil else {
            throw ValidationError("A fingerprint has 16 hexadecimal digits, and \"\(fingerprint)\" is none.")
        }
    }

    func run() async throws {
        let position = try LogConnection.append(.upgrade(fingerprint: fingerprint.lowercased()), to: address, access)
        try Program.say("fingerprint \(fingerprint.lowercased()) from position \(position) on")
    }
}

enum LogConnection {
    static func open(_ address: String, _ access: SharedLogOptions) throws -> StreamConnection {
        let address = try SharedLogAddress(address, access)
        return try StreamConnection(address.log, files: address.files)
    }

    /// Appends one note.
    ///
    /// - Returns: its position.
    static func append(_ note: ReplicaNote, to address: String, _ access: SharedLogOptions) throws -> Int64 {
        let stream = try ReplicatedStream.open(try open(address, access))
        defer { stream.stop() }
        let unknown = "did not answer, so it is not known whether the log \(stream.name) has it"
        return try stream.within(failure: unknown) { () throws(ReplicationError) in try stream.append(note) }
    }
}

/// The servers that the newest entries of a log name.
struct LogReplicas: Sendable {
    private(set) var newest: [String: ReplicaCheckpoint] = [:]
    private(set) var joined: Set<String> = []

    private static let mostEntries: Int64 = 5_000

    /// - Returns: nil when the stream was stopped.
    init?(_ stream: ReplicatedStream, _ status: StreamStatus) throws(ReplicationError) {
        guard status.entries > 0 else { return }
        let reader = StreamReader(stream, after: max(status.firstPosition - 1, status.lastPosition - Self.mostEntries))
        defer { reader.stop() }
        while let entries = try reader.read(bytes: 1 << 20) {
            for entry in entries { note(ReplicaNote(entry)) }
            if entries.last?.position ?? 0 >= status.lastPosition { return }
        }
        return nil
    }

    private mutating func note(_ note: ReplicaNote?) {
        switch note {
        case .joined(let name): joined.insert(name)
        case .left(let name):
            joined.remove(name)
            newest[name] = nil
        case .checkpoint(let checkpoint):
            joined.insert(checkpoint.replica)
            newest[checkpoint.replica] = checkpoint
        case .upgrade, nil: break
        }
    }
}

struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Makes and looks after the log that several servers share (brokerd --log).",
        discussion: """
            An address is nats://HOST,HOST,HOST/NAME: servers of NATS, and the name of the stream. See protocol/replicas.md.
            """,
        subcommands: [
            LogCreateCommand.self, LogStatusCommand.self, LogRemoveCommand.self, LogUpgradeCommand.self,
        ])
}
#else
struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Makes and looks after the log that several servers share. Not in this program: see there.",
        discussion: "This program was built without the trait Replication.")

    @Argument(parsing: .allUnrecognized)
    var rest: [String] = []

    func run() async throws {
        throw CommandFailure(
            "This program was built without the trait Replication, and cannot reach a log that several servers share. Build it with "
                + "`swift build --traits Replication`.")
    }
}
#endif
