package import BrokerModel
package import BrokerStore
internal import Logging

/// How a backup ended.
package enum BackupEnd: Sendable {
    case done(StoreBackup.Copy)
    case failed(Fault)
    /// The client did not want it any more.
    case stopped
}

/// A backup in progress.
struct BackupTask: Sendable {
    let backup: StoreBackup
    /// A name for the log.
    let file: String
    /// Whether the client is still there. Called on the backup's thread, between steps.
    let isWanted: @Sendable () -> Bool
    /// Called at most ten times a second, on the backup's thread, which goes on when it returns.
    let progress: @Sendable (StoreBackup.Progress) -> Void
    /// Called once, on a thread of the coordinator's.
    let notify: @Sendable (BackupEnd) -> Void
}

/// Makes backups, one at a time, on a thread of low priority.
final class BackupThread: Sendable {
    private struct State {
        var isRunning = false
        var isStopping = false
    }

    /// Between two progress messages.
    private static let progressMicroseconds: Int64 = 100_000

    private let state = Monitor(State())
    private let thread = SerialThread(named: "backup")
    private let gate: ReaderGate
    private let logger: Logger

    init(_ gate: ReaderGate, _ logger: Logger) {
        self.gate = gate
        self.logger = logger
    }

    /// - Returns: why it is refused; nil when it is begun.
    func run(_ task: BackupTask) -> Fault? {
        let refusal = state.withLock { state -> Fault? in
            if state.isStopping {
                return Fault(.draining, "The server is stopping and makes no more backups. Ask again when it is back.")
            }
            if state.isRunning {
                return .busy("Another backup is being made, and there is one at a time. Ask again when it is done.")
            }
            state.isRunning = true
            return nil
        }
        if let refusal { return refusal }
        thread.run { [self] in
            Thread.lowerPriority()
            let end = make(task)
            state.withLock { $0.isRunning = false }
            task.notify(end)
        }
        return nil
    }

    /// Cancels the running backup, and refuses further ones. Any number of calls.
    func cancel() { state.withLock { $0.isStopping = true } }

    /// Called once, after ``cancel()``.
    func stop() { thread.stop() }

    private func make(_ task: BackupTask) -> BackupEnd {
        logger.notice("A backup begins; the store's WAL grows until it ends.", metadata: ["file": "\(task.file)"])
        let start = monotonicMicroseconds()
        var reportedAt = Int64.min / 2
        do throws(StoreError) {
            let copy = try gate.backUp { () throws(StoreError) in
                try task.backup.run(
                    isWanted: { [state] in task.isWanted() && !state.withLock { $0.isStopping } },
                    progress: { progress in
                        let now = monotonicMicroseconds()
                        guard now - reportedAt >= Self.progressMicroseconds else { return }
                        reportedAt = now
                        task.progress(progress)
                    })
            }
            guard let copy else {
                logger.notice("A backup was abandoned, and its file deleted.", metadata: ["file": "\(task.file)"])
                return .stopped
            }
            logger.notice(
                "A backup is done.",
                metadata: [
                    "file": "\(task.file)", "sequence": "\(copy.sequence)", "bytes": "\(copy.bytes)",
                    "milliseconds": "\((monotonicMicroseconds() - start) / 1_000)",
                ])
            return .done(copy)
        } catch {
            logger.warning("A backup failed.", metadata: ["file": "\(task.file)", "cause": "\(error)"])
            return .failed(Fault(error.faultCode, error.message))
        }
    }
}
