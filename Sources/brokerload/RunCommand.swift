import ArgumentParser
import BrokerCommandLine
import BrokerLoad

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
    @OptionGroup(title: "Report") var report: ReportArguments

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
        let settings =
            [("connections", "\(options.connections)"), ("in flight", "\(options.inFlight)")] + job.settings(record)
            + [("warm-up", "\(options.warmUpSeconds) s")]
        let environment = RunEnvironment(server: result.server.name, process: result.server.process)
        try report.show(
            RunReport(offeredRate: rate, settings: settings, environment: environment, result: result))
        if let failure = result.failure { throw failure }
    }

    private func run(_ options: RunOptions, _ jobs: JobOptions) throws(CommandFailure) -> RunResult {
        try reporting { () throws(LoadError) in
            let supply = FrameSupply(jobs, jobs: options.schedule.jobs, budget: sending.prepareBytes)
            return try LoadRun(options, supply: supply, idPrefix: jobs.hasIDs ? jobs.idPrefix : nil).run()
        }
    }

    private var schedule: Schedule {
        let pace: Pace = rate.map { .open(jobsPerSecond: $0) } ?? .closed
        return Schedule(pace, duration.map { .seconds($0.exactSeconds) } ?? .jobs(jobs ?? 100))
    }

    private var warmUpSeconds: Double {
        warmUp?.exactSeconds ?? duration.map { min(2, $0.exactSeconds / 10) } ?? 0
    }
}
