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

    @Option(help: ArgumentHelp("Intervals of the figures over time.", valueName: "seconds"))
    var interval = 0.5

    @Option(
        help: ArgumentHelp(
            "How long to wait without any answer before what is in flight is lost.", valueName: "seconds"))
    var patience = 60.0

    @Option(help: ArgumentHelp("MiB of frames that are made before the clock starts at most.", valueName: "mebibytes"))
    var prepare = 256

    mutating func validate() throws {
        try [
            NumberOption("--connections", connections, in: 1...100_000),
            NumberOption("--in-flight", inFlight ?? 1, in: 1...10_000_000),
            NumberOption("--prepare", prepare, in: 1...65_536),
        ].check()
        guard (0.01...3_600).contains(interval) else {
            throw ValidationError("--interval must be 0.01 to 3600 seconds, but is \(interval).")
        }
        guard (0.1...86_400).contains(patience) else {
            throw ValidationError("--patience must be 0.1 to 86400 seconds, but is \(patience).")
        }
    }

    var prepareBytes: Int { prepare << 20 }

    func options(_ schedule: Schedule) -> RunOptions {
        var options = RunOptions(socketPath: socket, schedule: schedule)
        options.connections = connections
        options.inFlight = inFlight ?? (schedule.pace == .closed ? 16 : 10_000)
        options.intervalSeconds = interval
        options.patienceSeconds = patience
        return options
    }
}

/// Where a report goes.
struct ReportArguments: ParsableArguments {
    @Flag(help: "Print the report as JSON.")
    var json = false

    @Option(help: ArgumentHelp("Write the report as one page with plots, too.", valueName: "file"), completion: .file())
    var html: String?

    @Option(
        help: ArgumentHelp("Write the latencies of the intervals as a log of HdrHistogram's.", valueName: "file"),
        completion: .file())
    var hdr: String?

    func show(_ report: RunReport) throws {
        if let html { try write(RunPage(report).html, to: html) }
        if let hdr { try write(HistogramLog.text(report.result, name: report.name), to: hdr) }
        if json {
            try StandardOutput.write(report.json + [UInt8(ascii: "\n")])
        } else {
            try Program.write(report.text)
        }
    }

    func write(_ text: String, to path: String) throws(CommandFailure) { try OutputFile.write(text, to: path) }
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
