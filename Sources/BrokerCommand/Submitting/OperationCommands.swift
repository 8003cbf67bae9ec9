public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import Glibc

/// The options of the commands that do one operation: it is one job, which takes effect completely or not at all.
struct OperationOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(
        help: "The entity of the objects. `sync` and `delete` take it as their first argument, too.",
        completion: .entity)
    var entity: String?

    @Option(help: "What happens with an invalid record or key: fail the job, or skip the record or key.")
    var onInvalid: Job.OnInvalid = .fail

    @Option(help: "An id for the job: sent again with the same id and input, it is applied once.")
    var id: String?

    @Flag(help: "Try it: say what it would change, and change nothing.")
    var dryRun = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        if let id, !(1...128).contains(id.utf8.count) { throw ValidationError("--id must have 1 to 128 bytes.") }
    }

    /// The first argument of a command is the entity, unless an option names it.
    mutating func takeEntity(_ argument: String?) throws -> Bool {
        guard entity == nil else { return false }
        guard let argument, ReadingOptions.isName(argument) else {
            throw ValidationError("Missing expected argument '--entity <entity>'")
        }
        entity = argument
        return true
    }

    /// Does the operation as one job, and says what became of it.
    ///
    /// - Parameters:
    ///   - asks: a person is asked before anything is deleted.
    ///   - place: what a JSON Pointer into the job's message leads to; nil when it leads to nothing that has a name.
    func run(
        _ operation: Job.Operation, named name: String, readsStandardInput: Bool = false,
        deletions: DeletionOptions? = nil, asks: Bool = false,
        at place: @escaping @Sendable (_ path: String?) -> JobPlace? = { _ in nil }
    ) async throws {
        let tally = tally(readsStandardInput: readsStandardInput)
        let state = try await connection.connected(
            name, isDryRun: dryRun, onInterruption: interruption(of: tally, readsStandardInput: readsStandardInput)
        ) { broker in
            var stream = JobStream(broker, tally, maximumInFlight: 1)
            let job = job(operation, id: id, deletions)
            do throws(JobStream.Stopped) {
                if asks { try await Self.ask(for: job, in: stream, at: place) }
                try await stream.send(job, at: place)
            } catch {}
            return await stream.end()
        }
        try end(state, countsRecords: false)
    }

    func job(_ operation: Job.Operation, id: String?, _ deletions: DeletionOptions?) -> Job {
        var job = Job(operation, id: id.map { JobID($0) }, onInvalid: onInvalid)
        job.isDryRun = dryRun
        job.maximumDeletions = deletions?.maximum
        return job
    }

    /// Tries the job, and asks the person at the terminal whether the objects that it would delete are to be deleted.
    static func ask(
        for job: Job, in stream: JobStream, at place: (_ path: String?) -> JobPlace?
    ) async throws(JobStream.Stopped) {
        var trial = job
        trial.id = nil
        trial.isDryRun = true
        do {
            if DeletionOptions.agrees(to: try await stream.broker.process(trial)) { return }
            stream.tally.fail("nothing was deleted")
        } catch {
            stream.tally.stop(by: error, at: place)
        }
        throw JobStream.Stopped()
    }

    /// The same command: a job of the same --id is applied once, and another finds what is committed as it is.
    private static func continuation(readsStandardInput: Bool) -> String {
        "to go on, run\(readsStandardInput ? " with the same standard input" : ""): \(CommandLine.arguments.shellText)"
    }

    func tally(readsStandardInput: Bool, _ rejects: RejectsFile? = nil) -> JobTally {
        JobTally(rejects: rejects) { code, status in
            switch code {
            case .tooManyDeletions?: " --max-delete is the limit; --dry-run without it shows what would be deleted."
            case _ where status == .cannotConnect: "; \(Self.continuation(readsStandardInput: readsStandardInput))"
            default: ""
            }
        }
    }

    /// Says, after a signal, whether a job may be committed, and how to go on.
    func interruption(of tally: JobTally, readsStandardInput: Bool) -> @Sendable () -> Void {
        let inquiry = ["broker", "await"] + (connection.store.map { ["--store", $0] } ?? [])
        return tally.reporting(waitingAtMost: .seconds(0)) { state in
            let last = state.unanswered.values.max { $0.number < $1.number }
            let end = last?.id.map { id in
                "the job \(id) was sent and may be committed (see `\((inquiry + [id]).shellText)`)"
            }
            Program.report(
                "broker: interrupted; \(end ?? "no job is unanswered"); "
                    + Self.continuation(readsStandardInput: readsStandardInput))
        }
    }

    /// Says what became of it all: data to standard output, the rest to standard error.
    func end(_ state: JobTally.State, countsRecords: Bool, _ rejects: RejectsFile? = nil) throws {
        let summary = state.summary
        summary.sayFailures()
        if json {
            try summary.write()
        } else if summary.failures.isEmpty || summary.jobs > 0 {
            try summary.say(countsRecords: countsRecords)
        }
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if state.status != .success { throw CommandFailure(state.status) }
    }
}

