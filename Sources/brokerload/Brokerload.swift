import ArgumentParser
import BrokerCommandLine
import BrokerSQLite
import BrokerJSON
import BrokerModel
import Glibc

@main
struct Brokerload: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brokerload",
        abstract: "Loads a brokerd, and measures it, and the same work without Broker.",
        discussion: """
            \(ExitStatus.explanation([.success, .failed, .usage, .cannotConnect]))
            \(OptionUnits.explanation)
            """,
        version: BrokerVersion.text,
        subcommands: [
            RunCommand.self, BaselineCommand.self, RecordsCommand.self, ModelCommand.self,
        ],
        defaultSubcommand: RunCommand.self)

    static func main() async { await Program.run(Brokerload.self) }
}

extension StoreError: ExplainedError {}

extension RecordMix: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }

    var defaultValueDescription: String { "new:1" }
}

extension RecordShape: ExpressibleByArgument {}
extension RecordKeys: ExpressibleByArgument {}
extension RecordKeyOrder: ExpressibleByArgument {}

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Sends jobs to a brokerd, and prints what it measured as JSON.",
        discussion: """
            The server must have the model that `brokerload model` prints for the same options. Without --rate the loop \
            is closed: a job is sent when another has ended. With it, jobs are sent on a fixed schedule whatever the \
            server does, and latency is measured from when each ought to have been sent.
            """)

    @OptionGroup(title: "Sending") var sending: SendingArguments

    @Option(help: .value("jobs", "Jobs a second, on a fixed schedule."))
    var rate: Double?

    @Option(help: "Jobs to send: 100, unless there is a --duration.")
    var jobs: Int?

    @Option(help: .value("time", "Send for so long, the warm-up with it."))
    var duration: TimeSpan?

    @Option(
        help: .value(
            "time", "Exclude the first seconds from the figures: a tenth of the --duration, but no more than 2."))
    var warmUp: TimeSpan?

    @OptionGroup(title: "Jobs") var job: JobArguments
    @OptionGroup(title: "Records") var record: RecordArguments

    mutating func validate() throws {
        try checkRange("--jobs", jobs, in: 1...1_000_000_000)
        guard jobs == nil || duration == nil else { throw ValidationError("Give --jobs or --duration, not both.") }
        if let rate, !(0.001...10_000_000).contains(rate) {
            throw ValidationError("--rate must be 0.001 to 10000000 jobs a second, but is \(rate).")
        }
        try checkRange("--duration", duration, in: .milliseconds(100)...TimeSpan.seconds(864_000))
        if let warmUp, warmUp > duration ?? .seconds(86_400) {
            throw ValidationError("--warm-up must be 0 to the --duration, but is \(warmUp).")
        }
    }

    func run() async throws {
        var options = sending.options(
            Schedule(rate: rate, duration.map { .seconds($0.exactSeconds) } ?? .jobs(jobs ?? 100)))
        options.warmUpSeconds = warmUp?.exactSeconds ?? duration.map { min(2, $0.exactSeconds / 10) } ?? 0
        let result = try LoadRun(options, job.jobs(record)).run()
        let arguments = Array(CommandLine.arguments.dropFirst())
        let report = RunReport(offeredRate: rate, arguments: arguments, result: result)
        try StandardOutput.write(report.json + [UInt8(ascii: "\n")])
        if let failure = result.failure { throw failure }
    }
}

struct SendingArguments: ParsableArguments {
    @Option(help: "The server's Unix socket.", completion: .file())
    var socket = "broker.sock"

    @Option(help: "Connections.")
    var connections = 1

    @Option(help: .value("count", "Jobs without an answer on each connection at most: 16, or 10000 with --rate."))
    var inFlight: Int?

    @Option(help: .value("time", "Intervals of the figures over time."))
    var interval = TimeSpan.milliseconds(500)

    @Option(help: .value("time", "How long to wait without any answer before what is in flight is lost."))
    var patience = TimeSpan.seconds(60)

