import ArgumentParser
import BrokerCommandLine
import BrokerLoad

/// Finds the ceiling, and measures latencies below and above it.
struct SweepCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sweep", abstract: "Finds how much a server can do, and how fast it is at shares of that.",
        discussion: "A closed loop finds the ceiling; then jobs are sent on a schedule at each of the --steps.")

    @OptionGroup(title: "Sending") var sending: SendingArguments

    @Option(
        help: ArgumentHelp("How long each step takes, the first fifth of it for warming up.", valueName: "time"))
    var duration = TimeSpan.seconds(10)

    @Option(help: ArgumentHelp("Shares of the ceiling in percent.", valueName: "percent"))
    var steps = "50,70,90,110"

    @Option(help: ArgumentHelp("Take this for the ceiling instead of looking for it.", valueName: "jobs a second"))
    var ceiling: Double?

    @OptionGroup(title: "Jobs") var job: JobArguments
    @OptionGroup(title: "Records") var record: RecordArguments

    @Flag(help: "Print the report as JSON.")
    var json = false

    @Option(help: ArgumentHelp("Write the report as one page with plots, too.", valueName: "file"), completion: .file())
    var html: String?

    mutating func validate() throws {
        try NumberOption("--duration", duration, in: .milliseconds(500)...TimeSpan.seconds(86_400)).check()
        _ = try percents()
        if let ceiling, !(0.001...10_000_000).contains(ceiling) {
            throw ValidationError("--ceiling must be 0.001 to 10000000 jobs a second, but is \(ceiling).")
        }
    }

    private func percents() throws -> [Double] {
        try steps.split(separator: ",", omittingEmptySubsequences: false).map { step in
            guard let percent = Double(step), (1...1_000).contains(percent) else {
                throw ValidationError("--steps: \"\(step)\" is no percentage from 1 to 1000.")
            }
            return percent
        }
    }

    func run() async throws {
        let load = Load(sending: sending, job: job, record: record)
        var (preload, jobs) = try job.jobs(record)
        var results: [RunResult] = []
        let ceiling: Double
        if let given = self.ceiling {
            ceiling = given
        } else {
            var options = sending.options(Schedule(.closed, .seconds(duration.exactSeconds)))
            // As many as keep a server busy, and no more, for a job of that size.
            options.inFlight = sending.inFlight ?? max(16, min(256, 20_000 / job.records))
            let result = try step("ceiling", options, preload, &jobs, load)
            ceiling = result.result.jobsPerSecond
            results.append(result.result)
            guard ceiling > 0 else { throw result.result.failure ?? CommandFailure(.failed, "No job was completed.") }
        }
        var steps: [(percent: Double, report: RunReport)] = []
        for percent in try percents() {
            let rate = ceiling * percent / 100
            let options = sending.options(Schedule(.open(jobsPerSecond: rate), .seconds(duration.exactSeconds)))
            let report = try step("\(Int(percent)) %", options, preload, &jobs, load)
            steps.append((percent, report))
            results.append(report.result)
        }
        let report = SweepReport(ceiling: ceiling, steps: steps)
        if let html { try OutputFile.write(report.html, to: html) }
        if json {
            try StandardOutput.write(report.json + [UInt8(ascii: "\n")])
        } else {
            try Program.write(report.text)
        }
        if let failure = results.lazy.compactMap(\.failure).first { throw failure }
    }

    /// One run; the records of the next one begin after its own, so that none of them exists before.
    private func step(
        _ name: String, _ options: RunOptions, _ preload: JobOptions?, _ jobs: inout JobOptions, _ load: Load
    ) throws(CommandFailure) -> RunReport {
        if var preload {
            preload.first = jobs.first
            preload.run = JobOptions.newRun()
            try load.preload(preload, records: jobs.existing)
        }
        var options = options
        options.warmUpSeconds = duration.exactSeconds / 5
        let result = try load.run(name, options, jobs)
        jobs.moveOn(behind: result.totals.sent)
        return RunReport(
            name: name, offeredRate: options.schedule.offeredRate, settings: load.settings(options),
            environment: RunEnvironment(server: result.server.name, process: result.server.process), result: result)
    }
}
