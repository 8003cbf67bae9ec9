import ArgumentParser
import BrokerCommandLine
import BrokerLoad
import Glibc

/// Broker beside others, on the same records and the same machine.
struct CompareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Runs Broker, the baseline and other programs on the same records, and prints the ratios.",
        discussion: """
            Each peer gets files and a server of its own in a temporary folder, and is ended by its process. Peers that are \
            not installed are named as skipped.
            """)

    @Option(help: ArgumentHelp("The server's program; by default the one beside this.", valueName: "file"))
    var brokerd: String?

    @Option(help: ArgumentHelp("The program sqlite-utils.", valueName: "file"))
    var sqliteUtils = "sqlite-utils"

    @Option(
        help: ArgumentHelp(
            "Which to run: \(Peer.allCases.map(\.rawValue).joined(separator: ",")).", valueName: "names"))
    var peers = Peer.allCases.map(\.rawValue).joined(separator: ",")

    @Option(help: "Bulk jobs.")
    var jobs = 20

    @Option(help: "Records in each bulk job.")
    var records = 5_000

    @Option(help: "One-record jobs.")
    var smallJobs = 20_000

    @Option(help: "One-record jobs without an answer.")
    var inFlight = 64

    @Option(help: "Rounds, of which the medians are compared.")
    var rounds = 1

    @Option(help: ArgumentHelp("Where the temporary folder is made.", valueName: "folder"), completion: .directory)
    var folder: String?

    @OptionGroup(title: "Records") var record: RecordArguments

    @Flag(help: "Print the report as JSON.")
    var json = false

    mutating func validate() throws {
        try [
            NumberOption("--jobs", jobs, in: 1...100_000), NumberOption("--records", records, in: 1...100_000),
            NumberOption("--small-jobs", smallJobs, in: 1...10_000_000),
            NumberOption("--in-flight", inFlight, in: 1...100_000), NumberOption("--rounds", rounds, in: 1...1_000),
        ].check()
        try NumberOption("--jobs times --records", jobs * records, in: 1...20_000_000).check()
        _ = try chosenPeers()
    }

    private func chosenPeers() throws -> Set<Peer> {
        Set(
            try peers.split(separator: ",", omittingEmptySubsequences: false).map { name in
                guard let peer = name == "floor" ? .baseline : Peer(rawValue: String(name)) else {
                    throw ValidationError(
                        "--peers: \"\(name)\" is none of \(Peer.allCases.map(\.rawValue).joined(separator: ", ")).")
                }
                return peer
            })
    }

    func run() async throws {
        var options = Comparison.Options(records: record.options, brokerd: brokerd ?? Self.programBesideThis("brokerd"))
        options.jobs = jobs
        options.recordsOfJob = records
        options.smallJobs = smallJobs
        options.inFlight = inFlight
        options.rounds = rounds
        options.peers = try chosenPeers()
        options.sqliteUtils = sqliteUtils
        options.folder = folder
        let line = ProgressLine("compare", total: nil)
        let results = try reporting { () throws(LoadError) in
            defer { line.clear() }
            line.say("compare: making the records")
            let comparison = try Comparison(options)
            let interruption = Interruption { comparison.abandon() }
            defer { withExtendedLifetime(interruption) { comparison.abandon() } }
            return try comparison.run { line.say("compare: \($0)") }
        }
        let report = ComparisonReport(
            results: results,
            settings: [
                ("records", "\(jobs * records)"), ("in jobs of", "\(records)"), ("one-record jobs", "\(smallJobs)"),
                ("in flight", "\(inFlight)"), ("rounds", "\(rounds)"),
            ] + record.settings)
        try Program.write(json ? String(decoding: report.json, as: UTF8.self) : report.text)
    }

    private static func programBesideThis(_ name: String) -> String {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count - 1)
        guard count > 0 else { return name }
        let own = String(decoding: path.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
        let folder = own.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        return (folder + [name[...]]).joined(separator: "/")
    }
}