    mutating func validate() throws {
        try checkRange("--connections", connections, in: 1...100_000)
        try checkRange("--in-flight", inFlight ?? 1, in: 1...10_000_000)
        try checkRange("--interval", interval, in: .milliseconds(10)...TimeSpan.seconds(3_600))
        try checkRange("--patience", patience, in: .milliseconds(100)...TimeSpan.seconds(86_400))
    }

    func options(_ schedule: Schedule) -> RunOptions {
        RunOptions(
            socketPath: socket, connections: connections, inFlight: inFlight ?? (schedule.rate == nil ? 16 : 10_000),
            schedule: schedule, intervalSeconds: interval.exactSeconds, patienceSeconds: patience.exactSeconds)
    }
}

extension RunResult {
    /// How a program ends that was to commit all of this.
    var failure: CommandFailure? {
        guard accounts.ok < accounts.sent || accounts.unexpected > 0 else { return nil }
        let why = accounts.failures.values.map(\.message).sorted().first ?? accounts.unexpectedMessage
        return CommandFailure(
            "Of \(accounts.sent) jobs \(accounts.failed) failed and \(accounts.lost) were lost"
                + (why.map { "; the first: \($0)" } ?? "."))
    }
}

struct JobArguments: ParsableArguments {
    @OptionGroup var payload: PayloadArguments

    @Option(
        help: ArgumentHelp(
            """
            In which shares records are new, changed or unchanged: new:80,changed:10,unchanged:10. The shares are exact.
            """, valueName: "shares"))
    var mix = RecordMix.allNew

    @Option(
        help: ArgumentHelp(
            "Records that are there before, from --first on; those that are not new are drawn from them in turn.",
            valueName: "count"))
    var existing = 0

    @Flag(help: "Ask for `accepted`, too, and measure when it comes.")
    var accepted = false

    mutating func validate() throws {
        try checkRange("--existing", existing, in: 0...100_000_000)
        guard existing > 0 || !mix.needsExisting else {
            throw ValidationError("--mix has records of what must be there before, but --existing is 0.")
        }
    }

    func jobs(_ record: RecordArguments) -> JobOptions {
        var jobs = payload.jobs(record, mix)
        jobs.wantsAccepted = accepted
        if mix.needsExisting { jobs.existing = existing }
        return jobs
    }
}

/// The records of each job, or of each payload without one.
struct PayloadArguments: ParsableArguments {
    @Option(help: "Records in each job or payload.")
    var records = 5_000

    @Option(help: "Begin with the record of this number; the same numbers again are unchanged rows.")
    var first = 0

    mutating func validate() throws {
        try checkRange("--records", records, in: 1...1_000_000)
        try checkRange("--first", first, in: 0...1 << 52)
    }

    func jobs(_ record: RecordArguments, _ mix: RecordMix = .allNew) -> JobOptions {
        var jobs = JobOptions(record.options, mix)
        (jobs.recordsOfJob, jobs.first) = (records, first)
        return jobs
    }
}

