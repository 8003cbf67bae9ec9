import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON

/// The jobs that a command of one operation sends one after the other, and what became of them.
struct OperationRun {
    private let options: OperationOptions
    private let deletions: DeletionOptions?
    private let broker: BrokerClient
    private(set) var summary = SubmissionSummary()
    private(set) var status = ExitStatus.success

    init(_ options: OperationOptions, _ deletions: DeletionOptions?, _ broker: BrokerClient) {
        self.options = options
        self.deletions = deletions
        self.broker = broker
    }

    /// Sends a job and waits for its end.
    ///
    /// - Returns: whether it is committed; the failure is noted else.
    mutating func commit(
        _ action: Job.Operation.Action, id: String?, records: Int = 0,
        at place: (_ path: String?) -> String?
    ) async -> Bool {
        guard let job = await send(action, id: id, at: place) else { return false }
        return await settle(job, records: records, at: place)
    }

    /// Sends a job after those before it.
    ///
    /// - Returns: nil when it cannot be sent; the failure is noted.
    mutating func send(
        _ action: Job.Operation.Action, id: String?, at place: (_ path: String?) -> String?
    ) async -> SubmittedJob? {
        var job = job(action)
        job.id = id.map { JobID($0) }
        do {
            return try await broker.enqueue(job)
        } catch {
            note(error, at: place)
            return nil
        }
    }

    private func job(_ action: Job.Operation.Action) -> Job {
        var job = Job(Job.Operation(entity: options.entity, action), onInvalid: options.onInvalid)
        job.isDryRun = options.dryRun
        job.maximumDeletions = deletions?.maximum
        return job
    }

    /// Tries the job, and asks the person at the terminal whether the objects that it would delete are to be deleted.
    ///
    /// - Returns: false when nothing is to be sent; the reason is noted.
    mutating func agrees(to action: Job.Operation.Action, at place: (_ path: String?) -> String?) async -> Bool {
        var trial = job(action)
        trial.isDryRun = true
        do {
            if DeletionOptions.agrees(to: try await broker.process(trial)) { return true }
            fail("nothing was deleted")
        } catch {
            note(error, at: place)
        }
        return false
    }

    /// Waits for the end of a job that was sent.
    ///
    /// - Returns: whether it is committed; the failure is noted else.
    mutating func settle(
        _ job: SubmittedJob, records: Int, at place: (_ path: String?) -> String?
    ) async -> Bool {
        do {
            summary.add(try await job.completion, records: records) { place($0) ?? "the job" }
            if summary.rejectedCount > 0 { status = .rejected }
            return true
        } catch {
            note(error, at: place)
            return false
        }
    }

    private mutating func note(_ error: any Error, at place: (_ path: String?) -> String?) {
        let place = place((error as? BrokerError)?.fault?.path)
        let isLimited = (error as? BrokerError)?.code == .tooManyDeletions
        let remedy = isLimited ? " See what it would delete with --dry-run; --max-delete is the limit." : ""
        fail((place.map { "\($0): " } ?? "") + "\(error)\(remedy)", CommandFailure(error).status)
    }

    mutating func fail(_ message: String, _ status: ExitStatus = .failed) {
        summary.fail(message, at: (0, summary.failures.count))
        self.status = status
    }

    /// Says what became of it all: data to standard output, the rest to standard error.
    ///
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func end(countsRecords: Bool) throws {
        for failure in summary.failures { Program.complain("broker: \(failure)", .error) }
        if options.json {
            var writer = JSONWriter()
            writer.object { summary.writeMembers(to: &$0) }
            try Program.write(String(decoding: writer.bytes, as: UTF8.self))
        } else if summary.failures.isEmpty || summary.jobs > 0 {
            try summary.say(countsRecords: countsRecords)
        }
        if status != .success { throw CommandFailure(status) }
    }
}
