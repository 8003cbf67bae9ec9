import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerLoad

/// Sends what was recorded.
struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Sends recorded frames as they are, and measures.",
        discussion: """
            A recording is what goes over the socket: consecutive frames, each a 4-byte length and an LZ4 frame, as \
            `broker frame` makes them. Jobs with an id that the server knows are duplicates and change nothing.
            """)

    @OptionGroup(title: "Sending") var sending: SendingArguments

    @Option(help: ArgumentHelp("Frames a second, on a fixed schedule.", valueName: "frames"))
    var rate: Double?

    @OptionGroup(title: "Report") var report: ReportArguments

    @Argument(help: "The recordings, sent one after the other; - is standard input.", completion: .file())
    var files: [String]

    mutating func validate() throws {
        if let rate, !(0.001...10_000_000).contains(rate) {
            throw ValidationError("--rate must be 0.001 to 10000000 frames a second, but is \(rate).")
        }
    }

    func run() async throws {
        var frames = PreparedFrames()
        for file in files {
            let recording = try JSONText.file(file)
            frames.append(try reporting { () throws(LoadError) in try RecordedFrames.read(recording, name: file) })
        }
        let pace: Pace = rate.map { .open(jobsPerSecond: $0) } ?? .closed
        var options = sending.options(Schedule(pace, .jobs(frames.jobs.count)))
        options.wantsLog = report.hdr != nil
        let line = ProgressLine("replay", total: frames.jobs.count)
        let result = try reporting { () throws(LoadError) in
            defer { line.clear() }
            return try LoadRun(options, supply: FrameSupply(frames), idPrefix: "").run { line.update($0) }
        }
        let run = RunReport(
            name: "replay", offeredRate: rate,
            settings: [
                ("recordings", files.joined(separator: ", ")), ("connections", "\(options.connections)"),
                ("in flight", "\(options.inFlight)"),
            ],
            environment: RunEnvironment(server: result.server.name, process: result.server.process), result: result)
        try report.show(run)
        if let failure = result.failure { throw failure }
    }
}
