import ArgumentParser
import BrokerCommandLine
import BrokerLoad

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
        options.inFlight = inFlight ?? (schedule.pace == .closed ? 16 : 10_000)
        options.intervalSeconds = interval.exactSeconds
        options.patienceSeconds = patience.exactSeconds
        return options
    }
}

/// How a report is printed.
struct ReportArguments: ParsableArguments {
    @Flag(help: "Print the whole report, as JSON.")
    var json = false

    func show(_ report: RunReport) throws {
        if json {
            try StandardOutput.write(report.json + [UInt8(ascii: "\n")])
        } else {
            try Program.say(report.text)
        }
    }
}

extension RunResult {
    /// How a program ends that was to commit all of this.
    var failure: CommandFailure? {
        if totals.failed > 0 || lost > 0 || totals.strangeAnswers > 0 {
            let why = failures.values.map(\.message).sorted().first ?? strangeMessage
            return CommandFailure(
                .failed,
                "Of \(totals.sent) jobs \(totals.failed) failed and \(lost) were lost"
                    + (why.map { "; the first: \($0)" } ?? "."))
        }
        return totals.withRejects > 0
            ? CommandFailure(.rejected, "\(totals.withRejects) jobs had records that were rejected.") : nil
    }
}
