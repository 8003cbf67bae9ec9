import ArgumentParser
import Broker
package import BrokerCommandLine
package import BrokerSQLite
package import LoadTesting
import BrokerModel
import Glibc

@main
struct Brokerload: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brokerload",
        abstract: "Loads a brokerd, and measures it, and the same work without Broker.",
        discussion: """
            \(ExitStatus.explanation([.success, .failed, .usage, .rejected, .cannotConnect]))
            \(OptionUnits.explanation)
            """,
        version: BrokerVersion.text,
        subcommands: [
            RunCommand.self, BaselineCommand.self, RecordsCommand.self, ModelCommand.self,
        ],
        defaultSubcommand: RunCommand.self)

    static func main() async { await Program.run(Brokerload.self) }
}

extension LoadError: ExplainedError {
    package var status: ExitStatus {
        switch code {
        case .usage: .usage
        case .cannotConnect: .cannotConnect
        case .failed: .failed
        }
    }
}

extension StoreError: ExplainedError {}

extension RecordShape: ExpressibleByArgument {}
extension RecordKeys: ExpressibleByArgument {}
extension RecordKeyOrder: ExpressibleByArgument {}

/// Sends jobs to a server and measures how fast they are durable.
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Sends jobs to a brokerd, and measures.",
        discussion: """
            The server must have the model that `brokerload model` prints for the same options. Without --rate the loop is closed: a job is sent when another has ended. With it, jobs are sent \
            on a fixed schedule whatever the server does, and latency is measured from when each ought to have been \
            sent.
            """)

    @OptionGroup(title: "Sending") var sending: SendingArguments

    @Option(help: ArgumentHelp("Jobs a second, on a fixed schedule.", valueName: "jobs"))
    var rate: Double?

    @Option(help: "Jobs to send: 100, unless there is a --duration.")
    var jobs: Int?

    @Option(
        help: ArgumentHelp("Send for so long, the warm-up with it.", valueName: "time"))
    var duration: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "Exclude the first seconds from the figures: a tenth of the --duration, but no more than 2.",
            valueName: "time"))
    var warmUp: TimeSpan?

    @OptionGroup(title: "Jobs") var job: JobArguments
    @OptionGroup(title: "Records") var record: RecordArguments

    @Flag(help: "Print the whole report, as JSON.")
    var json = false

    mutating func validate() throws {
        if let jobs { try NumberOption("--jobs", jobs, in: 1...1_000_000_000).check() }
        guard jobs == nil || duration == nil else { throw ValidationError("Give --jobs or --duration, not both.") }
        if let rate, !(0.001...10_000_000).contains(rate) {
            throw ValidationError("--rate must be 0.001 to 10000000 jobs a second, but is \(rate).")
        }
        if let duration {
            try NumberOption("--duration", duration, in: .milliseconds(100)...TimeSpan.seconds(864_000)).check()
        }
        if let warmUp, warmUp > duration ?? .seconds(86_400) {
            throw ValidationError("--warm-up must be 0 to the --duration, but is \(warmUp).")
        }
    }

    func run() async throws {
        let (preload, jobs) = try job.jobs(record)
        if let preload {
            let count = (jobs.existing + preload.recordsOfJob - 1) / preload.recordsOfJob
            let result = try run(sending.options(Schedule(.closed, .jobs(count))), preload)
            if let failure = result.failure { throw failure }
        }
        var options = sending.options(schedule)
        options.warmUpSeconds = warmUpSeconds
        let result = try run(options, jobs)
        let arguments = Array(CommandLine.arguments.dropFirst())
        let report = RunReport(offeredRate: rate, arguments: arguments, result: result)
        if json { try StandardOutput.write(report.json + [UInt8(ascii: "\n")]) } else { try Program.write(report.text) }
        if let failure = result.failure { throw failure }
    }

    private func run(_ options: RunOptions, _ jobs: JobOptions) throws(LoadError) -> RunResult {
        let supply = FrameSupply(jobs, jobs: options.schedule.jobs, budget: sending.prepareBytes)
        return try LoadRun(options, supply: supply, idPrefix: jobs.idPrefix).run()
    }

    private var schedule: Schedule {
        let mode: SendingMode = rate.map { .open(jobsPerSecond: $0) } ?? .closed
        return Schedule(mode, duration.map { .seconds($0.exactSeconds) } ?? .jobs(jobs ?? 100))
    }

    private var warmUpSeconds: Double {
        warmUp?.exactSeconds ?? duration.map { min(2, $0.exactSeconds / 10) } ?? 0
    }
}

/// How a run sends.
struct SendingArguments: ParsableArguments {
    @Option(help: "The server's Unix socket.", completion: .file())
    var socket = "broker.sock"

    @Option(help: "Connections.")
    var connections = 1

