public import ArgumentParser
public import BrokerClient
import BrokerCommandLine

struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Processes records, then deletes the objects that match and were not among them.",
        discussion: """
            The input is an array of records, or records one after the other (NDJSON), of all files together. It is one \
            job, which takes effect whole or not at all. Of a broken input nothing is sent; when a record is left out \
            (--on-invalid skip), nothing is deleted. An input without records needs --empty, since it deletes all that \
            matches, and a pipe that broke looks the same.
            For example: curl -sf https://api.example.com/employees | broker sync --entity Employee
            Or: broker sync --entity Employee --where "department.name == %@" --argument "R&D" staff.json
            """)

    @OptionGroup var options: OperationOptions

    @OptionGroup var selection: SelectionOptions

    @Option(
        name: .customLong("action"),
        help: "What it may do; may be given several times. Default: all of them.")
    var actions: [BrokerClient.Job.Operation.SyncAction] = []

    @Flag(help: "Take an input without records for what it says: delete all that matches.")
    var empty = false

    @Option(
        help: ArgumentHelp(
            """
            Where the records are in each value of the input: keys with dots between them, or a JSON Pointer \
            (/data/items).
            """, valueName: "path"))
    var root: RecordRoot?

    @Argument(help: "Files of JSON; none or - is standard input.", completion: .file())
    var files: [String] = []

    func run() async throws {
        let broker = try await options.connection.connect("broker sync")
        let actions = actions.isEmpty ? BrokerClient.Job.Operation.SyncAction.all : Set(actions)
        var records = SyncRecords()
        for file in files.isEmpty ? ["-"] : files {
            try await records.read(RecordSource(path: file, root: root))
        }
        if records.count == 0, actions.contains(.delete), !empty {
            throw CommandFailure(
                .failed,
                "The input holds no records, and a sync of none deletes all that matches. If that is meant, say --empty; "
                    + "nothing was sent.")
        }
        let json = try records.take()
        try await options.run(
            .sync(json, where: selection.predicate, actions: actions), on: broker, records: records.count,
            at: records.place)
    }
}

extension BrokerClient.Job.Operation.SyncAction: ExpressibleByArgument {}
