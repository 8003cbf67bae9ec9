import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine

/// The options of the commands that do one operation: it is one job, which takes effect completely or not at all.
struct OperationOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(help: "The entity of the objects.", completion: .entity)
    var entity: String

    @Option(help: "What happens with an invalid record or key: fail the job, or skip the record or key.")
    var onInvalid: Job.OnInvalid = .fail

    @Option(help: "An id for the job: sent again with the same id and input, it is applied once.")
    var id: String?

    @Flag(help: "Try it: say what it would change, and change nothing.")
    var dryRun = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        if let id, !(1...128).contains(id.utf8.count) { throw ValidationError("--id must have 1 to 128 bytes.") }
    }

    /// Does the operation as one job, and says what became of it.
    ///
    /// - Parameters:
    ///   - name: the command's, for the server's log.
    ///   - asks: a person is asked before anything is deleted.
    ///   - place: what a JSON Pointer into the job's message leads to; nil when it leads to nothing that has a name.
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func run(
        _ action: Job.Operation.Action, named name: String, readsStandardInput: Bool = false,
        deletions: DeletionOptions? = nil, asks: Bool = false,
        at place: @escaping @Sendable (_ path: String?) -> JobPlace?
    ) async throws {
        let continuation = Self.continuation(readsStandardInput: readsStandardInput)
        let tally = tally(continuation)
        let state = try await connection.connected(
            name, isDryRun: dryRun, onInterruption: interruption(of: tally, continuation)
        ) { broker in
            var stream = JobStream(broker, tally, maximumInFlight: 1)
            let job = job(action, id: id, deletions)
            do throws(JobStream.Stopped) {
                if asks { try await Self.ask(for: job, in: stream, at: place) }
                try await stream.send(job, at: place)
            } catch {}
            return await stream.end()
        }
        try end(state, countsRecords: false)
    }

    func job(_ action: Job.Operation.Action, id: String?, _ deletions: DeletionOptions?) -> Job {
        var job = Job(Job.Operation(entity: entity, action), onInvalid: onInvalid)
        job.id = id.map { JobID($0) }
        job.isDryRun = dryRun
        job.maximumDeletions = deletions?.maximum
        return job
    }

    /// Tries the job, and asks the person at the terminal whether the objects that it would delete are to be deleted.
    ///
    /// - Throws: when nothing is to be sent; the reason is noted.
    static func ask(
        for job: Job, in stream: JobStream, at place: (_ path: String?) -> JobPlace?
    ) async throws(JobStream.Stopped) {
        var trial = job
        trial.id = nil
        trial.isDryRun = true
        do {
            if DeletionOptions.agrees(to: try await stream.broker.process(trial)) { return }
            stream.tally.fail("nothing was deleted")
        } catch {
            stream.tally.stop(by: error, at: place)
        }
        throw JobStream.Stopped()
    }

    /// The same command: a job of the same --id is applied once, and another finds what is committed as it is.
    static func continuation(readsStandardInput: Bool) -> String {
        "to go on, run\(readsStandardInput ? " with the same standard input" : ""): \(CommandLine.arguments.shellText)"
    }

    func tally(_ continuation: String, _ rejects: RejectsFile? = nil) -> JobTally {
        JobTally(rejects: rejects) { code, status in
            switch code {
            case .tooManyDeletions?: " --max-delete is the limit; --dry-run without it shows what would be deleted."
            case _ where status == .cannotConnect: "; \(continuation)"
            default: ""
            }
        }
    }

    /// Says, after a signal, whether a job may be committed, and how to go on.
    func interruption(
        of tally: JobTally, _ continuation: String, _ rejects: RejectsFile? = nil
    ) -> @Sendable () -> Void {
        let inquiry = ["broker", "await"] + (connection.store.map { ["--store", $0] } ?? [])
        return tally.reporting(waitingAtMost: .seconds(0), rejects) { state in
            let last = state.unanswered.values.max { $0.number < $1.number }
            let end = last?.id.map { id in
                "the job \(id) was sent and may be committed (see `\((inquiry + [id]).shellText)`)"
            }
            Program.complain("broker: interrupted; \(end ?? "no job is unanswered"); \(continuation)")
        }
    }

    /// Says what became of it all: data to standard output, the rest to standard error.
    ///
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func end(_ state: JobTally.State, countsRecords: Bool, _ rejects: RejectsFile? = nil) throws {
        let summary = state.summary
        summary.sayFailures()
        if json {
            try summary.write()
        } else if summary.failures.isEmpty || summary.jobs > 0 {
            try summary.say(countsRecords: countsRecords)
        }
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if state.status != .success { throw CommandFailure(state.status) }
    }
}
