internal import BrokerJournal
package import BrokerModel
package import BrokerStore
internal import Logging

/// Lets the writer copy the WAL while none of the server's own readers has a snapshot open.
///
/// SQLite restarts the WAL only when no reader uses any part of it (sqlite.org/wal.html, section 2.2). Readers that
/// overlap without a gap would make it grow for ever. So when copying the WAL is due and it was not restarted, the
/// writer closes the gate for a moment: new reads wait, brief ones end within milliseconds, and the WAL is copied
/// whole. Readers that begin after that use the database alone, until the next transaction restarts the WAL.
///
/// The writer does not wait for a long read or a stream. It tries again when those have ended, and no other stream begins
/// before, and no other long read once the streams have ended: while one is open, a long read holds no more of the WAL.
/// Each ends when the WAL has grown by ``StreamLimits/snapshotBytes`` since it began, so that the WAL stays short whatever clients read.
final class ReaderGate: Sendable {
    enum Kind { case brief, long }

    /// A reader of the server's that may hold much of the WAL.
    enum LongReader: Equatable { case fetch, backup }

    struct Snapshot: Equatable {
        /// Bytes of the WAL when it began.
        fileprivate let walBytes: Int
    }

    private struct State {
        var brief = 0
        var long = 0
        var streams = 0
        /// A backup reads. Nothing waits for it: it may last for hours.
        var isBackingUp = false
        /// The writer waits for the brief reads to end, or copies.
        var isClosed = false
        /// A long read or a stream delayed the writer; the next one waits until the writer has copied.
        var isWriterNext = false
        /// Bytes of the WAL when long reads last delayed the writer; 0 when none has since it was copied.
        var walBytes = 0
        var isStopped = false

        /// The writer may copy now, for which it waits.
        var isWriterDue: Bool { long == 0 && streams == 0 && isWriterNext && !isStopped }
    }

    /// How long the writer waits for brief reads, in microseconds: more than they take by their limits.
    private static let patience: Int64 = 100_000

    private let snapshotBytes: Int
    private let state = Monitor(State())
    private let whenLongEnded = Callback<Void>()
    private let whenWriterWaits = Callback<Bool>()

    init(snapshotBytes: Int = StreamLimits().snapshotBytes) { self.snapshotBytes = snapshotBytes }

    /// `notify` is called when the long reads that delayed the writer have ended. The writer then calls ``whileIdle(walBytes:_:)``.
    func onLongEnd(_ notify: @escaping @Sendable () -> Void) { whenLongEnded.set(notify) }

    /// `notify` is called on the writer's thread, with true when streams delay the writer, which may be repeated, and with false
    /// when it has copied.
    func onWriterWaiting(_ notify: @escaping @Sendable (Bool) -> Void) { whenWriterWaits.set(notify) }

    /// A read is active that began before the gate was closed.
    var isReading: Bool { state.withLock { $0.brief + $0.long > 0 } }

    /// The server's own reader that the WAL grows for: a long read or an open stream, or else a backup.
    var longReader: LongReader? {
        state.withLock { $0.long + $0.streams > 0 ? .fetch : $0.isBackingUp ? .backup : nil }
    }

    /// Runs a backup, which neither waits for the writer nor delays it.
    func backUp<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        state.withLock { $0.isBackingUp = true }
        defer { state.withLock { $0.isBackingUp = false } }
        return try body()
    }

    /// Whether the WAL has grown so much that the snapshot must end.
    func hasExpired(_ snapshot: Snapshot) -> Bool {
        state.withLock { $0.walBytes - snapshot.walBytes >= snapshotBytes }
    }

    func read<Result, Failure>(
        _ kind: Kind, _ body: (Snapshot) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let snapshot = state.wait { state -> Snapshot? in
            let mustWait = state.isClosed || kind == .long && state.isWriterNext && state.streams == 0
            guard state.isStopped || !mustWait else { return nil }
            switch kind {
            case .brief: state.brief += 1
            case .long: state.long += 1
            }
            return Snapshot(walBytes: state.walBytes)
        }
        defer { end(kind) }
        return try body(snapshot)
    }

    private func end(_ kind: Kind) {
        var wakesWriter = false
        state.update { state in
            switch kind {
            case .brief: state.brief -= 1
            case .long: state.long -= 1
            }
            wakesWriter = kind == .long && state.isWriterDue
        }
        if wakesWriter { whenLongEnded() }
    }

    /// Opens a stream: a read that lasts until ``endStream()``. Waits while the writer copies. Nil when the writer waits for other
    /// streams to end.
    func beginStream() -> Snapshot? {
        state.wait { state -> Snapshot?? in
            guard state.isStopped || !state.isClosed else { return nil }
            guard state.isStopped || !state.isWriterNext else { return .some(nil) }
            state.streams += 1
            return Snapshot(walBytes: state.walBytes)
        }
    }

    func endStream() {
        var wakesWriter = false
        state.broadcast { state in
            state.streams -= 1
            wakesWriter = state.isWriterDue
            return state.streams == 0
        }
        if wakesWriter { whenLongEnded() }
    }

    /// Runs the writer's work while no read is active; runs it in any case. The work copies a WAL of that many bytes.
    @discardableResult func whileIdle(walBytes: Int = 0, _ work: () -> Void) -> Bool {
        let isLongActive = state.withLock { state in
            let isLongActive = state.long + state.streams > 0
            state.isWriterNext = isLongActive
            state.isClosed = !isLongActive
            state.walBytes = isLongActive ? walBytes : 0
            return isLongActive
        }
        guard !isLongActive else {
            whenWriterWaits(true)
            work()
            return false
        }
        let isIdle = state.wait(until: monotonicMicroseconds() + Self.patience) { $0.brief == 0 ? true : nil } ?? false
        work()
        state.update {
            $0.isClosed = false
            $0.isWriterNext = false
        }
        whenWriterWaits(false)
        return isIdle
    }

    func stop() {
        state.update { $0.isStopped = true }
    }
}

package enum BackupEnd: Sendable {
    case done(StoreBackup.Copy)
    case failed(Fault)
    case stopped
}

struct BackupTask: Sendable {
    let backup: StoreBackup
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

    /// Returns why it is refused; nil when it is begun.
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
            return .failed(Fault(error))
        }
    }
}
