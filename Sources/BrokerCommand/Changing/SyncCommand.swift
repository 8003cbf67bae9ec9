public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput

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
        let continuation = OperationOptions.continuation(readsStandardInput: input.readsStandardInput)
        let tally = options.tally(continuation, rejects)
        let state = try await options.connection.connected(
            "broker sync", makesStore: true, isDryRun: options.dryRun,
            onInterruption: options.interruption(of: tally, continuation, rejects)
        ) { broker in
            var run = SyncRun(self, broker, tally)
            return try await run.run(input.sources)
        }
        try options.end(state, countsRecords: true, rejects)
    }
}

/// The records of a sync: one job, or parts when they do not fit one. The next part is cut and sent while the one before it
/// is on its way; the last one, which deletes, waits until all others are committed.
private struct SyncRun {
    private let command: SyncCommand
    private let actions: Set<Job.Operation.SyncAction>
    /// The id of the parts. A new one each time without `--id`: names of an older run must not count.
    private let partID: String
    /// A person is asked before anything is deleted.
    private let asks: Bool
    private var gathered: GatheredRecords
    private var stream: JobStream

    init(_ command: SyncCommand, _ broker: BrokerClient, _ tally: JobTally) {
        self.command = command
        actions = command.actions.isEmpty ? Set<Job.Operation.SyncAction>.all : Set(command.actions)
        partID = command.options.id ?? "broker-sync-\(UInt64.random(in: 0...UInt64.max))"
        stream = JobStream(broker, tally, maximumInFlight: 2)
        // Standard input that was the records has no answers.
        asks =
            actions.contains(.delete) && !command.options.dryRun && command.deletions.mayAsk()
            && !command.input.readsStandardInput
        gathered = GatheredRecords(keepsTexts: command.rejects != nil)
    }

    mutating func run(_ sources: [RecordSource]) async throws -> JobTally.State {
        do {
            for source in sources { try await read(source) }
            if gathered.total == 0, actions.contains(.delete), !command.empty {
                stream.tally.fail(
                    "the input holds no records, and a sync of none deletes all that matches; if that is intended, add "
                        + "--empty; nothing was sent")
            } else {
                try await send(isLast: true)
            }
        } catch let fault as InputFault {
            let place = fault.place.map { ", \($0): \(fault.text)" } ?? " \(fault.reason)"
            let end = stream.jobCount == 0 ? "; nothing was sent" : ""
            stream.tally.fail("\(gathered.nameOfFaulty)\(place)\(end)")
        } catch is JobStream.Stopped {
        }
        // Jobs in flight count, even when no further one is sent.
        var state = await stream.end()
        if state.status == .failed, state.summary.jobs > 0 {
            let count = state.summary.records
            state.fail(
                "\(count == 1 ? "1 record is" : "\(count) records are") committed, and nothing was deleted; correct "
                    + "the input and sync all of it again" + (command.options.id == nil ? "" : " under another --id"))
        }
        return state
    }

    private mutating func read(_ source: RecordSource) async throws {
        gathered.begin(source.name)
        try await source.forEach { record, _ in
            if gathered.isFull(before: record, bytes: command.batchBytes.bytes) {
                guard !command.options.dryRun else {
                    stream.tally.fail(
                        "the input does not fit one job, and a sync in several jobs cannot be tried; give a larger "
                            + "--batch-bytes (a job may have some 25 MB); nothing was sent")
                    throw JobStream.Stopped()
                }
                try await send(isLast: false)
            }
            gathered.append(record)
        }
    }

    private mutating func send(isLast: Bool) async throws {
        if let fault = gathered.dropBroken() { throw fault }
        let (json, records) = gathered.take()
        let isAlone = isLast && stream.jobCount == 0
        if isLast { try await stream.settle() }
        let action = Job.Operation.Action.sync(
            json, where: command.selection.predicate, actions: actions,
            part: isAlone ? nil : Job.Operation.SyncPart(id: partID, isLast: isLast))
        let id = command.options.id.map { isAlone ? $0 : "\($0)-\(stream.jobCount + 1)" }
        let job = command.options.job(action, id: id, command.deletions)
        let place = { @Sendable path in records.record(at: path) }
        if isLast, asks { try await OperationOptions.ask(for: job, in: stream, at: place) }
        try await stream.send(job, records, at: place)
        // The next part is read while this one is in flight alone.
        try await stream.settle(downTo: 1)
    }
}

extension Job.Operation.SyncAction: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.insert, .update, .delete]
}
