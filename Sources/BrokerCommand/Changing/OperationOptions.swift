import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON

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
        deletions: DeletionOptions? = nil, asks: Bool = false, at place: @Sendable (_ path: String?) -> JobPlace?
    ) async throws {
        let interruption = OperationInterruption(readsStandardInput: readsStandardInput, store: connection.store)
        try await connection.connected(name, isDryRun: dryRun, onInterruption: interruption.report) { broker in
            try await run(action, on: broker, interruption, deletions, asks: asks, at: place)
        }
    }

    private func run(
        _ action: Job.Operation.Action, on broker: BrokerClient, _ interruption: OperationInterruption,
        _ deletions: DeletionOptions?, asks: Bool, at place: (_ path: String?) -> JobPlace?
    ) async throws {
        var run = OperationRun(self, deletions, broker, interruption)
        if asks, await !run.agrees(to: action, at: place) { return try run.end(countsRecords: false) }
        _ = await run.commit(action, id: id, at: place)
        try run.end(countsRecords: false)
    }
}
