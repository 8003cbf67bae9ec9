import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerWire
import Glibc

extension UserName {
    /// - Parameter user: a name or a number, of the option `--user`.
    static func number(_ user: String) throws -> UInt32 {
        guard let number = UInt32(user) ?? getpwnam(user)?.pointee.pw_uid else {
            throw ValidationError("--user: this machine has no user \"\(user)\". Give the number.")
        }
        return number
    }
}

struct ClientsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients", abstract: "Lists who is connected, what they sent, and how it failed.",
        discussion: """
            Jobs and bytes are those of the connection. A client that sends bad data has many failed jobs, and its last error; one \
            that does not read its answers has bytes unread. Only the server's own user and root see them.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    func run() async throws {
        let answer = try await connection.connected("broker clients", needsServer: "Only a server has clients") {
            try await $0.perform(.clients)
        }
        if json { return try Program.write(answer.description) }
        let document = try JSONDocument(fast: JSONText(copying: answer.bytes))
        try withExtendedLifetime(document) {
            var table = TextTable(
                [
                    "connection", "user", "process", "since", "jobs", "failed", "in flight", "received", "unread",
                    "client",
                    "last error",
                ], right: Set(0...8))
            for client in document.root["clients"]?.elements.map(\.self) ?? [] { table.add(Self.row(client)) }
            for line in table.lines(columns: Terminal.columns(of: STDOUT_FILENO)) { try Program.say(line) }
        }
    }

    private static func row(_ client: JSONValue) -> [String] {
        func number(_ key: String) -> Int { Int(client[key]?.int64 ?? 0) }
        let error = client["error"].map { error in
            "\(error["code"]?.string ?? ""): \(error["message"]?.string ?? "")"
        }
        return [
            "\(number("connection"))", UserName.text(of: Int64(number("user"))), "\(number("process"))",
            ShortText.moment(milliseconds: Int64(number("connectedAt"))),
            "\(number("jobs"))", "\(number("failed"))", "\(number("inFlight"))",
            ShortText.bytes(number("receivedBytes")), ShortText.bytes(number("unreadBytes")),
            client["client"]?.string ?? "", error ?? "",
        ]
    }
}

struct KickCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kick", abstract: "Ends a client's connection, or all of a user.",
        discussion: """
            Jobs that were accepted take effect all the same, and the client may connect again: to keep a user out, take it out \
            of allow-user. For example: broker kick 12, where `broker clients` has the number.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Argument(help: "The number of a connection.") var number: Int?

    @Option(help: .value("user", "All connections of that user, by name or number.")) var user: String?

    mutating func validate() throws {
        guard (number == nil) != (user == nil) else {
            throw ValidationError("Give the number of a connection, or --user.")
        }
    }

    func run() async throws {
        let message = KickMessage(connection: number, user: try user.map(UserName.number))
        let count = try await connection.connected("broker kick", needsServer: "Only a server has clients") {
            try await $0.kick(message)
        }
        try Program.say("\(count) connection\(count == 1 ? "" : "s") ended")
    }
}
