import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerInput
import BrokerJSON
import BrokerStore
import Dispatch
import Foundation

struct SubmitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "submit",
        abstract: "Submits records from files or standard input, awaits them and prints a summary.",
        discussion: """
            The input is JSON (an array of records, or records one after the other), CSV with a header, forms or XML, \
            packed by gzip, lz4 or zstd or not; see --type. Large inputs are cut into jobs, of which up to --max-in-flight \
            are in flight; each job takes effect or fails as a whole, in the order of the input. The records before a \
            fault of the input are submitted, and so are the other files; the summary then lists what is committed, \
            and the command that submits the rest. For example: curl -s https://api.example.com/employees | broker \
            submit --entity Employee. Whole API responses are read by a mapping of the model (--mapping), by its \
            routes for a path (--path), or, with neither, by its routes that have only a key path. With --store and \
            without --model, the model beside the store is used; if there is none, one is inferred from the first \
            records and written there.
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup var reading: ReadingOptions

    @Option(
        help: .value("count", "The number of records to skip first, as reported by a submission that did not finish."))
    var skip = 0

    @Option(help: .value("count", "The maximum number of records to submit, after those of --skip. Default: all."))
    var take: Int?

    @Option(help: .value("count", "The maximum number of records in a job."))
    var batchRecords = 5_000

    @Option(help: .value("size", "The maximum bytes of records in a job; a larger record is a job of its own."))
    var batchBytes = ByteSize(4 << 20)

    @Option(help: .value("count", "The maximum number of jobs in flight."))
    var maxInFlight = 16

    @Option(
        help: ArgumentHelp(
            """
            Send the records of a pipe that are there when no others have come for that time, and infer a model from them. \
            Default: 1s; without it with --id and --resume, whose jobs must be the same the next time.
            """, valueName: "time"))
    var flush: TimeSpan?

    @Option(
        help: """
            An id for this submission: sent again with the same id and input, it is applied once. The jobs' ids are \
            ID-1, ID-2 and so on.
            """)
    var id: String?

    @Flag(
        help: """
            Try it: say what it would change, and change nothing. Of several jobs each is tried by itself, and does not \
            see those before it.
            """)
    var dryRun = false

    @Flag(
        help: """
            Try it as with --dry-run, and report all faults of all records instead of the first of each job. The exit \
            status is 1 if there are any.
            """)
    var check = false

    @OptionGroup var rejects: RejectsOption

    @Flag(
        help: """
            Go on after an earlier run with --resume and the same options: what it committed is skipped. It is found by \
            the input's name, the records and their position, so objects without identity are inserted again when one \
            of these has changed.
            """)
    var resume = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @OptionGroup var input: InputOptions

    /// Reads the records where their entity alone does not.
    private var inferredMapping: String?

    mutating func validate() throws {
        try checkRange("--batch-records", batchRecords, in: 1...10_000_000)
        try checkRange("--batch-bytes", batchBytes, in: 1...ByteSize(1 << 30))
        try checkRange("--max-in-flight", maxInFlight, in: 1...100_000)
        if let flush { try checkRange("--flush", flush, in: .milliseconds(1)...TimeSpan.seconds(86_400)) }
        try checkRange("--skip", skip, in: 0...Int.max)
        try checkRange("--take", take, in: 1...Int.max)
        if let first = input.files.first, reading.takesEntity(first) { input.files.removeFirst() }
        try reading.checkInference(connection)
        if id != nil, resume {
            throw ValidationError("--id and --resume contradict each other: --resume makes the ids.")
        }
        if let id, !(1...Self.longestID).contains(id.utf8.count) {
            throw ValidationError("--id must have 1 to 110 bytes, so that the jobs' numbers fit after it.")
        }
    }

    /// Bytes: the number of a job fits after it.
    static let longestID = 110

    /// Nothing is committed.
    var isDryRun: Bool { dryRun || check }

    /// A check is not ended by a fault.
    private var policy: Job.OnInvalid { check ? .skip : reading.onInvalid }

    /// The options that decide the effect of a job.
    fileprivate var jobOptions: [String] {
        [reading.entity, reading.path, reading.mapping, inferredMapping].map { $0 ?? "" }
            + [policy.rawValue, reading.unknown.rawValue]
    }

    mutating func run() async throws {
        var sources = sources(root: input.format.root)
        let inferred = try await InferredModel(
            of: sources, entity: reading.entity, connection, reading.inference, evolves: reading.evolves,
            mayReject: policy == .skip)
        if let inferred {
            inferredMapping = inferred.mapping
            sources = self.sources(root: input.format.root ?? inferred.root)
        }
        let rejects = try rejects.file(appends: resume)
        let sizes = sources.compactMap(\.byteCount)
        let tally = JobTally(
            inputs: sources.map(\.name),
            progress: ProgressBar(totalBytes: sizes.count == sources.count ? sizes.reduce(0, +) : nil), rejects: rejects
        )
        // The server inside this command answers every sent job.
        let patience = connection.isLocal ? DispatchTimeInterval.never : .seconds(1)
        let state = try await connection.connected(
            "broker submit", jobsInFlight: maxInFlight, makesStore: true, isDryRun: isDryRun,
            syncsAtEnd: !sources.contains(where: \.isPipe), inferred: inferred,
            onInterruption: tally.reporting(waitingAtMost: patience) { [command = self] state in
                SubmissionReport(state: state, command: command).sayInterrupted()
            }
        ) { broker in
            if resume, let entity = reading.entity, let model = try? await broker.model(),
                let warning = ResumedJobs.warning(entity, of: model)
            {
                Program.report("broker: \(warning)", .warning)
            }
            try await inferred?.guessed?.check(against: broker)
            let keys = await RecordSource.keys(of: reading.entity, broker)
            var run = SubmitRun(self, broker, tally)
            return await run.run(sources.map { $0.withKeys(keys) })
        }
        let report = SubmissionReport(state: state, command: self)
        try report.say()
        if let inferred, inferred.isFirst { inferred.guessed?.report(replaced: state.summary.changes) }
        if inferred != nil, !isDryRun {
            await InferredModel.promote(after: state.summary, of: sources, connection, evolves: reading.evolves)
        }
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if report.status != .success { throw CommandFailure(report.status) }
    }

    private func sources(root: RecordRoot?) -> [RecordSource] {
        input.sources(root: root).map { source in
            var source = source
            source.reading.readsTables = reading.entity != nil
            source.reading.mostRejects = policy == .skip ? input.format.maxUnreadable : 0
            source.patience = source.isPipe ? flushTime.map { Int32(clamping: Int($0.exactSeconds * 1_000)) } : nil
            return source
        }
    }

    /// The number of the jobs with --id, and the content of those with --resume, do not depend on time.
    fileprivate var flushTime: TimeSpan? { flush ?? (id == nil && !resume ? .seconds(1) : nil) }

    /// The job of gathered records: JSON text.
    fileprivate var job: @Sendable (RawJSON) -> Job {
        { [self] json in
            var job = Job(reading.operation(json, inferredMapping: inferredMapping), onInvalid: policy)
            job.unknownKeys = reading.unknown
            job.isDryRun = isDryRun
            return job
        }
    }
}

/// The records of a submission: they are gathered into jobs, of which a window is in flight.
private struct SubmitRun {
    private let command: SubmitCommand
    /// Nil unless the submission is resumed.
    private let resumed: ResumedJobs?
    private var stream: JobStream
    /// Records that are skipped from the next input on.
    private var toSkip: Int
    /// Records that may still be submitted; nil for any number.
    private var toTake: Int?
    /// Records of this input that were skipped.
    private var skipped = 0
    private var gathered: GatheredRecords
    /// When the first of them was gathered.
    private var begun: ContinuousClock.Instant?

    /// As many records as are wanted have been read.
    private struct Enough: Error {}

    init(_ command: SubmitCommand, _ broker: RemoteBroker, _ tally: JobTally) {
        self.command = command
        resumed = command.resume ? ResumedJobs(options: command.jobOptions) : nil
        stream = JobStream(broker, tally, maximumInFlight: command.maxInFlight)
        toSkip = command.skip
        toTake = command.take
        gathered = GatheredRecords(keepsTexts: command.rejects.path != nil || command.check)
    }

    /// Sends everything, source after source, and waits for what was sent. A source that ends in a fault is sent up to
    /// there, and the next one follows; only when the server is gone, or the tally is closed, nothing more is sent.
    mutating func run(_ sources: [RecordSource]) async -> JobTally.State {
        for (index, source) in sources.enumerated() where stream.tally.mayGoOn {
            if toTake == 0 { stream.tally.excluded(index) } else { await submit(source, index) }
        }
        return await stream.end()
    }

    private mutating func submit(_ source: RecordSource, _ input: Int) async {
        var bytes = 0
        skipped = 0
        gathered.begin(source.name, input: input)
        defer { toSkip -= skipped }
        do {
            do {
                try await source.forEachBatch { batch in
                    for reject in batch.rejects { stream.tally.unreadable(reject, of: input) }
                    for record in batch.records {
                        if gathered.isFull(
                            before: record, records: command.batchRecords, bytes: command.batchBytes.bytes)
                        {
                            try await send(source, input)
                        }
                        try take(record, of: source)
                    }
                    if source.patience != nil, isDue(batch) { try await send(source, input) }
                    noteRead(input, bytes: batch.bytesRead - bytes)
                    bytes = batch.bytesRead
                }
            } catch is Enough {
                noteRead(input)
            } catch let fault as InputFault where gathered.count > 0 {
                try await send(source, input)
                throw fault
            }
            if gathered.count > 0 { try await send(source, input) }
            stream.tally.ended(input, by: nil)
        } catch let fault as InputFault {
            stream.tally.ended(input, by: fault)
        } catch {
            // The gathered records are not sent any more.
        }
    }

    private mutating func take(_ record: InputRecord, of source: RecordSource) throws(Enough) {
        if skipped == toSkip, toTake == 0 { throw Enough() }
        if skipped < toSkip {
            skipped += 1
            gathered.skip()
        } else {
            if gathered.count == 0, source.patience != nil { begun = .now }
            gathered.append(record)
            toTake = toTake.map { $0 - 1 }
        }
    }

    /// The records of a pipe wait no longer for others.
    private func isDue(_ batch: RecordStream.Batch) -> Bool {
        guard gathered.count > 0, let begun, let patience = command.flushTime else { return false }
        return batch.isIdle || ContinuousClock.now - begun >= patience.duration
    }

    private func noteRead(_ input: Int, bytes: Int = 0) {
        stream.tally.read(bytes, record: gathered.position, of: input, skipped: skipped)
    }

    /// Sends the gathered records, or those before a fault.
    private mutating func send(_ source: RecordSource, _ input: Int) async throws {
        let fault = gathered.dropBroken()
        noteRead(input)
        if gathered.count > 0 {
            let (json, records) = gathered.take()
            var job = command.job(json)
            var earlier: Completion?
            if let resumed {
                let id = resumed.id(of: json.bytes, from: source.path, at: records.range.lowerBound)
                job.id = id
                earlier = await ResumedJobs.committed(id, on: stream.broker)
            } else {
                job.id = command.id.map { JobID("\($0)-\(stream.jobCount + 1)") }
            }
            let further =
                command.check ? FurtherFaults(broker: stream.broker, records: records, job: command.job) : nil
            try await stream.send(job, records, earlier: earlier) {
                records.record(at: $0) ?? records.place
            } answer: { sent in
                var completion = try await sent.completion
                if let further { completion.rejections = try await further.all(after: completion) }
                return completion
            }
        }
        if let fault { throw fault }
    }
}

/// The faults of a check that the server did not report: it reports the first of each record. So the job is tried again
/// without the values that are at fault, until nothing new is found. Faults that a missing identity or required value hides stay
/// hidden.
private struct FurtherFaults: Sendable {
    /// By record, the faults whose values were removed, each with its path from the record on.
    private typealias Removed = [Int: [(path: String, fault: Completion.Rejection)]]

    /// Trials of one job: each finds at least one more fault of a record, and records with more of them are rare.
    private static let mostTrials = 100

    let broker: RemoteBroker
    let records: JobRecords
    /// The trial of a JSON array of records.
    let job: @Sendable (RawJSON) -> Job

    func all(after completion: Completion) async throws -> [Completion.Rejection] {
        var faults = completion.rejections
        var known = Set(faults)
        var removed: Removed = [:]
        var new = faults
        for _ in 0..<Self.mostTrials {
            var isChanged = false
            for fault in new where [.invalidValue, .validationFailed].contains(fault.code) {
                guard let (index, path) = records.find(fault.path), !path.isEmpty else { continue }
                removed[index, default: []].append((path, fault))
                isChanged = true
            }
            guard isChanged else { break }
            new = try await broker.process(job(try text(without: removed))).rejections.filter { fault in
                let place = records.find(fault.path)
                let values = place.flatMap { removed[$0.index] } ?? []
                return !values.contains { Self.isCaused(fault, at: place?.path ?? "", by: $0.fault, of: $0.path) }
                    && known.insert(fault).inserted
            }
            faults += new
        }
        let order = faults.map { records.find($0.path)?.index ?? records.count }
        return faults.indices.sorted { (order[$0], $0) < (order[$1], $1) }.map { faults[$0] }
    }

    /// The fault would not be there with a valid value at the path.
    private static func isCaused(
        _ fault: Completion.Rejection, at place: String, by removed: Completion.Rejection, of path: String
    ) -> Bool {
        guard path.hasPrefix(place + "/") else { return false }
        switch fault.code {
        case .noKnownKey: return true
        case .missingIdentity, .missingValue:
            return fault.attribute == removed.attribute && fault.entity == removed.entity
        default: return false
        }
    }

    private func text(without removed: Removed) throws -> RawJSON {
        var writer = JSONWriter()
        try writer.array { writer in
            for index in 0..<records.count {
                let line = records.line(index)
                guard let values = removed[index] else {
                    writer.raw(line)
                    continue
                }
                let document = try JSONDocument(fast: JSONText(copying: line))
                let pointers = values.map { value in
                    ArraySlice(
                        value.path.split(separator: "/").map {
                            String($0).replacing("~1", with: "/").replacing("~0", with: "~")
                        })
                }
                document.withRoot { Self.write($0, without: pointers, to: &writer) }
            }
        }
        return RawJSON(checked: writer.bytes, depth: RecordLimits.maximumDepth + 1)
    }

    /// Writes a value without the members of objects that the pointers lead to.
    private static func write(_ value: JSONValue, without pointers: [ArraySlice<String>], to writer: inout JSONWriter) {
        func inside(_ token: String) -> [ArraySlice<String>] {
            pointers.filter { $0.first == token }.map { $0.dropFirst() }
        }
        guard !pointers.isEmpty, [.object, .array].contains(value.kind) else { return writer.value(value) }
        guard value.kind == .object else {
            return writer.array { writer in
                for (index, element) in value.elements.enumerated() {
                    write(element, without: inside("\(index)"), to: &writer)
                }
            }
        }
        writer.object { writer in
            for (key, value) in value.members {
                let name = key.string ?? ""
                let pointers = inside(name)
                if pointers.contains(where: \.isEmpty) { continue }
                writer.key(name)
                write(value, without: pointers, to: &writer)
            }
        }
    }
}

/// The ids of `--resume`, by which a later run recognises the jobs that an earlier one has committed.
///
/// An id follows from everything that decides the effect of the job: the options that are part of it, the input's name, the
/// position of its first record there, and the texts of its records. So a job is skipped only if the same records came from
/// the same place, and a record that was corrected since makes another job.
struct ResumedJobs: Sendable {
    private let options: [String]

    init(options: [String]) { self.options = options }

    func id(of records: [UInt8], from input: String, at first: Int) -> JobID {
        let name = input == "-" ? input : URL(filePath: input).standardizedFileURL.path
        // No option and no name contains a zero.
        var head = Array((options + [name, "\(first)"]).joined(separator: "\0").utf8)
        head.append(0)
        let hashes = [head, records].map { $0.withUnsafeBytes { ContentHash.hash($0) } }
        let hash = (hashes[0] + hashes[1]).withUnsafeBytes { ContentHash.hash($0) }
        return JobID("resume-" + hash.map(\.hexadecimalText).joined() + "-\(first)")
    }

    /// The completion of the job, if an earlier run has committed it; nil when it is to be sent: it is unknown, or failed.
    static func committed(_ id: JobID, on broker: RemoteBroker) async -> Completion? {
        // An error of the connection is found again when the job is sent.
        guard var completion = try? await broker.completion(of: id) else { return nil }
        completion.isDuplicate = true
        return completion
    }

    /// The line about rows that a later run may insert again; nil for none.
    static func warning(_ entity: String, of model: ModelDescription) -> String? {
        let isIdentified = model.first(of: entity) { $0.identity.isEmpty || $0.isIdentityOptional == true ? nil : true }
        guard model.entities[entity] != nil, isIdentified == nil else { return nil }
        return
            "objects of \(entity) may have no identity: when the input or an option has changed, --resume inserts the "
            + "records of each changed job again; correct records in the file of --rejects instead, and submit that"
    }
}