/// How many objects a command may delete, and whether it asks before.
struct DeletionOptions: ParsableArguments {
    @Option(
        name: .customLong("max-delete"),
        help: ArgumentHelp(
            """
            The maximum number of objects to delete, those that delete rules delete included; 10% is a tenth of the \
            objects of each entity. If it would be more, the job fails and changes nothing.
            """, valueName: "count"))
    var maximum: Job.DeletionLimit?

    @Flag(help: "Delete without asking. Only a person at a terminal is asked.")
    var yes = false

    func mayAsk() -> Bool { !yes && Confirmation.isPossible }

    /// Asks whether what a job would delete is to be deleted; true when it would delete nothing.
    static func agrees(to completion: Completion) -> Bool {
        let deleted = completion.changes.filter { $0.value.deleted > 0 }.sorted { $0.key < $1.key }
        guard !deleted.isEmpty else { return true }
        let parts = deleted.map { "\(ShortText.count($0.value.deleted)) \($0.key)" }
        let list =
            parts.count == 1 ? parts[0] : parts.dropLast().joined(separator: ", ") + " and \(parts[parts.count - 1])"
        return Confirmation.agrees(to: "Delete \(list)?")
    }
}

extension Job.DeletionLimit: ExpressibleByArgument {
    public init?(argument: String) {
        if argument.hasSuffix("%") {
            guard let percent = Double(argument.dropLast()), (0...100).contains(percent) else { return nil }
            self = .percent(percent)
        } else {
            guard let count = Int(argument), count >= 0 else { return nil }
            self = .objects(count)
        }
    }
}

/// What the object of a command must be like.
struct ExpectationOptions: ParsableArguments {
    @Option(
        help: .value(
            "predicate", "Do it only if the object matches, as \"balance >= 10\"; otherwise fail, changing nothing."))
    var expect: String?

    @Option(
        help: .value(
            "version", "Do it only if the object has not changed: its _version, which `fetch --versions` prints."))
    var expectVersion: String?

    mutating func validate() throws {
        if expect != nil, expectVersion != nil {
            throw ValidationError("An object is expected either by --expect or by --expect-version.")
        }
    }

    var expectation: Job.Expectation? {
        expect.map { .matching(BrokerPredicate($0)) } ?? expectVersion.map { .version($0) }
    }
}

extension Job.LinkChange: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.add, .replace, .remove]
}

