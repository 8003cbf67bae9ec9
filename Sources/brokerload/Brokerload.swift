import ArgumentParser
import BrokerCommandLine
import Glibc

@main
struct Brokerload: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brokerload",
        abstract: "Loads a brokerd, and measures it beside the plainest loop that does the same work.",
        subcommands: [RunCommand.self, FloorCommand.self, RecordsCommand.self, ModelCommand.self],
        defaultSubcommand: RunCommand.self)

    static func main() async { await Program.run(Brokerload.self) }
}

/// How much there is to load.
struct LoadSize: ParsableArguments {
    @Option(help: "Jobs to send.")
    var jobs = 100

    @Option(help: "Records in each job.")
    var records = 5_000

    @Option(help: "Begin with the record of this number; the same numbers again are unchanged rows.")
    var first = 0

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        try [
            NumberOption("--jobs", jobs, in: 1...1_000_000), NumberOption("--records", records, in: 1...1_000_000),
            NumberOption("--first", first, in: 0...1 << 60),
        ].check()
        // All of them are in memory before the first is sent.
        try NumberOption("--jobs times --records", jobs * records, in: 1...100_000_000).check()
    }

    /// The records of one job as a JSON array.
    func payload(_ job: Int) -> [UInt8] {
        let start = first + job * records
        return Workload.records(start..<start + records)
    }
}

struct RecordsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "records", abstract: "Prints the records as one JSON array, for other tools to load.")

    @OptionGroup var size: LoadSize

    func run() async throws {
        try StandardOutput.write(Workload.records(size.first..<size.first + size.jobs * size.records))
    }
}

struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model", abstract: "Prints the model of the records, for brokerd --model.")

    func run() async throws { try Program.say(Workload.model) }
}

/// Seconds since it was made, by a clock that never goes back.
struct Stopwatch {
    private let start = ContinuousClock.now

    var seconds: Double {
        let elapsed = start.duration(to: .now).components
        return Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
    }
}
