import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON

/// The jobs that a command of one operation sends one after the other, and what became of them.
struct OperationRun {
    private let options: OperationOptions
    private let broker: BrokerClient
    private(set) var summary = SubmissionSummary()
    private(set) var status = ExitStatus.success

    init(_ options: OperationOptions, _ broker: BrokerClient) {
        self.options = options
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
        let operation = Job.Operation(entity: options.entity, action)
        do {
            return try await broker.enqueue(
                Job(operation, id: id.map { JobID($0) }, onInvalid: options.onInvalid))
        } catch {
            note(error, at: place)
            return nil
        }
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
        fail((place.map { "\($0): " } ?? "") + "\(error)", CommandFailure(error).status)
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