struct DeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Deletes objects by their keys or by a predicate, and applies the delete rules.",
        discussion: """
            A key is the value of the entity's identity: JSON, or else text. Of a compound identity it is an object, \
            such as '{"floor": 1, "number": "a"}', and where objects may lack an identity it is the _pk. Keys that \
            name nothing are counted in a warning. One job deletes all objects, or none. Negative numbers go after --.
            For example: broker delete Employee 3 4
            Or: broker delete --entity Employee --where "department.name == %@" --argument "R&D"

            \(SelectionOptions.language)
            """)

    @OptionGroup var options: OperationOptions

    @OptionGroup var selection: SelectionOptions

    @OptionGroup var deletions: DeletionOptions

    @OptionGroup var condition: ExpectationOptions

    @Argument(help: "Keys of the objects; before them the entity, in the place of --entity.")
    var keys: [CommandValue] = []

    mutating func validate() throws {
        if try options.takeEntity(keys.first?.text) { keys.removeFirst() }
        guard keys.isEmpty == (selection.format != nil) else {
            throw ValidationError(
                keys.isEmpty
                    ? "Say what to delete: keys, or --where with a predicate (TRUEPREDICATE deletes all)."
                    : "Say what to delete either by keys or by --where.")
        }
        guard condition.expectation == nil || keys.count == 1 else {
            throw ValidationError("--expect and --expect-version are about one object: give one key.")
        }
    }

    func run() async throws {
        let entity = options.entity ?? ""
        let operation =
            try selection.predicate.map { Job.Operation.delete(entity, where: $0) }
            ?? .delete(entity, keys: keys.map(\.json))
        // Keys name what is deleted; a predicate may match more than was thought.
        let asks = selection.predicate != nil && !options.dryRun && deletions.mayAsk()
        try await options.run(
            operation.expecting(condition.expectation), named: "broker delete", deletions: deletions, asks: asks,
            at: key)
    }

    /// The key that a JSON Pointer into the job's message leads to.
    @Sendable private func key(at path: String?) -> JobPlace? {
        guard let tokens = path?.split(separator: "/"), tokens.count == 2, tokens[0] == "objects",
            let index = Int(tokens[1]), keys.indices.contains(index)
        else { return nil }
        return .key(index + 1, text: keys[index].text)
    }
}

struct RelateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relate",
        abstract: "Gives a relationship of one object a value.",
        discussion: """
            The value is what a record would hold at the relationship: an object or a key, for a to-many an array of \
            them, or null, which ends the links. It comes from --to, a file or standard input, as one JSON value. The \
            object must exist. Keys are JSON, or else text; a compound one is an object, and where objects may lack an \
            identity it is the _pk.
            For example: broker relate --entity Employee --object 3 --relationship department --to 7
            Or: echo '{"id": 7, "name": "R&D"}' | broker relate --entity Employee --object 3 --relationship department
            """)

    @OptionGroup var options: OperationOptions

    @Option(parsing: .unconditional, help: .value("key", "The object's key."))
    var object: CommandValue

    @Option(help: .value("name", "The relationship's name in the model."))
    var relationship: String

    @Option(parsing: .unconditional, help: .value("value", "The value, such as a key: JSON, or else text."))
    var to: CommandValue?

    @Option(
        help: "Of a relationship to many: add to its links, replace them, or remove those named. Default: the model's.")
    var links: Job.LinkChange?

    @OptionGroup var condition: ExpectationOptions

    @Argument(help: "A file with the value; none or - is standard input.", completion: .file())
    var file: String?

    mutating func validate() throws {
        if try options.takeEntity(nil) { return }
        if to != nil, file != nil { throw ValidationError("The value comes from --to or from a file, not from both.") }
    }

    func run() async throws {
        let value = try to?.json ?? read(file ?? "-")
        let operation = try Job.Operation.set(relationship, of: options.entity ?? "", key: object.json, to: value)
        try await options.run(
            operation.expecting(condition.expectation).changing(links: links), named: "broker relate",
            readsStandardInput: to == nil && file ?? "-" == "-")
    }

    private func read(_ path: String) throws(CommandFailure) -> RawJSON {
        let text = try JSONText.file(path)
        let value = InputRecord(json: Array(text.bytes), place: InputPlace())
        if let fault = value.fault {
            throw CommandFailure(fault.sentence(in: path == "-" ? "standard input" : path))
        }
        return RawJSON(value.json)
    }
}

