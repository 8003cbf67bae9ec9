import ArgumentParser
import BrokerClient
import BrokerCommandLine
import BrokerJSON

/// What the commands have in common that do one operation: it is one job, which takes effect whole or not at all.
struct OperationOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(help: "The entity of the objects.")
    var entity: String

    @Option(help: "What a bad record or key does: fail the job, or be left out (skip).")
    var onInvalid: BrokerClient.Job.OnInvalid = .fail

    @Option(help: "An id for the job: sent again with the same id and input, it is applied once.")
    var id: String?

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        if let id, !(1...128).contains(id.utf8.count) { throw ValidationError("--id must have 1 to 128 bytes.") }
    }

    /// Does the operation, closes the connection, and says what became of it: data to standard output, the rest to
    /// standard error.
    ///
    /// - Parameters:
    ///   - records: how many the operation has; nil when it has none to count.
    ///   - place: what a JSON Pointer into the job's message leads to; nil when it leads to nothing that has a name.
    /// - Throws: a ``CommandFailure`` when not all that was asked for is committed.
    func run(
        _ action: BrokerClient.Job.Operation.Action, on broker: BrokerClient, records: Int? = nil,
        at place: (_ path: String?) -> String?
    ) async throws {
        let operation = BrokerClient.Job.Operation(entity: entity, action)
        var summary = SubmissionSummary()
        var status = ExitStatus.success
        do {
            let completion = try await broker.process(
                BrokerClient.Job(operations: [operation], id: id, onInvalid: onInvalid))
            summary.add(completion, records: records ?? 0) { place($0) ?? "the job" }
            if summary.rejectedCount > 0 { status = .rejected }
        } catch BrokerError.tooLarge(_) where action.isSync {
            summary.fail(SyncRecords.tooLarge.description, at: (0, 0))
            status = .failed
        } catch {
            let place = place((error as? BrokerError)?.fault?.path)
            summary.fail((place.map { "\($0): " } ?? "") + "\(error)", at: (0, 0))
            status = CommandFailure(error).status
        }
        await broker.close()
        for failure in summary.failures { Program.complain("broker: \(failure)") }
        if json {
            var writer = JSONWriter()
            writer.object { summary.writeMembers(to: &$0) }
            try Program.say(String(decoding: writer.bytes, as: UTF8.self))
        } else if summary.failures.isEmpty {
            try summary.say(countsRecords: records != nil)
        }
        if status != .success { throw CommandFailure(status) }
    }
}

extension BrokerClient.Job.Operation.Action {
    fileprivate var isSync: Bool {
        if case .sync = self { true } else { false }
    }
}
