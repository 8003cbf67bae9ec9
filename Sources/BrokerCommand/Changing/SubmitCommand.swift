public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import Dispatch
import Glibc

struct SubmitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "submit",
        abstract: "Submits records from files or standard input, awaits them and prints a summary.",
        discussion: """
            The input is JSON (an array of records, or records one after the other), CSV with a header, forms or XML, \
            packed by gzip or lz4 or not; see --type. Large inputs are cut into jobs, of which up to --max-in-flight \
            are in flight; each job takes effect or fails as a whole, in the order of the input. The records before a \
            fault of the input are submitted, and so are the other files; the summary then lists what is committed, \
            and the command that submits the rest. For example: curl -s https://api.example.com/employees | broker \
            submit --entity Employee. Whole API responses are read by a mapping of the model (--mapping), by its \
            routes for a path (--path), or, with neither, by its routes that have only a key path. With --store and \
            without --model, the model beside the store is used; if there is none, one is inferred from the first \
            records and written there.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: "The entity of the records.", completion: .entity)
    var entity: String?

    @Option(
        help: ArgumentHelp(
            "The path that the payload was requested from, such as /articles/5: the model's routes for it apply.",
            valueName: "path")
    )
    var path: String?

    @Option(help: ArgumentHelp("The model's mapping that reads the payload.", valueName: "name"))
    var mapping: String?

    @Option(
        help: ArgumentHelp(
            "The number of records to skip first, as reported by a submission that did not finish.",
            valueName: "count"))
    var skip = 0

    @Option(
        help: ArgumentHelp(
            "The maximum number of records to submit, after those of --skip. Default: all.", valueName: "count"))
    var take: Int?

    @Option(
        help: ArgumentHelp("The maximum number of records in a job.", valueName: "count"))
    var batchRecords = 5_000

    @Option(
        help: ArgumentHelp(
            "The maximum bytes of records in a job; a larger record is a job of its own.", valueName: "size"))
    var batchBytes = ByteSize(4 << 20)

    @Option(
        help: ArgumentHelp("The maximum number of jobs in flight.", valueName: "count"))
    var maxInFlight = 16

    @Option(help: "What happens with an invalid record: fail its job, or skip the record.")
    var onInvalid: Job.OnInvalid = .fail

    @Option(
        help: """
            What happens with a key that the model does not name: it is ignored and counted in a warning (warn), or \
            its record is invalid (fail).
            """)
    var unknown: Job.UnknownKeys = .warn

    @Option(
        help: """
            An id for this submission: sent again with the same id and input, it is applied once. The jobs' ids are \
            ID-1, ID-2 and so on.
            """)
    var id: String?

    @Flag(
        help: """
            Try it: say what it would change, and change nothing. Of several jobs each is tried by itself, and does not \
            see those before it.
            """)
    var dryRun = false

    @Flag(
        help: """
            Try it as with --dry-run, and report all faults of all records instead of the first of each job. The exit \
            status is 1 if there are any.
            """)
    var check = false

    @Option(
        help: ArgumentHelp(
            """
            Write each record that is rejected, or that is in a job that fails, to this new file: a line of JSON with the \
            record, file and line, and code and message if it is at fault. Corrected, it is submitted with --root record.
            """, valueName: "file"), completion: .file())
    var rejects: String?

    @Flag(
        help: """
            Go on after an earlier run with --resume and the same options: what it committed is skipped. It is found by \
            the input's name, the records and their position, so objects without identity are inserted again when one \
            of these has changed.
            """)
    var resume = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Flag(help: "An input without records is no error.")
    var empty = false

    @OptionGroup var inference: InferenceOptions

    @Flag(
        inversion: .prefixedNo,
        help: """
            With --store, extend the store's model by what the input has more: new keys, and types that take all \
            values. Default: if the model was inferred and not edited. An edited model gets additions only.
            """)
    var evolve: Bool?

    @OptionGroup var input: InputOptions

    /// Reads the records where their entity alone does not.
    private var inferredMapping: String?

    mutating func validate() throws {
        try [
            NumberOption("--batch-records", batchRecords, in: 1...10_000_000),
            NumberOption("--batch-bytes", batchBytes, in: 1...ByteSize(1 << 30)),
            NumberOption("--max-in-flight", maxInFlight, in: 1...100_000),
            NumberOption("--skip", skip, in: 0...Int.max),
        ].check()
        if let take { try NumberOption("--take", take, in: 1...Int.max).check() }
        let readings = [("--entity", entity), ("--path", path), ("--mapping", mapping)].filter { $1 != nil }.map(\.0)
        if readings.count > 1 {
            throw ValidationError("\(readings.joined(separator: " and ")) contradict each other; give one of them.")
        }
        if !connection.isLocal || !connection.model.isEmpty || entity == nil {
            let given = inference.given + (evolve == true ? ["--evolve"] : [])
            guard given.isEmpty else {
                throw ValidationError(
                    "\(given.joined(separator: " and ")) is for a model that is inferred: give --store and --entity, and no --model."
                )
            }
        }
        if id != nil, resume {
            throw ValidationError("--id and --resume contradict each other: --resume makes the ids.")
        }
        if let id, !(1...Self.longestID).contains(id.utf8.count) {
            throw ValidationError("--id must have 1 to 110 bytes, so that the jobs' numbers fit after it.")
        }
    }

    /// Bytes: the number of a job fits after it.
    static let longestID = 110

    /// Nothing is committed.
    var isDryRun: Bool { dryRun || check }

    /// A check is not ended by a fault.
    var policy: Job.OnInvalid { check ? .skip : onInvalid }

    /// The options that decide the effect of a job.
    var jobOptions: [String] {
        [entity, path, mapping, inferredMapping].map { $0 ?? "" } + [policy.rawValue, unknown.rawValue]
    }

    mutating func run() async throws {
        var sources = input.sources
        var inferred: InferredModel?
        if let store = connection.store, connection.model.isEmpty, let entity {
            let request = InferredModel.Request(
                store: store, entity: entity, identities: inference.identities(or: entity),
                ignored: inference.ignored(or: entity), evolves: evolve)
            let samples = try await InferredModel(request, model: try connection.storedModel(), sources)
            inferred = samples
            inferredMapping = samples.mapping
            sources = input.sources(root: input.format.root ?? samples.root)
        }
        let rejects = try rejects.map { path throws(CommandFailure) in try RejectsFile(path, appends: resume) }
        let tally = JobTally(
            inputs: sources.map(\.name), progress: ProgressBar(totalBytes: Self.total(sources)), rejects: rejects)
        // The server inside this command answers every sent job.
        let patience = connection.isLocal ? DispatchTimeInterval.never : .seconds(1)
        let command = SubmitCommandLine(self)
        let state = try await connection.connected(
            "broker submit", jobsInFlight: maxInFlight, makesStore: true, isDryRun: isDryRun, inferred: inferred,
            onInterruption: tally.reporting(waitingAtMost: patience, rejects) { state in
                SubmissionReport(state: state, command: command).sayInterrupted()
            }
        ) { broker in
            if resume, let entity, let model = try? await broker.model(),
                let warning = ResumedJobs.warning(entity, of: model)
            {
                Program.report("broker: \(warning)", .warning)
            }
            var run = SubmitRun(self, broker, tally)
            return await run.run(sources)
        }
        let report = SubmissionReport(state: state, command: command)
        try report.say(json: json)
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if report.status != .success { throw CommandFailure(report.status) }
    }

    /// The job of gathered records: JSON text.
    var job: @Sendable (RawJSON) -> Job {
        let operation: @Sendable (RawJSON) -> Job.Operation
        if let inferredMapping {
            operation = { .map(json: $0, by: .mapping(inferredMapping)) }
        } else if let entity {
            operation = { .process(json: $0, as: entity) }
        } else {
            let reading: Job.Operation.Reading =
                if let path { .path(path) } else if let mapping { .mapping(mapping) } else { .keyPaths }
            operation = { .map(json: $0, by: reading) }
        }
        return { [policy, unknown, isDryRun] records in
            var job = Job(operation(records), onInvalid: policy)
            job.unknownKeys = unknown
            job.isDryRun = isDryRun
            return job
        }
    }

    private static func total(_ sources: [RecordSource]) -> Int? {
        let counts = sources.map(\.byteCount)
        return counts.contains { $0 == nil } ? nil : counts.reduce(0) { $0 + ($1 ?? 0) }
    }
}

extension Job.OnInvalid: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.fail, .skip]
}

extension Job.UnknownKeys: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.warn, .fail]
}

/// A line on a terminal that says how far a submission is; silent where standard error is none.
struct ProgressBar {
    /// Columns of the bar itself, with its brackets, where there is room.
    private static let widestBar = 32
    private static let narrowestBar = 12
    /// Seconds between two drawings: often enough to be alive, seldom enough to cost nothing.
    private static let interval = Duration.milliseconds(100)

    private let totalBytes: Int?
    private let isShown = Terminal.isAnimated(STDERR_FILENO)
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?

    /// - Parameter totalBytes: nil when the size of the input is unknown.
    init(totalBytes: Int?) { self.totalBytes = totalBytes }

    mutating func update(bytes: Int, records: Int) {
        let now = ContinuousClock.now
        guard isShown, lastDrawn.map({ $0.duration(to: now) >= Self.interval }) ?? true else { return }
        lastDrawn = now
        let elapsed = start.duration(to: now).components
        let seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
        let share = totalBytes.map { $0 > 0 ? min(1, Double(bytes) / Double($0)) : 1 }
        // Read each time, because the window may have changed. The ^C that a terminal shows must fit after the line: a
        // wrapped line cannot be removed any more.
        let columns = (Terminal.columns(of: STDERR_FILENO) ?? 80) - 3
        draw(
            Self.line(
                columns: columns, share: share, bytes: bytes, records: records,
                perSecond: seconds > 0 ? Int(Double(records) / seconds) : 0,
                secondsLeft: share.flatMap { Self.secondsLeft(after: seconds, share: $0) }))
    }

    /// Seconds after which the time that is left can be estimated.
    private static let soonestEstimate = 2.0

    /// The time for the rest at the speed so far; nil when it cannot be estimated yet.
    static func secondsLeft(after seconds: Double, share: Double) -> Int? {
        guard seconds >= soonestEstimate, share >= 0.01 else { return nil }
        return Int((seconds * (1 - share) / share).rounded(.up))
    }

    /// `40 s`, `12 min` or `3 h 05 min`.
    static func text(ofSeconds seconds: Int) -> String {
        if seconds < 100 { return "\(seconds) s" }
        let minutes = (seconds + 59) / 60
        guard minutes >= 100 else { return "\(minutes) min" }
        return "\(minutes / 60) h \(minutes % 60 < 10 ? "0" : "")\(minutes % 60) min"
    }

    /// Takes the line away.
    mutating func clear() {
        if lastDrawn != nil { draw("") }
        lastDrawn = nil
    }

    /// As much as fits: a bar and all numbers, fewer of them, no bar, the percentage alone.
    ///
    /// - Parameters:
    ///   - share: of the whole, up to 1; nil when that is not known.
    ///   - secondsLeft: nil when unknown.
    static func line(
        columns: Int, share: Double?, bytes: Int, records: Int, perSecond: Int, secondsLeft: Int? = nil
    ) -> String {
        let percentage = share.map { "\(Int($0 * 100)) %" }
        let rest = secondsLeft.map { "\(text(ofSeconds: $0)) left" }
        let texts = [
            [percentage, rest, "\(bytes >> 20) MiB read", "\(records) records committed", "\(perSecond) a second"],
            [percentage, rest, "\(records) records committed", "\(perSecond) a second"],
            [percentage, rest, "\(records) records committed"], [percentage, "\(records) records committed"],
            [percentage, "\(records) records"],
        ].map { $0.compactMap(\.self).joined(separator: ", ") }
        if let share, let text = texts.first(where: { narrowestBar + 1 + $0.count <= columns }) {
            return "\(bar(share, columns: min(widestBar, columns - text.count - 1))) \(text)"
        }
        return texts.first { $0.count <= columns } ?? String((percentage ?? "\(records)").prefix(max(0, columns)))
    }

    private static func bar(_ share: Double, columns: Int) -> String {
        let filled = Int(share * Double(columns - 2))
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: columns - 2 - filled) + "]"
    }

    private func draw(_ line: String) {
        // Back to the first column, and the rest of the old line erased (ECMA-48, EL).
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
