import Broker
import BrokerClient
import BrokerInput

/// A sync on its way: one job, or parts when it does not fit one. The next part is cut and sent while the one before it
/// is on its way; the last one, which deletes, waits until all others are committed.
struct SyncRun {
    private let command: SyncCommand
    private let actions: Set<Job.Operation.SyncAction>
    /// The id of the parts. A new one each time without `--id`: names of an older run must not count.
    private let partID: String
    private var run: OperationRun
    /// A person is asked before anything is deleted.
    private let asks: Bool
    private var records = SyncRecords()
    private var jobCount = 0
    private var sent: SentPart?

    /// A part on its way, and where its records came from.
    private struct SentPart {
        let job: SubmittedJob
        let records: SyncRecords
        let count: Int
    }

    /// There is no use in reading on: the run has the reason.
    private struct Stopped: Error {}

    init(
        _ command: SyncCommand, _ broker: BrokerClient, _ interruption: OperationInterruption, _ rejects: RejectsFile?
    ) {
        self.command = command
        actions = command.actions.isEmpty ? Set<Job.Operation.SyncAction>.all : Set(command.actions)
        partID = command.options.id ?? "broker-sync-\(UInt64.random(in: 0...UInt64.max))"
        run = OperationRun(command.options, command.deletions, broker, interruption, rejects: rejects)
        // Standard input that was the records has no answers.
        asks =
            actions.contains(.delete) && !command.options.dryRun && command.deletions.mayAsk()
            && !command.input.readsStandardInput
        records.keepsTexts = rejects != nil
    }

    mutating func run(_ sources: [RecordSource]) async throws {
        do {
            for source in sources { try await read(source) }
            if records.total == 0, actions.contains(.delete), !command.empty {
                run.fail(
                    "the input holds no records, and a sync of none deletes all that matches; if that is intended, add "
                        + "--empty; nothing was sent")
            } else {
                try await send(isLast: true)
            }
        } catch let fault as InputFault {
            let place = fault.place.map { ", \($0): \(fault.text)" } ?? " \(fault.reason)"
            run.fail("\(records.name(ofFault: fault))\(place)" + (jobCount == 0 ? "; nothing was sent" : ""))
        } catch is Stopped {
        }
        // Jobs in flight count, even when no further one is sent.
        _ = await settle()
        if run.status == .failed, run.summary.jobs > 0 {
            let count = run.summary.records
            run.fail(
                "\(count == 1 ? "1 record is" : "\(count) records are") committed, and nothing was deleted; correct "
                    + "the input and sync all of it again" + (command.options.id == nil ? "" : " under another --id"))
        }
        try run.end(countsRecords: true)
    }

    private mutating func read(_ source: RecordSource) async throws {
        records.begin(source.name)
        try await source.forEach { record, _ in
            if records.isFull(before: record, maximumBytes: command.batchBytes.bytes) {
                guard !command.options.dryRun else {
                    run.fail(
                        "the input does not fit one job, and a sync in several jobs cannot be tried; give a larger "
                            + "--batch-bytes (a job may have some 25 MB); nothing was sent")
                    throw Stopped()
                }
                try await send(isLast: false)
            }
            records.append(record)
        }
    }

    private mutating func send(isLast: Bool) async throws {
        let count = records.count
        let json = try records.take()
        let isAlone = isLast && jobCount == 0
        jobCount += 1
        let part = isAlone ? nil : Job.Operation.SyncPart(id: partID, isLast: isLast)
        if isLast { guard await settle() else { throw Stopped() } }
        let action = Job.Operation.Action.sync(
            json, where: command.selection.predicate, actions: actions, part: part)
        if isLast, asks { guard await run.agrees(to: action, at: records.place) else { throw Stopped() } }
        let job = await run.send(
            action,
            id: command.options.id.map { isAlone ? $0 : "\($0)-\(jobCount)" }, at: records.place)
        guard let job else { throw Stopped() }
        let isCommitted = await settle()
        sent = SentPart(job: job, records: records, count: count)
        guard isCommitted else { throw Stopped() }
        records.next()
        if isLast { _ = await settle() }
    }

    /// Waits until the part that is on its way is committed.
    ///
    /// - Returns: whether it is, or there is none; the failure is noted else.
    private mutating func settle() async -> Bool {
        guard let part = sent else { return true }
        sent = nil
        return await run.settle(part.job, records: part.count, texts: part.records.texts, at: part.records.place)
    }
}
