import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import LoadTesting

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
        if group == nil, ledger {
            throw ValidationError("--ledger is of one-record jobs in groups: add --group N.")
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
        let passes = [payloads(.allNew)] + (try mixes.map { payloads(try RecordMix(parsing: $0)) })
        for report in try baseline.load(passes) { try say(report) }
    }

    private func say(_ report: BaselineReport) throws {
        try Program.write(json ? String(decoding: report.json, as: UTF8.self) : report.text)
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
        baseline.hasLedger = ledger
        try say(try baseline.run())
    }
}

/// The options of the generated records.
struct RecordArguments: ParsableArguments {
    @Option(
        help: """
            What records are: flat (eight attributes and a link by key), nested (the linked object is in the \
            record), ragged (an attribute is there or not), links (to-one and to-many links) or wide (100 attributes).
            """)
    var shape: RecordShape = .nested

    @Option(help: "Attributes beside the identity: 12 for ragged, 100 for wide.")
    var attributes: Int?

    @Option(help: "The probability that an attribute is there: 0.5 for ragged, 1 for the others.")
    var presence: Double?

    @Option(help: "The probability that an attribute that is there is null.")
    var nulls = 0.0

    @Option(help: "The order of the keys in a record: declared, or random, another for each.")
    var keyOrder: RecordKeyOrder = .declared

    @Option(help: "The identities, in the order of sending: ascending, random (53 bits) or uuid.")
    var keys: RecordKeys = .ascending

    @Option(help: "Begins all that is chance; the same seed gives the same records.")
    var seed: UInt64 = 1

    mutating func validate() throws {
        if let attributes {
            guard shape == .ragged || shape == .wide else {
                throw ValidationError("--attributes is for --shape ragged and wide; \(shape.rawValue) has its own.")
            }
            // A table has at most 2,000 columns.
            try NumberOption("--attributes", attributes, in: 1...1_900).check()
        }
        for (name, value) in [("--presence", presence ?? 1), ("--nulls", nulls)] where !(0...1).contains(value) {
            throw ValidationError("\(name) must be 0 to 1, but is \(value).")
        }
    }

    var options: RecordOptions {
        RecordOptions(
            shape: shape, attributes: attributes, presence: presence, nulls: nulls, keyOrder: keyOrder, keys: keys,
            seed: seed)
    }
}

/// How many records there are, for what needs all of them at once.
struct SizeArguments: ParsableArguments {
    @Option(help: "Payloads.")
    var jobs = 100

    @Option(help: "Records in each payload.")
    var records = 5_000

    @Option(help: "Begin with the record of this number; the same numbers again are unchanged rows.")
    var first = 0

    mutating func validate() throws {
        try [
            NumberOption("--jobs", jobs, in: 1...1_000_000), NumberOption("--records", records, in: 1...1_000_000),
            NumberOption("--first", first, in: 0...1 << 52),
        ].check()
        // All of them are in memory before the first is used.
        try NumberOption("--jobs times --records", jobs * records, in: 1...100_000_000).check()
    }
}

struct RecordsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "records", abstract: "Prints the records as one JSON array, for other tools to load.")

    @OptionGroup(title: "Records") var records: RecordArguments
    @OptionGroup var size: SizeArguments

    func run() async throws {
        var job = JobOptions(records.options)
        job.recordsOfJob = size.jobs * size.records
        job.first = size.first
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