struct BaselineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "baseline",
        abstract: "Loads the same records without Broker: parse, then step prepared upserts, on one thread.",
        discussion: """
            With --group, one-record jobs over a pair of sockets instead: a loop reads what is there, upserts, commits \
            once for all of it, and answers; so many jobs are in flight.
            """)

    @Option(help: "The SQLite database, which is replaced.", completion: .file())
    var store: String

    @Option(
        name: .customLong("then"), parsing: .singleValue,
        help: .value(
            "shares", "Then all of it once more, in such shares: unchanged:1 or changed:1,unchanged:9. May be repeated."
        ))
    var mixes: [RecordMix] = []

    @Option(help: .value("jobs", "One-record jobs, of which so many are in flight."))
    var group: Int?

    @Flag(help: "With --group: each job is noted in a table, in the transaction of its record.")
    var ledger = false

    @OptionGroup var size: SizeArguments
    @OptionGroup(title: "Records") var record: RecordArguments

    mutating func validate() throws {
        try checkRange("--group", group ?? 1, in: 1...GroupBaseline.mostInFlight)
        if group == nil, ledger {
            throw ValidationError("--ledger is of one-record jobs in groups: add --group N.")
        }
        guard mixes.allSatisfy({ $0.shares[.new] == nil }) else {
            throw ValidationError("--then is of changed and unchanged records alone.")
        }
    }

    func run() async throws {
        if let group {
            let loop = GroupBaseline(
                path: store, records: record.options, inFlight: group, jobs: size.jobs, hasLedger: ledger)
            return try say(try loop.run())
        }
        let baseline = Baseline(path: store, records: record.options)
        let passes = [payloads(.allNew)] + mixes.map(payloads)
        for report in try baseline.load(passes) { try say(report) }
    }

    private func say(_ report: BaselineReport) throws {
        try StandardOutput.write(report.json + [UInt8(ascii: "\n")])
    }

    private func payloads(_ mix: RecordMix) -> [JSONText] {
        var options = size.payload.jobs(record, mix)
        if mix.needsExisting { options.existing = size.jobs * size.payload.records }
        return Baseline.payloads(options, jobs: size.jobs)
    }
}

struct RecordArguments: ParsableArguments {
    @Option(
        help: """
            What records are: nested (eight attributes and a linked object in the record) or ragged (an attribute is \
            there or not).
            """)
    var shape: RecordShape = .nested

    @Option(help: "Attributes beside the identity, for ragged. Default: 12.")
    var attributes: Int?

    @Option(help: "The probability that an attribute is there: 0.5 for ragged, 1 for nested.")
    var presence: Double?

    @Option(help: "The probability that an attribute that is there is null.")
    var nulls = 0.0

    @Option(help: "The order of the keys in a record: declared, or random, another for each.")
    var keyOrder: RecordKeyOrder = .declared

    @Option(help: "The identities, in the order of sending: ascending or uuid.")
    var keys: RecordKeys = .ascending

    @Option(help: "Begins all that is chance; the same seed gives the same records.")
    var seed: UInt64 = 1

    mutating func validate() throws {
        if let attributes {
            guard shape == .ragged else {
                throw ValidationError("--attributes is for --shape ragged; \(shape.rawValue) has its own.")
            }
            // A table has at most 2,000 columns.
            try checkRange("--attributes", attributes, in: 1...1_900)
        }
        for (name, value) in [("--presence", presence ?? 1), ("--nulls", nulls)] where !(0...1).contains(value) {
            throw ValidationError("\(name) must be 0 to 1, but is \(value).")
        }
    }

    var options: RecordOptions {
        RecordOptions(
            shape: shape, attributes: attributes ?? 12, presence: presence, nulls: nulls, keyOrder: keyOrder,
            keys: keys,
            seed: seed)
    }
}

/// How many records there are, for what needs all of them at once.
struct SizeArguments: ParsableArguments {
    @Option(help: "Payloads.")
    var jobs = 100

    @OptionGroup var payload: PayloadArguments

    mutating func validate() throws {
        try checkRange("--jobs", jobs, in: 1...1_000_000)
        // All of them are in memory before the first is used.
        try checkRange("--jobs times --records", jobs * payload.records, in: 1...100_000_000)
    }
}

struct RecordsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "records", abstract: "Prints the records as one JSON array, for other tools to load.")

    @OptionGroup(title: "Records") var records: RecordArguments
    @OptionGroup var size: SizeArguments

    func run() async throws {
        var job = size.payload.jobs(records)
        job.recordsOfJob *= size.jobs
        var source = JobSource(job)
        try StandardOutput.write(source.nextRecords())
    }
}

struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model", abstract: "Prints the model of the records, for brokerd --model.")

    @OptionGroup(title: "Records") var records: RecordArguments

    func run() async throws { try Program.write(RecordLayout(records.options).model) }
}
