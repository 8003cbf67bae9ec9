import Broker
import BrokerClient
import BrokerFastJSON
import BrokerInput
import BrokerJSON

/// The records of a submission: they are gathered into jobs, of which a window is in flight.
struct SubmitRun {
    private let command: SubmitCommand
    private let job: @Sendable (RawJSON) -> Job
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

    /// As many records as are wanted have been read.
    private struct Enough: Error {}

    init(_ command: SubmitCommand, _ broker: BrokerClient, _ tally: JobTally) {
        self.command = command
        job = command.job
        resumed = command.resume ? ResumedJobs(options: command.jobOptions) : nil
        stream = JobStream(broker, tally, maximumInFlight: command.maxInFlight)
        toSkip = command.skip
        toTake = command.take
        gathered = GatheredRecords(keepsTexts: command.rejects != nil || command.check)
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
                    for record in batch.records { try await take(record, of: source, input) }
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

    private mutating func take(_ record: InputRecord, of source: RecordSource, _ input: Int) async throws {
        if skipped == toSkip, toTake == 0 { throw Enough() }
        if gathered.isFull(before: record, records: command.batchRecords, bytes: command.batchBytes.bytes) {
            try await send(source, input)
        }
        if skipped < toSkip {
            skipped += 1
            gathered.skip()
        } else {
            gathered.append(record)
            toTake = toTake.map { $0 - 1 }
        }
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
            var job = job(json)
            var earlier: Completion?
            if let resumed {
                let id = resumed.id(of: json.bytes, from: source.path, at: records.range.lowerBound)
                job.id = id
                earlier = await ResumedJobs.committed(id, on: stream.broker)
            } else {
                job.id = command.id.map { JobID("\($0)-\(stream.jobCount + 1)") }
            }
            let further =
                command.check ? FurtherFaults(broker: stream.broker, records: records, job: self.job) : nil
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
struct FurtherFaults: Sendable {
    fileprivate struct RemovedValue {
        /// From the record on.
        let path: String
        let fault: Completion.Rejection
    }

    /// Trials of one job: each finds at least one more fault of a record, and records with more of them are rare.
    private static let mostTrials = 100

    let broker: BrokerClient
    let records: JobRecords
    /// The trial of a JSON array of records.
    let job: @Sendable (RawJSON) -> Job

    /// - Returns: the faults of the completion and the further ones, in the order of the records.
    func all(after completion: Completion) async throws -> [Completion.Rejection] {
        var faults = completion.rejections
        var known = Set(faults)
        var removed: [Int: [RemovedValue]] = [:]
        var new = faults
        for _ in 0..<Self.mostTrials {
            guard remove(new, &removed) else { break }
            new = try await broker.process(job(try text(without: removed))).rejections.filter { fault in
                let place = records.find(fault.path)
                let values = place.flatMap { removed[$0.index] } ?? []
                return !values.contains { $0.causes(fault, at: place?.path ?? "") } && known.insert(fault).inserted
            }
            faults += new
        }
        let order = faults.map { records.find($0.path)?.index ?? records.count }
        return faults.indices.sorted { (order[$0], $0) < (order[$1], $1) }.map { faults[$0] }
    }

    /// - Returns: false when none of the faults is that of a value which can be removed.
    private func remove(_ faults: [Completion.Rejection], _ removed: inout [Int: [RemovedValue]]) -> Bool {
        var isChanged = false
        for fault in faults where [.invalidValue, .validationFailed].contains(fault.code) {
            guard let (index, path) = records.find(fault.path), !path.isEmpty else { continue }
            removed[index, default: []].append(RemovedValue(path: path, fault: fault))
            isChanged = true
        }
        return isChanged
    }

    private func text(without removed: [Int: [RemovedValue]]) throws -> RawJSON {
        var writer = JSONWriter()
        try writer.array { writer in
            for index in 0..<records.count {
                let line = records.line(index)
                guard let values = removed[index] else {
                    writer.raw(line)
                    continue
                }
                let document = try JSONDocument(fast: JSONText(copying: line))
                let pointers = values.map { ArraySlice($0.path.split(separator: "/").map(Self.unescaped)) }
                withExtendedLifetime(document) { Self.write(document.root, without: pointers, to: &writer) }
            }
        }
        return RawJSON(checked: writer.bytes, depth: RecordLimits.maximumDepth + 1)
    }

    private static func unescaped(_ token: Substring) -> String {
        String(token).replacing("~1", with: "/").replacing("~0", with: "~")
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

extension FurtherFaults.RemovedValue {
    /// The fault would not be there with a valid value.
    fileprivate func causes(_ other: Completion.Rejection, at place: String) -> Bool {
        guard path.hasPrefix(place + "/") else { return false }
        switch other.code {
        case .noKnownKey: return true
        case .missingIdentity, .missingValue: return other.attribute == fault.attribute && other.entity == fault.entity
        default: return false
        }
    }
}
