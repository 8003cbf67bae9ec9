import Broker
import BrokerClient
import BrokerInput

/// Records on their way: gathered into jobs, of which a window is in flight.
struct Submission {
    let broker: BrokerClient
    let operation: @Sendable (RawJSON) -> Job.Operation
    let onInvalid: Job.OnInvalid
    let unknownKeys: Job.UnknownKeys
    let isDryRun: Bool
    let idPrefix: String?
    let recordsPerJob: Int
    let bytesPerJob: Int
    /// Every fault of a record is reported.
    let isCheck: Bool
    /// The texts of the records are retained until their job is answered.
    let keepsTexts: Bool
    /// Nil unless the submission is resumed.
    let resumed: ResumedJobs?
    let tally: SubmissionTally

    /// Records that are skipped from the next input on.
    private var toSkip: Int
    /// Records that may still be submitted; nil for any number.
    private var toTake: Int?
    /// Records of this input that were skipped.
    private var skipped = 0
    private var gathered = GatheredRecords()
    private var jobCount = 0

    /// There is no use in reading on: the tally has the reason.
    private struct Ended: Error {}

    /// As many records as are wanted have been read.
    private struct Enough: Error {}

    init(_ command: SubmitCommand, broker: BrokerClient, tally: SubmissionTally) {
        self.broker = broker
        self.tally = tally
        operation = command.operation
        onInvalid = command.policy
        isCheck = command.check
        keepsTexts = command.rejects != nil || command.check
        resumed = command.resume ? ResumedJobs(options: command.jobOptions) : nil
        unknownKeys = command.unknown
        isDryRun = command.isDryRun
        idPrefix = command.id
        recordsPerJob = command.batchRecords
        bytesPerJob = command.batchBytes.bytes
        toSkip = command.skip
        toTake = command.take
    }

    /// Sends everything, source after source, and waits for what was sent. A source that ends in a fault is sent up to
    /// there, and the next one follows; only when the server is gone, or the tally is closed, nothing more is sent.
    mutating func run(_ sources: [RecordSource]) async {
        await withDiscardingTaskGroup { jobs in
            for (index, source) in sources.enumerated() {
                guard tally.mayGoOn else { return }
                guard toTake != 0 else {
                    tally.excluded(index)
                    continue
                }
                await submit(source, index, in: &jobs)
            }
        }
    }

    private mutating func submit(_ source: RecordSource, _ input: Int, in jobs: inout DiscardingTaskGroup) async {
        var number = 0
        var bytes = 0
        skipped = 0
        defer { toSkip -= skipped }
        do {
            do {
                try await source.forEachBatch { batch in
                    for record in batch.records {
                        if skipped == toSkip, toTake == 0 { throw Enough() }
                        if gathered.isFull(before: record, records: recordsPerJob, bytes: bytesPerJob) {
                            try await send(source, input, upTo: number, in: &jobs)
                        }
                        number += 1
                        if skipped < toSkip {
                            skipped += 1
                        } else {
                            gathered.append(record)
                            toTake = toTake.map { $0 - 1 }
                        }
                    }
                    tally.read(batch.bytesRead - bytes, record: number, of: input, skipped: skipped)
                    bytes = batch.bytesRead
                }
            } catch is Enough {
                tally.read(0, record: number, of: input, skipped: skipped)
            } catch let fault as InputFault where gathered.count > 0 {
                try await send(source, input, upTo: number, in: &jobs)
                throw fault
            }
            if gathered.count > 0 { try await send(source, input, upTo: number, in: &jobs) }
            tally.ended(input, by: nil)
        } catch let fault as InputFault {
            tally.ended(input, by: fault)
        } catch {
            // The gathered records are not sent any more.
            return
        }
    }

    /// Sends the gathered records, or those before a fault, when there is room for one more job.
    private mutating func send(
        _ source: RecordSource, _ input: Int, upTo last: Int, in jobs: inout DiscardingTaskGroup
    ) async throws {
        let count = gathered.count
        let fault = gathered.dropBroken()
        tally.read(0, record: last - count + gathered.count, of: input, skipped: skipped)
        if gathered.count > 0 {
            let first = last - count + 1
            jobCount += 1
            var note = SubmissionJob(
                number: jobCount, id: idPrefix.map { "\($0)-\(jobCount)" }, input: input,
                inputName: source.name, records: first...first + gathered.count - 1, lines: gathered.lines)
            let offsets = keepsTexts ? gathered.offsets : []
            let records = gathered.take()
            if keepsTexts { note.texts = JobRecords(json: records.bytes, starts: offsets) }
            if let resumed { note.id = resumed.id(of: records.bytes, from: source.path, at: first).text }
            try await send(note, records, in: &jobs)
        }
        if let fault { throw fault }
    }

    private var job: @Sendable (RawJSON) -> Job {
        { [operation, onInvalid, unknownKeys, isDryRun] records in
            var job = Job(operation(records))
            job.onInvalid = onInvalid
            job.unknownKeys = unknownKeys
            job.isDryRun = isDryRun
            return job
        }
    }

    private func send(
        _ note: SubmissionJob, _ records: RawJSON, in jobs: inout DiscardingTaskGroup
    ) async throws {
        var job = self.job(records)
        job.id = note.id.map { JobID($0) }
        guard tally.willSend(note) else { throw Ended() }
        if resumed != nil, let id = job.id, let completion = await ResumedJobs.committed(id, on: broker) {
            return tally.committed(note, completion)
        }
        let sent: SubmittedJob
        do {
            sent = try await broker.enqueue(job)
        } catch {
            tally.failed(note, error, wasSent: false)
            if !tally.mayGoOn { throw Ended() }
            return
        }
        tally.sent(note, as: sent.id.text)
        let further = isCheck ? note.texts.map { FurtherFaults(broker: broker, records: $0, job: self.job) } : nil
        jobs.addTask { [tally] in
            do {
                var completion = try await sent.completion
                if let further { completion.rejections = try await further.all(after: completion) }
                tally.committed(note, completion)
            } catch {
                tally.failed(note, error, wasSent: true)
            }
        }
    }
}