extension InputFault {
    /// The fault, when nothing of the input is sent because of it.
    func sentence(in name: String) -> String {
        guard let place else { return "\(name) \(reason)" }
        return "\(name), \(place): \(text); nothing was sent"
    }
}

struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Processes records, then deletes the objects that match and were not among them.",
        discussion: """
            The input is JSON (an array of records, or records one after the other), CSV with a header, forms or XML, \
            packed by gzip, lz4 or zstd or not, of all files together; see --type. It is one job, which takes effect whole \
            or not at all, unless it is larger than --batch-bytes: then it is several, and the last one deletes. After \
            a fault of the input nothing is sent, and when something is wrong with any record, nothing is deleted. An \
            input without records needs --empty, since it deletes all that matches, and a pipe that broke looks the \
            same.
            For example: curl -sf https://api.example.com/employees | broker sync Employee
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

    @Option(help: .value("size", "The maximum bytes of records in a job; a larger record is a job of its own."))
    var batchBytes = ByteSize(12 << 20)

    @OptionGroup var rejects: RejectsOption

    @OptionGroup var strictness: StrictOptions

    @OptionGroup var inference: InferenceOptions

    @OptionGroup var input: InputOptions

    private var evolves: Bool? { strictness.evolves(inference.evolve) }

    fileprivate var policy: Job.OnInvalid { strictness.policy(options.onInvalid) }

    mutating func validate() throws {
        try checkRange("--batch-bytes", batchBytes, in: 1...ByteSize(1 << 30))
        let first = input.files.first.flatMap { access($0, F_OK) == 0 ? nil : $0 }
        if try options.takeEntity(first) { input.files.removeFirst() }
        try inference.check(mayInfer: options.connection.mayInfer)
        if let id = options.id, !(1...110).contains(id.utf8.count) {
            throw ValidationError("--id must have 1 to 110 bytes, so that the jobs' numbers fit after it.")
        }
    }

    func run() async throws {
        let inferred = try await inferred()
        let sources = input.sources(root: input.format.root ?? inferred?.root)
        let rejects = try rejects.file()
        let tally = options.tally(readsStandardInput: input.readsStandardInput, rejects)
        let state = try await options.connection.connected(
            "broker sync", makesStore: true, isDryRun: options.dryRun, inferred: inferred,
            onInterruption: options.interruption(of: tally, readsStandardInput: input.readsStandardInput)
        ) { broker in
            let keys = await RecordSource.keys(of: options.entity, broker)
            var run = SyncRun(self, broker, tally)
            return try await run.run(sources.map { $0.readingTables.withKeys(keys) })
        }
        if inferred != nil, !options.dryRun {
            await InferredModel.promote(after: state.summary, of: sources, options.connection, evolves: evolves)
        }
        try options.end(state, countsRecords: true, rejects)
    }

    private func inferred() async throws -> InferredModel? {
        // An input without records has no model to infer, and deletes.
        if empty, options.connection.mayInfer, try options.connection.storedModel() != nil { return nil }
        let inferred = try await InferredModel(
            of: input.sources, entity: options.entity, options.connection, inference, evolves: evolves,
            mayReject: policy == .skip)
        guard inferred?.mapping == nil else {
            throw CommandFailure(
                "The records are found by a mapping (their keys are values), and a sync reads none; use submit.")
        }
        return inferred
    }
}

/// The records of a sync: one job, or parts when they do not fit one. The next part is cut and sent while the one before it
/// is on its way; the last one, which deletes, waits until all others are committed.
private struct SyncRun {
    /// When one job does not do, the parts are small, so that the server stages one while it merges another.
    private static let mostPartBytes = 4 << 20

    private let command: SyncCommand
    private let actions: Set<Job.Operation.SyncAction>
    /// The id of the parts. A new one each time without `--id`: names of an older run must not count.
    private let partID: String
    /// A person is asked before anything is deleted.
    private let asks: Bool
    private var gathered: GatheredRecords
    private var stream: JobStream

    init(_ command: SyncCommand, _ broker: RemoteBroker, _ tally: JobTally) {
        self.command = command
        actions = command.actions.isEmpty ? Set<Job.Operation.SyncAction>.all : Set(command.actions)
        partID = command.options.id ?? "broker-sync-\(UInt64.random(in: 0...UInt64.max))"
        stream = JobStream(broker, tally, maximumInFlight: 4)
        // Standard input that was the records has no answers.
        asks =
            actions.contains(.delete) && !command.options.dryRun && command.deletions.mayAsk()
            && !command.input.readsStandardInput
        gathered = GatheredRecords(keepsTexts: command.rejects.path != nil)
    }

    mutating func run(_ sources: [RecordSource]) async throws -> JobTally.State {
        do {
            for source in sources {
                var line = ReadingLine(source.name, totalBytes: source.byteCount)
                defer { line.clear() }
                try await read(source, &line)
            }
            if gathered.total == 0, actions.contains(.delete), !command.empty {
                stream.tally.fail(
                    "the input holds no records, and a sync of none deletes all that matches; if that is intended, add "
                        + "--empty; nothing was sent")
            } else {
                try await send(isLast: true)
            }
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

    private mutating func read(_ source: RecordSource, _ line: inout ReadingLine) async throws {
        gathered.begin(source.name)
        do {
            try await source.forEachBatch { batch in
                for record in batch.records { try await take(record) }
                line.update(bytes: batch.bytesRead, records: gathered.total)
            }
            if let fault = gathered.dropBroken() { throw fault }
        } catch let fault as InputFault {
            let place = fault.place.map { ", \($0): \(fault.text)" } ?? " \(fault.reason)"
            let end = stream.jobCount == 0 ? "; nothing was sent" : ""
            stream.tally.fail("\(source.name)\(place)\(end)")
            throw JobStream.Stopped()
        }
    }

    private mutating func take(_ record: InputRecord) async throws {
        let most = stream.jobCount == 0 ? command.batchBytes.bytes : partBytes
        if gathered.isFull(before: record, bytes: most) {
            guard !command.options.dryRun else {
                stream.tally.fail(
                    "the input does not fit one job, and a sync in several jobs cannot be tried; give a larger "
                        + "--batch-bytes (a job may have some 25 MB); nothing was sent")
                throw JobStream.Stopped()
            }
            while gathered.count > 0 { try await send(isLast: false) }
        }
        gathered.append(record)
    }

    private var partBytes: Int { min(command.batchBytes.bytes, Self.mostPartBytes) }

    private mutating func send(isLast: Bool) async throws {
        if let fault = gathered.dropBroken() { throw fault }
        let (json, records) = isLast ? gathered.take() : gathered.take(firstBytes: partBytes)
        let isAlone = isLast && stream.jobCount == 0
        if isLast { try await stream.settle() }
        let operation = Job.Operation.sync(
            json: json, as: command.options.entity ?? "", where: command.selection.predicate, actions: actions,
            part: isAlone ? nil : Job.Operation.SyncPart(id: partID, isLast: isLast))
        let id = command.options.id.map { isAlone ? $0 : "\($0)-\(stream.jobCount + 1)" }
        var job = command.options.job(operation, id: id, command.deletions)
        (job.onInvalid, job.unknownKeys) = (command.policy, command.strictness.unknownKeys)
        let place = { @Sendable path in records.record(at: path) }
        if isLast, asks { try await OperationOptions.ask(for: job, in: stream, at: place) }
        try await stream.send(job, records, at: place)
    }
}

extension Job.Operation.SyncAction: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.insert, .update, .delete]
}
