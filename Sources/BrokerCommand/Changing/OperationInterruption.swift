import Broker
import BrokerCommandLine
import Synchronization

/// The report of a command of one operation that a signal ends: whether its job may be committed, and how to go on.
final class OperationInterruption: Sendable {
    private let unanswered = Mutex<JobID?>(nil)
    /// The operation's records come from standard input.
    private let readsStandardInput: Bool

    private let store: String?

    /// - Parameter store: the store of a command without a server.
    init(readsStandardInput: Bool, store: String?) {
        self.readsStandardInput = readsStandardInput
        self.store = store
    }

    func sent(_ id: JobID) { unanswered.withLock { $0 = id } }

    func answered() { unanswered.withLock { $0 = nil } }

    func report() {
        let job = unanswered.withLock { $0 }
        let inquiry = ["broker", "await"] + (store.map { ["--store", $0] } ?? [])
        let state = job.map {
            "the job \($0) was sent and may be committed (see `\((inquiry + [$0.text]).shellText)`)"
        }
        Program.complain("broker: interrupted; \(state ?? "no job is unanswered"); \(continuation)")
    }

    /// The same command: a job of the same --id is applied once, and another finds what is committed as it is.
    var continuation: String {
        "to go on, run\(readsStandardInput ? " with the same standard input" : ""): \(CommandLine.arguments.shellText)"
    }
}
