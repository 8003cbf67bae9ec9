public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine

struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Processes records, then deletes the objects that match and were not among them.",
        discussion: """
            The input is JSON (an array of records, or records one after the other), CSV with a header, forms or XML, \
            packed by gzip or lz4 or not, of all files together; see --type. It is one job, which takes effect whole \
            or not at all, unless it is larger than --batch-bytes: then it is several, and the last one deletes. After \
            a fault of the input nothing is sent, and when something is wrong with any record, nothing is deleted. An \
            input without records needs --empty, since it deletes all that matches, and a pipe that broke looks the \
            same.
            For example: curl -sf https://api.example.com/employees | broker sync --entity Employee
            Or: broker sync --entity Employee --where "department.name == %@" --argument "R&D" staff.json

            \(SelectionOptions.language)
            """)

    @OptionGroup var options: OperationOptions

    @OptionGroup var selection: SelectionOptions

    @OptionGroup var deletions: DeletionOptions

    @Option(
        name: .customLong("action"),
        help: "An action that the sync may take. May be given several times. Default: all of them.")
    var actions: [Job.Operation.SyncAction] = []

    @Flag(help: "Accept an input without records, which deletes all objects that match.")
    var empty = false

    @Option(
        help: ArgumentHelp(
            "The maximum bytes of records in a job; a larger record is a job of its own.", valueName: "size"))
    var batchBytes = ByteSize(12 << 20)

    @Option(
        help: ArgumentHelp(
            """
            Write each record that is rejected, or that makes a job fail, to this new file: a line of JSON with the \
            record, code, message, file and line.
            """, valueName: "file"), completion: .file())
    var rejects: String?

    @OptionGroup var input: InputOptions

    mutating func validate() throws {
        try NumberOption("--batch-bytes", batchBytes, in: 1...ByteSize(1 << 30)).check()
        if let id = options.id, !(1...110).contains(id.utf8.count) {
            throw ValidationError("--id must have 1 to 110 bytes, so that the jobs' numbers fit after it.")
        }
    }

    func run() async throws {
        let rejects = try rejects.map { path throws(CommandFailure) in try RejectsFile(path, appends: false) }
        let interruption = OperationInterruption(
            readsStandardInput: input.readsStandardInput, store: options.connection.store)
        try await options.connection.connected(
            "broker sync", makesStore: true, isDryRun: options.dryRun,
            onInterruption: {
                interruption.report()
                _ = rejects?.finish()
            }
        ) { broker in
            var sync = SyncRun(self, broker, interruption, rejects)
            try await sync.run(input.sources)
        }
    }
}

extension Job.Operation.SyncAction: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.insert, .update, .delete]
}
