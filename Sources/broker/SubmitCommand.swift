public import ArgumentParser
public import BrokerClient
import BrokerCommandLine
import BrokerJSON

struct SubmitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "submit",
        abstract: "Submits JSON from files or standard input, awaits it and prints a summary.",
        discussion: """
            The input is an array of records, or records one after the other (NDJSON). Large inputs are cut into jobs, of \
            which a window is kept in flight; each job takes effect or fails as a whole, in the order of the input. \
            For example: curl -s https://api.example.com/employees | broker submit --entity Employee
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: "The entity that the records are of.")
    var entity: String

    @Option(help: ArgumentHelp("The keys that lead to the records, with dots between them.", valueName: "keypath"))
    var root: String?

    @Option(help: "Records in a job at most.")
    var records = 5_000

    @Option(
        help: ArgumentHelp(
            "Bytes of records in a job at most; one larger record is a job of its own.", valueName: "bytes"))
    var jobBytes = 4 << 20

    @Option(help: "Jobs in flight at most.")
    var window = 4

    @Option(help: "What a bad record does: fail its job, or be left out (skip).")
    var onInvalid: BrokerClient.Job.OnInvalid = .fail

    @Option(
        help: """
            An id for this submission: sent again with the same id and input, it is applied once. The jobs' ids are \
            ID-1, ID-2 and so on.
            """)
    var id: String?

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "Files of JSON; none or - is standard input.", completion: .file())
    var files: [String] = []

    mutating func validate() throws {
        try [
            NumberOption("--records", records, in: 1...10_000_000),
            NumberOption("--job-bytes", jobBytes, in: 1...1 << 30),
            NumberOption("--window", window, in: 1...100_000),
        ].check()
        if let id, !(1...110).contains(id.utf8.count) {
            throw ValidationError("--id must have 1 to 110 bytes, so that the jobs' numbers fit behind it.")
        }
    }

    func run() async throws {
        let broker = try await connection.connect("broker submit", jobsInFlight: window)
        let sources = (files.isEmpty ? ["-"] : files).map {
            RecordSource(
                path: $0, root: root?.split(separator: ".", omittingEmptySubsequences: false).map(String.init) ?? [])
        }
        var submission = Submission(
            broker: broker, entity: entity, onInvalid: onInvalid, idPrefix: id, recordsPerJob: records,
            bytesPerJob: jobBytes, window: window, progress: ProgressBar(totalBytes: Self.total(sources)))
        do {
            for source in sources { try await submission.submit(source) }
            try await submission.finish()
        } catch let error as BrokerError {
            await broker.close()
            submission.progress.clear()
            throw CommandFailure(error)
        } catch let error as CommandFailure {
            // What was sent before takes effect; its outcome is told, then what went wrong.
            try await submission.finish()
            submission.progress.clear()
            try submission.summary.say(json: json)
            throw error
        }
        await broker.close()
        submission.progress.clear()
        try submission.summary.say(json: json)
        for failure in submission.summary.failures { Program.complain("broker: \(failure)") }
        if !submission.summary.failures.isEmpty { throw CommandFailure(.failed) }
        if submission.summary.rejectedCount > 0 { throw CommandFailure(.rejected) }
    }

    private static func total(_ sources: [RecordSource]) -> Int? {
        let counts = sources.map(\.byteCount)
        return counts.contains { $0 == nil } ? nil : counts.reduce(0) { $0 + ($1 ?? 0) }
    }
}

extension BrokerClient.Job.OnInvalid: ExpressibleByArgument {}

/// Records on their way: gathered into jobs, of which a window is in flight.
struct Submission {
    let broker: BrokerClient
    let entity: String
    let onInvalid: BrokerClient.Job.OnInvalid
    let idPrefix: String?
    let recordsPerJob: Int
    let bytesPerJob: Int
    let window: Int
    var progress: ProgressBar

    private(set) var summary = SubmissionSummary()
    private var gathered: [UInt8] = []
    private var gatheredCount = 0
    private var jobCount = 0
    private var inFlight: [JobInFlight] = []
    private var bytesOfEarlierSources = 0

    private struct JobInFlight {
        let sent: BrokerClient.SentJob
        /// Which records they are, for messages: "records 5001 to 10000 of employees.json".
        let place: String
        let records: Int
    }

    init(
        broker: BrokerClient, entity: String, onInvalid: BrokerClient.Job.OnInvalid, idPrefix: String?,
        recordsPerJob: Int,
        bytesPerJob: Int, window: Int, progress: ProgressBar
    ) {
        self.broker = broker
        self.entity = entity
        self.onInvalid = onInvalid
        self.idPrefix = idPrefix
        self.recordsPerJob = recordsPerJob
        self.bytesPerJob = bytesPerJob
        self.window = window
        self.progress = progress
    }

    /// Sends the records of one source; the last jobs may still be in flight afterwards.
    mutating func submit(_ source: RecordSource) async throws {
        var numbered = 0
        var bytes = 0
        try await source.forEach { record, bytesRead in
            if gatheredCount == recordsPerJob || (gatheredCount > 0 && gathered.count + record.count > bytesPerJob) {
                try await send(source, upTo: numbered)
            }
            gathered.append(UInt8(ascii: gatheredCount == 0 ? "[" : ","))
            gathered += record
            gatheredCount += 1
            numbered += 1
            bytes = bytesRead
            progress.update(bytes: bytesOfEarlierSources + bytes, records: summary.records)
        }
        if gatheredCount > 0 { try await send(source, upTo: numbered) }
        bytesOfEarlierSources += bytes
    }

    /// Waits for everything in flight.
    mutating func finish() async throws {
        while !inFlight.isEmpty { try await settleOldest() }
    }

    private mutating func send(_ source: RecordSource, upTo last: Int) async throws {
        gathered.append(UInt8(ascii: "]"))
        jobCount += 1
        var job = BrokerClient.Job.process(gathered, as: entity)
        job.onInvalid = onInvalid
        job.id = idPrefix.map { "\($0)-\(jobCount)" }
        while inFlight.count >= window { try await settleOldest() }
        let file = source.path == "-" ? "standard input" : source.path
        inFlight.append(
            JobInFlight(
                sent: try await broker.enqueue(job), place: "records \(last - gatheredCount + 1) to \(last) of \(file)",
                records: gatheredCount))
        gathered.removeAll(keepingCapacity: true)
        gatheredCount = 0
    }

    private mutating func settleOldest() async throws {
        let oldest = inFlight.removeFirst()
        do {
            summary.add(try await oldest.sent.completion, records: oldest.records, at: oldest.place)
        } catch BrokerError.failed(let failed) {
            summary.fail("\(oldest.place): \(failed)")
        } catch BrokerError.refused(let error) {
            summary.fail("\(oldest.place): \(error)")
        }
    }
}
