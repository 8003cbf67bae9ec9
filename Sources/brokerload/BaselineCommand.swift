import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerLoad

/// The least that the work costs.
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

    @Option(help: ArgumentHelp("Rows in a transaction.", valueName: "rows"))
    var transaction = 10_000

    @Option(
        name: .customLong("then"), parsing: .singleValue,
        help: ArgumentHelp(
            "Then all of it once more, in such shares: unchanged:1 or changed:1,unchanged:9. May be repeated.",
            valueName: "shares"))
    var mixes: [String] = []

    @Option(help: ArgumentHelp("One-record jobs, of which so many are in flight.", valueName: "jobs"))
    var group: Int?

    @Flag(inversion: .prefixedNo, help: "With --group: each job is in a savepoint of its own.")
    var savepoints = true

    @Flag(help: "With --group: each job is noted in a table, in the transaction of its record.")
    var ledger = false

    @OptionGroup var size: SizeArguments
    @OptionGroup(title: "Records") var record: RecordArguments

    @Flag(help: "Print the result as JSON, a line for each pass.")
    var json = false

    mutating func validate() throws {
        try [
            NumberOption("--transaction", transaction, in: 1...1_000_000_000),
            NumberOption("--group", group ?? 1, in: 1...GroupBaseline.mostInFlight),
        ].check()
        if group == nil, ledger || !savepoints {
            throw ValidationError("--ledger and --no-savepoints are of one-record jobs in groups: add --group N.")
        }
        do throws(LoadError) {
            for text in mixes {
                let mix = try RecordMix(parsing: text)
                guard mix.shares[.new] != nil || mix.hasInvalid else { continue }
                throw LoadError(.usage, "--then is of changed and unchanged records alone, but \(text) has others.")
            }
        } catch {
            throw ValidationError(error.message)
        }
    }

    func run() async throws {
        if let group { return try runGroup(group) }
        var baseline = Baseline(path: store, records: record.options)
        baseline.transactionRows = transaction
        let results = try reporting { () throws(LoadError) in
            var passes = [payloads(.allNew)]
            for mix in mixes { passes.append(payloads(try RecordMix(parsing: mix))) }
            return try baseline.load(passes)
        }
        for result in results {
            let report = BaselineReport(
                amount: result.records, unit: "records", seconds: result.seconds,
                processorSeconds: result.processorSeconds)
            try report.say(json: json)
        }
    }

    private func payloads(_ mix: RecordMix) -> [JSONText] {
        var options = JobOptions(record.options, mix)
        options.recordsOfJob = size.records
        options.first = size.first
        if mix.needsExisting { options.existing = size.jobs * size.records }
        return Baseline.payloads(options, jobs: size.jobs)
    }

    private func runGroup(_ group: Int) throws {
        var baseline = GroupBaseline(path: store, records: record.options, inFlight: group, jobs: size.jobs)
        baseline.hasSavepoints = savepoints
        baseline.hasLedger = ledger
        let result = try reporting { () throws(LoadError) in try baseline.run() }
        var report = BaselineReport(amount: result.jobs, unit: "jobs", seconds: result.seconds)
        report.commits = result.commits
        report.latencies = result.latencies
        try report.say(json: json)
    }
}

extension BaselineReport {
    func say(json: Bool) throws(CommandFailure) {
        try Program.write(json ? String(decoding: self.json, as: UTF8.self) : text)
    }
}
