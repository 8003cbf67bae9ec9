public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON

/// The options of the commands that do one operation: it is one job, which takes effect completely or not at all.
struct OperationOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(help: "The entity of the objects.", completion: .entity)
    var entity: String

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

    /// Does the operation as one job, and says what became of it.
    ///
    /// - Parameters:
    ///   - name: the command's, for the server's log.
    ///   - asks: a person is asked before anything is deleted.
    ///   - place: what a JSON Pointer into the job's message leads to; nil when it leads to nothing that has a name.
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func run(
        _ action: Job.Operation.Action, named name: String, readsStandardInput: Bool = false,
        deletions: DeletionOptions? = nil, asks: Bool = false,
        at place: @escaping @Sendable (_ path: String?) -> JobPlace?
    ) async throws {
        let continuation = Self.continuation(readsStandardInput: readsStandardInput)
        let tally = tally(continuation)
        let state = try await connection.connected(
            name, isDryRun: dryRun, onInterruption: interruption(of: tally, continuation)
        ) { broker in
            var stream = JobStream(broker, tally, maximumInFlight: 1)
            let job = job(action, id: id, deletions)
            do throws(JobStream.Stopped) {
                if asks { try await Self.ask(for: job, in: stream, at: place) }
                try await stream.send(job, at: place)
            } catch {}
            return await stream.end()
        }
        try end(state, countsRecords: false)
    }

    func job(_ action: Job.Operation.Action, id: String?, _ deletions: DeletionOptions?) -> Job {
        var job = Job(Job.Operation(entity: entity, action), onInvalid: onInvalid)
        job.id = id.map { JobID($0) }
        job.isDryRun = dryRun
        job.maximumDeletions = deletions?.maximum
        return job
    }

    /// Tries the job, and asks the person at the terminal whether the objects that it would delete are to be deleted.
    ///
    /// - Throws: when nothing is to be sent; the reason is noted.
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
    static func continuation(readsStandardInput: Bool) -> String {
        "to go on, run\(readsStandardInput ? " with the same standard input" : ""): \(CommandLine.arguments.shellText)"
    }

    func tally(_ continuation: String, _ rejects: RejectsFile? = nil) -> JobTally {
        JobTally(rejects: rejects) { code, status in
            switch code {
            case .tooManyDeletions?: " --max-delete is the limit; --dry-run without it shows what would be deleted."
            case _ where status == .cannotConnect: "; \(continuation)"
            default: ""
            }
        }
    }

    /// Says, after a signal, whether a job may be committed, and how to go on.
    func interruption(
        of tally: JobTally, _ continuation: String, _ rejects: RejectsFile? = nil
    ) -> @Sendable () -> Void {
        let inquiry = ["broker", "await"] + (connection.store.map { ["--store", $0] } ?? [])
        return tally.reporting(waitingAtMost: .seconds(0), rejects) { state in
            let last = state.unanswered.values.max { $0.number < $1.number }
            let end = last?.id.map { id in
                "the job \(id) was sent and may be committed (see `\((inquiry + [id]).shellText)`)"
            }
            Program.report("broker: interrupted; \(end ?? "no job is unanswered"); \(continuation)")
        }
    }

    /// Says what became of it all: data to standard output, the rest to standard error.
    ///
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
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

struct DeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Deletes objects by their keys or by a predicate, and applies the delete rules.",
        discussion: """
            A key is the value of the entity's identity: JSON, or else text. Of a compound identity it is an object, \
            such as '{"floor": 1, "number": "a"}', and where objects may lack an identity it is the _pk. Keys that \
            name nothing are counted in a warning. One job deletes all objects, or none. Negative numbers go after --.
            For example: broker delete --entity Employee 3 4
            Or: broker delete --entity Employee --where "department.name == %@" --argument "R&D"

            \(SelectionOptions.language)
            """)

    @OptionGroup var options: OperationOptions

    @OptionGroup var selection: SelectionOptions

    @OptionGroup var deletions: DeletionOptions

    @Argument(help: "Keys of the objects.")
    var keys: [CommandValue] = []

    mutating func validate() throws {
        guard keys.isEmpty == (selection.format != nil) else {
            throw ValidationError(
                keys.isEmpty
                    ? "Say what to delete: keys, or --where with a predicate (TRUEPREDICATE deletes all)."
                    : "Say what to delete either by keys or by --where.")
        }
    }

    func run() async throws {
        let action: Job.Operation.Action =
            if let predicate = selection.predicate {
                .deleteMatching(predicate)
            } else {
                .delete(RawJSON("[\(keys.map(\.json.description).joined(separator: ","))]"))
            }
        // Keys name what is deleted; a predicate may match more than was thought.
        let asks = selection.predicate != nil && !options.dryRun && deletions.mayAsk()
        try await options.run(action, named: "broker delete", deletions: deletions, asks: asks, at: key)
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

    @Option(parsing: .unconditional, help: ArgumentHelp("The object's key.", valueName: "key"))
    var object: CommandValue

    @Option(help: ArgumentHelp("The relationship's name in the model.", valueName: "name"))
    var relationship: String

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The value, such as a key: JSON, or else text.", valueName: "value"))
    var to: CommandValue?

    @Argument(help: "A file with the value; none or - is standard input.", completion: .file())
    var file: String?

    mutating func validate() throws {
        if to != nil, file != nil { throw ValidationError("The value comes from --to or from a file, not from both.") }
    }

    func run() async throws {
        let value = try to?.json ?? read(file ?? "-")
        try await options.run(
            .relate(value, relationship: relationship, object: object.json), named: "broker relate",
            readsStandardInput: to == nil && file ?? "-" == "-", at: { _ in nil })
    }

    private func read(_ path: String) throws(CommandFailure) -> RawJSON {
        let text = try JSONText.file(path)
        let value = InputRecord(json: Array(text.bytes), place: InputPlace())
        if let fault = value.fault {
            throw CommandFailure(.failed, fault.sentence(in: path == "-" ? "standard input" : path))
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
