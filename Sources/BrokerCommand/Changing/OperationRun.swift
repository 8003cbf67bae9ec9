import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON

/// The jobs that a command of one operation sends one after the other, and what became of them.
struct OperationRun {
    private let options: OperationOptions
    private let deletions: DeletionOptions?
    private let broker: BrokerClient
    private let interruption: OperationInterruption
    private let rejects: RejectsFile?
    private(set) var summary = SubmissionSummary()
    private(set) var status = ExitStatus.success

    init(
        _ options: OperationOptions, _ deletions: DeletionOptions?, _ broker: BrokerClient,
        _ interruption: OperationInterruption, rejects: RejectsFile? = nil
    ) {
        self.interruption = interruption
        self.rejects = rejects
        self.options = options
        self.deletions = deletions
        self.broker = broker
    }

    /// Sends a job and waits for its end.
    ///
    /// - Returns: whether it is committed; the failure is noted else.
    mutating func commit(
        _ action: Job.Operation.Action, id: String?, records: Int = 0,
        at place: (_ path: String?) -> JobPlace?
    ) async -> Bool {
        guard let job = await send(action, id: id, at: place) else { return false }
        return await settle(job, records: records, at: place)
    }

    /// Sends a job after those before it.
    ///
    /// - Returns: nil when it cannot be sent; the failure is noted.
    mutating func send(
        _ action: Job.Operation.Action, id: String?, at place: (_ path: String?) -> JobPlace?
    ) async -> SubmittedJob? {
        var job = job(action)
        job.id = id.map { JobID($0) }
        do {
            let sent = try await broker.enqueue(job)
            interruption.sent(sent.id)
            return sent
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
    mutating func agrees(to action: Job.Operation.Action, at place: (_ path: String?) -> JobPlace?) async -> Bool {
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
        _ job: SubmittedJob, records: Int, texts: JobRecords? = nil, at place: (_ path: String?) -> JobPlace?
    ) async -> Bool {
        do {
            let completion = try await job.completion
            interruption.answered()
            rejects?.add(completion, of: texts) { place($0) ?? .job }
            summary.add(completion, records: records) { place($0) ?? .job }
            if summary.rejectedCount > 0 { status = .rejected }
            return true
        } catch {
            // All of a sync is sent again, so the other records are not collected.
            rejects?.add(error, of: texts, withOthers: false) { place($0) ?? .job }
            note(error, at: place)
            return false
        }
    }

    private mutating func note(_ error: any Error, at place: (_ path: String?) -> JobPlace?) {
        let known = error as? BrokerError
        let place = place(known?.fault?.path)
        let failure = CommandFailure(error)
        if failure.status != .cannotConnect { interruption.answered() }
        let remedy =
            switch known?.code {
            case .tooManyDeletions?: " --max-delete is the limit; --dry-run without it shows what would be deleted."
            case _ where failure.status == .cannotConnect: "; \(interruption.continuation)"
            default: ""
            }
        fail(
            (place.map { "\($0.text): " } ?? "") + "\(error)\(remedy)", failure.status, known?.code, at: place ?? .job)
    }

    mutating func fail(
        _ message: String, _ status: ExitStatus = .failed, _ code: BrokerError.Code? = nil, at place: JobPlace = .job
    ) {
        summary.fail(message, code, at: place, order: (0, summary.failures.count))
        self.status = status
    }

    /// Says what became of it all: data to standard output, the rest to standard error.
    ///
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func end(countsRecords: Bool) throws {
        for failure in summary.failures { Program.complain("broker: \(failure.message)", .error) }
        if options.json {
            var writer = JSONWriter()
            writer.object { summary.writeMembers(to: &$0) }
            try Program.write(String(decoding: writer.bytes, as: UTF8.self))
        } else if summary.failures.isEmpty || summary.jobs > 0 {
            try summary.say(countsRecords: countsRecords)
        }
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if status != .success { throw CommandFailure(status) }
    }
}
