import Broker
import BrokerClient
import BrokerInput

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
