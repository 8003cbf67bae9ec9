import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine

struct AwaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "await", abstract: "Waits for the end of a job, and prints its outcome.")

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the outcome as JSON.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Wait until the server has applied that job, to which another server of the same log gave the sequence.",
            valueName: "sequence"))
    var after: Int64?

    @Argument(help: "The job's id.")
    var id: String

    func run() async throws {
        let completion = try await connection.connected("broker await") { broker in
            do {
                return try await broker.await(JobID(id), after: after)
            } catch {
                let failure = CommandFailure(error)
                throw CommandFailure(failure.status, "\(failure)\(SubmissionIDs.hint(for: id, error))")
            }
        }
        var summary = SubmissionSummary()
        summary.add(completion, records: 0) { .message(ofJob: id, path: $0) }
        if json {
            try summary.write()
        } else {
            try summary.say(countsRecords: false)
        }
        if summary.rejectedCount > 0 { throw CommandFailure(.rejected) }
    }
}

/// The ids of the jobs of `submit --id`.
enum SubmissionIDs {
    /// The end of a message about a job's id: empty, unless the id is not known and may be that of a submission.
    static func hint(for id: String, _ error: any Error) -> String {
        guard (error as? BrokerError)?.code == .unknownJob, !isNumbered(id) else { return "" }
        return " The jobs of `submit --id \(id)` are \(id)-1, \(id)-2 and so on."
    }

    /// As the id of one of its jobs.
    private static func isNumbered(_ id: String) -> Bool {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false)
        return parts.count > 1 && Int(parts[parts.count - 1]) != nil
    }
}