    @Option(
        help: ArgumentHelp(
            "Jobs without an answer on each connection at most: 16, or 10000 with --rate.", valueName: "count"))
    var inFlight: Int?

    @Option(
        help: ArgumentHelp("Intervals of the figures over time.", valueName: "time"))
    var interval = TimeSpan.milliseconds(500)

    @Option(
        help: ArgumentHelp(
            "How long to wait without any answer before what is in flight is lost.", valueName: "time"))
    var patience = TimeSpan.seconds(60)

    @Option(help: ArgumentHelp("MiB of frames that are made before the clock starts at most.", valueName: "mebibytes"))
    var prepare = 256

    mutating func validate() throws {
        try [
            NumberOption("--connections", connections, in: 1...100_000),
            NumberOption("--in-flight", inFlight ?? 1, in: 1...10_000_000),
            NumberOption("--prepare", prepare, in: 1...65_536),
            NumberOption("--interval", interval, in: .milliseconds(10)...TimeSpan.seconds(3_600)),
            NumberOption("--patience", patience, in: .milliseconds(100)...TimeSpan.seconds(86_400)),
        ].check()
    }

    var prepareBytes: Int { prepare << 20 }

    func options(_ schedule: Schedule) -> RunOptions {
        var options = RunOptions(socketPath: socket, schedule: schedule)
        options.connections = connections
        options.inFlight = inFlight ?? (schedule.mode == .closed ? 16 : 10_000)
        options.intervalSeconds = interval.exactSeconds
        options.patienceSeconds = patience.exactSeconds
        return options
    }
}

extension RunResult {
    /// How a program ends that was to commit all of this.
    var failure: CommandFailure? {
        let totals = accounts.totals
        if totals.failed > 0 || accounts.lost > 0 || totals.strangeAnswers > 0 {
            let why = accounts.failures.values.map(\.message).sorted().first ?? strangeMessage
            return CommandFailure(
                .failed,
                "Of \(totals.sent) jobs \(totals.failed) failed and \(accounts.lost) were lost"
                    + (why.map { "; the first: \($0)" } ?? "."))
        }
        return totals.withRejects > 0
            ? CommandFailure(.rejected, "\(totals.withRejects) jobs had records that were rejected.") : nil
    }
}

/// The options of a run's jobs.
struct JobArguments: ParsableArguments {
    @Option(help: "Records in each job.")
    var records = 5_000

    @Option(help: "Begin with the record of this number.")
    var first = 0

    @Option(
        help: ArgumentHelp(
            """
            In which shares records are new, changed, unchanged or invalid: new:80,changed:10,unchanged:5,invalid:5. \
            The shares are exact.
            """, valueName: "shares"))
    var mix = "new:1"

    @Option(
        help: ArgumentHelp(
            "Records that are there before, from --first on; those that are not new are drawn from them in turn. By "
                + "default 10000 for a mix that needs some.", valueName: "count"))
    var existing: Int?

    @Flag(
        inversion: .prefixedNo,
        help: "Send the existing records before anything is measured. By default, unless --existing is given.")
    var preload: Bool?

    @Option(help: "What becomes of a job with an invalid record: fail, or skip the record.")
    var onInvalid = OnInvalid.fail

    enum OnInvalid: String, ExpressibleByArgument, CaseIterable { case fail, skip }

    @Flag(help: "Ask for `accepted`, too, and measure when it comes.")
    var accepted = false

    private static let defaultExisting = 10_000
    /// The number of jobs that send the existing records.
    private static let recordsOfPreload = 1_000

    mutating func validate() throws {
        try [
            NumberOption("--records", records, in: 1...1_000_000), NumberOption("--first", first, in: 0...1 << 52),
            NumberOption("--existing", existing ?? 0, in: 0...100_000_000),
        ].check()
        do throws(LoadError) {
            let mix = try RecordMix(parsing: mix)
            if mix.needsExisting, existing == 0 {
                throw LoadError(.usage, "--mix has records of what must be there before, but --existing is 0.")
            }
        } catch {
            throw ValidationError(error.message)
        }
    }

    /// The jobs that bring what is there before, and those that are measured.
    func jobs(_ record: RecordArguments) throws(LoadError) -> (preload: JobOptions?, jobs: JobOptions) {
        let mix = try RecordMix(parsing: self.mix)
        var jobs = JobOptions(record.options, mix)
        jobs.recordsOfJob = records
        jobs.first = first
        jobs.onInvalid = Job.OnInvalid(rawValue: onInvalid.rawValue)
        jobs.wantsAccepted = accepted
        guard mix.needsExisting else { return (nil, jobs) }
        jobs.existing = existing ?? Self.defaultExisting
        guard preload ?? (existing == nil) else { return (nil, jobs) }
        var before = JobOptions(record.options)
        before.recordsOfJob = min(Self.recordsOfPreload, jobs.existing)
        before.first = first
        return (before, jobs)
    }
}
