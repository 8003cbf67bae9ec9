import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerConsole
import BrokerFastJSON
import BrokerJSON
import BrokerWire
import Glibc

struct RejectsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rejects",
        abstract: "Lists records that jobs skipped, and submits them again.",
        discussion: """
            The server keeps each record that a job with onInvalid `skip` skipped, with its errors (brokerd --keep-rejects). Users see \
            those of their own jobs; root and the server's own user see all. Records of jobs that failed are not among them: such a job \
            took nothing.
            """,
        subcommands: [
            RejectsListCommand.self, RejectsShowCommand.self, RejectsExportCommand.self, RejectsRetryCommand.self,
            RejectsDropCommand.self,
        ], defaultSubcommand: RejectsListCommand.self)
}

/// Which rejected records.
struct RejectsFilter: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(help: "Only those with an error of that entity.", completion: .entity)
    var entity: String?

    @Option(help: .value("id", "Only those of that job."))
    var job: String?
}

/// The rejected records that a command works on.
struct RejectsSelection: ParsableArguments {
    @OptionGroup var filter: RejectsFilter

    @Flag(help: "All of them.")
    var all = false

    @Argument(help: .value("id", "The numbers of rejected records, as `broker rejects` lists them."))
    var ids: [Int64] = []

    mutating func validate() throws {
        let isFiltered = all || filter.entity != nil || filter.job != nil
        guard ids.isEmpty == isFiltered else {
            throw ValidationError("Give the numbers of rejected records, or --entity, --job or --all.")
        }
    }

    /// The oldest first.
    func find(_ broker: RemoteBroker) async throws -> [Int64] {
        ids.isEmpty ? try await broker.rejectNumbers(RejectsMessage(filter)) : ids
    }
}

extension RejectsMessage {
    fileprivate init(_ filter: RejectsFilter) {
        self.init()
        (entity, job) = (filter.entity, filter.job)
    }
}

struct RejectsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists rejected records, the newest first.")

    @OptionGroup var filter: RejectsFilter

    @Option(help: .value("count", "The number of rejected records, at most."))
    var limit = RejectsMessage.defaultLimit

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    mutating func validate() throws { try checkRange("--limit", limit, in: RejectsMessage.limits) }

    func run() async throws {
        var message = RejectsMessage(filter)
        message.limit = limit
        let answer = try await filter.connection.connected("broker rejects") { try await $0.rejects(message) }
        if json { return try Program.write(answer.description) }
        try JSONDocument(fast: JSONText(copying: answer.bytes)).withRoot { root in
            var table = TextTable(["rejected", "accepted", "user", "job", "error"], right: [0, 2])
            for reject in root["rejects"]?.elements.map(\.self) ?? [] { table.add(Self.row(reject)) }
            guard !table.isEmpty else { return try Program.say("No rejected record is kept.") }
            for line in table.lines(columns: Terminal.columns(of: STDOUT_FILENO)) { try Program.say(line) }
            if root["more"]?.bool ?? false { try Program.say("There are more: --limit, --entity or --job.") }
        }
    }

    private static func row(_ reject: JSONValue) -> [String] {
        let errors = reject["errors"]?.elements.map(Completion.Rejection.init) ?? []
        let more = errors.count > 1 ? " (and \(errors.count - 1) more)" : ""
        return [
            "\(reject["id"]?.int64 ?? 0)", ShortText.moment(milliseconds: reject["acceptedAt"]?.int64 ?? 0),
            UserName.text(of: reject["user"]?.int64 ?? 0), reject["job"]?.string ?? "",
            (errors.first.map { "\($0.code.rawValue): \($0.message)" } ?? "") + more,
        ]
    }
}

struct RejectsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Shows a rejected record with its errors.",
        discussion:
            "The record goes to standard output, its errors to standard error. For example: broker rejects show 41003")

    @OptionGroup var connection: ConnectionOptions

    @Argument(help: "The number of a rejected record.") var id: Int64

    func run() async throws {
        try await connection.connected("broker rejects") { broker in
            try await broker.forEachReject([id]) { reject in
                let user = UserName.text(of: reject.user)
                let time = ShortText.moment(milliseconds: reject.acceptedAt)
                Program.report(
                    "\(reject.operation.entity.isEmpty ? "a payload" : reject.operation.entity) of job \(reject.job), "
                        + "sequence \(reject.sequence), user \(user), accepted \(time)")
                for error in reject.errors {
                    let path = reject.path(of: error)
                    Program.report("\(error.code.rawValue) at \(path.isEmpty ? "the record" : path): \(error.message)")
                }
                try Program.say(reject.record.description)
            }
        }
    }
}

struct RejectsExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes rejected records as lines of JSON, as `submit --rejects` does.",
        discussion: """
            Correct the records, and submit them: broker rejects export --all > bad.ndjson; broker submit Employee --root record \
            bad.ndjson; broker rejects drop --all.
            """)

    @OptionGroup var selection: RejectsSelection

    func run() async throws {
        try await selection.filter.connection.connected("broker rejects") { broker in
            try await broker.forEachReject(try await selection.find(broker)) { reject in
                var writer = JSONWriter()
                writer.object { writer in
                    writer.member("record", raw: reject.record.bytes)
                    if let first = reject.errors.first { reject.write(first, to: &writer) }
                    writer.member("reject", reject.id)
                    writer.member("job", reject.job)
                    guard reject.errors.count > 1 else { return }
                    writer.objects("others", of: reject.errors.dropFirst()) { reject.write($0, to: &$1) }
                }
                try Program.say(String(decoding: writer.bytes, as: UTF8.self))
            }
        }
    }
}

extension Reject {
    fileprivate func write(_ error: Completion.Rejection, to writer: inout JSONWriter) {
        RejectsFile.write(error, path(of: error), to: &writer)
    }
}

struct RejectsRetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Submits rejected records again, and drops those that are taken.",
        discussion: """
            Each is a job of its own, reject-NUMBER, in the order in which they came: what later jobs wrote is replaced, unless the \
            entity has a `modified`. Change the model first, or export the records and correct them.
            """)

    @OptionGroup var selection: RejectsSelection

    func run() async throws {
        var (taken, refused) = (0, 0)
        try await selection.filter.connection.connected("broker rejects") { broker in
            try await broker.forEachReject(try await selection.find(broker)) { reject in
                if let error = try await broker.retry(reject) {
                    Program.report("broker: \(reject.id): \(error)", .error)
                    refused += 1
                    return
                }
                taken += 1
            }
        }
        try Program.say(
            "\(Program.counted(taken, "record")) taken" + (refused > 0 ? ", \(refused) rejected again" : ""))
        if refused > 0 { throw CommandFailure(.rejected) }
    }
}

struct RejectsDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop", abstract: "Deletes rejected records that are kept.")

    @OptionGroup var selection: RejectsSelection

    func run() async throws {
        let count = try await selection.filter.connection.connected("broker rejects") { broker in
            try await broker.drop(try await selection.find(broker))
        }
        try Program.say("\(Program.counted(count, "record")) dropped")
    }
}
