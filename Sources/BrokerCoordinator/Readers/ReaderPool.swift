internal import BrokerJournal
package import BrokerModel
internal import BrokerStaging
package import BrokerStore

package enum FetchEnd: Sendable {
    case found(FetchedObjects)
    case failed(Fault)
    /// The fetch is long, and the client has no room for a long answer now.
    case postponed
    case stopped
}

struct FetchTask: Sendable {
    let request: FetchRequest
    /// The client, and its user; users take turns, and so do the sources of each.
    let source: Int
    let user: UInt32
    let envelope: FetchEnvelope
    /// Whether the client is still there. Called on the reader's thread, now and then.
    let isWanted: @Sendable () -> Bool
    /// Whether there is room for a long answer. Called once the fetch turns out to be long.
    let mayBeLong: @Sendable () -> Bool
    /// Called once, on a reader's thread.
    let notify: @Sendable (FetchEnd) -> Void
}

/// Threads with connections of their own that answer fetches beside the writer.
///
/// Every fetch is first tried briefly. A fetch that turns out to be long is begun again among the long ones, of which
/// one runs at a time: so a thread is always free soon for brief ones, and the memory of one long answer is taken once.
/// In both queues users take turns (``TurnQueue``). So a brief fetch waits for brief attempts alone, one of each other user and of each
/// other source of its own.
final class ReaderPool: Sendable {
    // Unchecked: the reader goes from thread to thread, but through the lock, and only one thread has it at a time.
    private struct Idle: @unchecked Sendable {
        let reader: StoreReader
    }

    private struct State {
        var plan: StagingPlan
        var idle: [Idle] = []
        /// The contents of the store are unknown: a fetch would be a guess.
        var failure: StoreError?
        /// The server stops: only brief fetches that run are still answered.
        var isStopping = false
    }

    static let isOutdated = Fault(
        .busy, "The model was changed while this request waited. Send it again.")

    private static let longFetches = 1

    private let pool = WorkerPool(longTasks: longFetches, named: "reader")
    private let state: Monitor<State>
    private let files: OpenedFiles
    private let gate: ReaderGate
    let streams: StreamThread
    let feed: FeedThread

    /// - Parameters:
    ///   - files: those of the store that the writer has opened.
    ///   - onCommit: called by the writer after each transaction.
    init(
        _ files: OpenedFiles, plan: StagingPlan, gate: ReaderGate = ReaderGate(),
        streams: StreamLimits = StreamLimits(),
        onCommit: Callback<Void> = Callback()
    ) {
        self.files = files
        feed = FeedThread(files, plan: plan, gate: gate, onCommit)
        self.streams = StreamThread(files, plan: plan, gate: gate, streams)
        self.gate = gate
        state = Monitor(State(plan: plan))
        // Files that were moved can still be read over it.
        pool.run(.opening, .brief, from: 0) { [weak self] in self?.openReader(plan) }
    }

    private func openReader(_ plan: StagingPlan) {
        if let reader = try? StoreReader(files, plan: plan) { keep(reader) }
    }

    private func keep(_ reader: StoreReader) {
        let idle = Idle(reader: reader)
        state.withLock { $0.idle.append(idle) }
    }

    /// From now on fetches use another model; those that run end with the old one.
    func use(_ plan: StagingPlan) {
        state.withLock { ($0.plan, $0.idle) = (plan, []) }
        streams.use(plan)
        feed.use(plan)
    }

    func fetch(_ task: FetchTask) {
        pool.run(.opening, .brief, from: task.source, of: task.user) { [self] in
            if let end = attempt(task, .brief) { return task.notify(end) }
            pool.run(.staging, .long, from: task.source, of: task.user) { [self] in
                task.notify(task.mayBeLong() ? attempt(task, .long) ?? .failed(.tooMuchWork) : .postponed)
            }
        }
    }

    /// - Returns: nil when it is longer than the limits allow.
    private func attempt(_ task: FetchTask, _ limits: FetchLimits) -> FetchEnd? {
        guard task.isWanted() else { return .stopped }
        let (plan, failure, isStopping) = state.withLock { ($0.plan, $0.failure, $0.isStopping) }
        if isStopping { return .failed(.stopping) }
        if let failure { return .failed(Fault(failure)) }
        guard task.request.plan == nil || task.request.plan === plan else { return .failed(Self.isOutdated) }
        var hasExpired = false
        do throws(FetchFailure) {
            let reader = try takeReader(plan)
            let found = gate.read(limits.isBrief ? .brief : .long) { [state, gate] snapshot in
                let found = Result { () throws(FetchFailure) in
                    try reader.fetch(task.request, limits: limits, in: task.envelope) {
                        task.isWanted()
                            && (limits.isBrief || !state.withLock { $0.isStopping } && !gate.hasExpired(snapshot))
                    }
                }
                hasExpired = gate.hasExpired(snapshot)
                return found
            }
            if case .failure(.store) = found {
                // A fault of the connection may end with it.
            } else {
                keep(reader)
            }
            return .found(try found.get())
        } catch {
            switch error {
            case .fault(let fault): return .failed(fault)
            case .store(let error): return .failed(Fault(error))
            case .stopped where state.withLock { $0.isStopping }: return .failed(.stopping)
            case .stopped: return hasExpired ? .failed(.snapshotOutgrown) : .stopped
            case .tooLong: return nil
            }
        }
    }

    private func takeReader(_ plan: StagingPlan) throws(FetchFailure) -> StoreReader {
        while let idle = state.withLock({ $0.idle.popLast() }) {
            if idle.reader.plan === plan { return idle.reader }
        }
        do throws(StoreError) {
            return try StoreReader(files, plan: plan)
        } catch {
            throw .store(error)
        }
    }

    func fail(_ error: StoreError) {
        state.withLock { $0.failure = error }
        streams.fail(error)
        feed.fail(error)
    }

    /// Ends the long fetches and the streams, and answers no more. Any number of calls.
    func interrupt() {
        state.withLock { $0.isStopping = true }
        streams.interrupt()
    }

    /// Interrupts the running fetches, and ends the threads and connections. Called once.
    func stop() {
        interrupt()
        gate.stop()
        streams.stop()
        feed.stop()
        pool.stop()
        state.withLock { $0.idle = [] }
    }
}

extension Fault {
    static let tooMuchWork = Fault(
        .busy,
        "This fetch makes the server do more work than one fetch may, while others wait. Compare fewer or shorter values, "
            + "follow fewer links, sort fewer objects, or select part of the objects at a time.", path: "/where")

    package static let stopping = Fault(
        .draining, "The server is stopping, and has ended this fetch. Send it again when the server is back.")

    /// See ``StreamLimits/snapshotBytes``.
    static let snapshotOutgrown = Fault(
        .snapshotExpired,
        "Jobs have written so much since this fetch began to read one state of the store that the server ended it: the store's "
            + "WAL grew too long. Fetch again, and less at a time. After frames of a stream, continue in a new transaction: "
            + "`after` with the `last` of the newest one.")
}

/// Looks up ended jobs on a thread and a connection of its own, so that the writer is not delayed.
final class LedgerThread: Sendable {
    /// The reader, opened at the first use; touched on the thread alone.
    private final class Opened: @unchecked Sendable {
        // Only tasks of the one serial thread touch it.
        var reader: LedgerReader?
        var index: JobIndex

        init(_ index: JobIndex) { self.index = index }
    }

    private let thread = SerialThread(named: "ledger")
    private let opened: Opened
    private let files: OpenedFiles

    /// - Parameter files: those of the store that the writer has opened.
    init(_ files: OpenedFiles, _ index: JobIndex) {
        self.files = files
        opened = Opened(index)
    }

    func find(
        _ id: String, as asker: JobOwner, _ notify: @escaping @Sendable (Result<JobCompletion?, StoreError>) -> Void
    ) {
        read(
            { reader throws(StoreError) in
                try reader.outcome(ofJob: id).flatMap {
                    asker.maySee(jobOf: $0.owner)
                        ? JobCompletion(stored: $0, id: id, isDuplicate: false, timing: nil) : nil
                }
            }, notify)
    }

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (LedgerReader) throws(StoreError) -> Value,
        _ notify: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) {
        thread.run { [opened, files] in
            notify(
                Result { () throws(StoreError) in
                    if let reader = opened.reader { return try body(reader) }
                    let reader = try LedgerReader(files, opened.index)
                    opened.reader = reader
                    return try body(reader)
                })
        }
    }

    /// The writer has opened the store again, and finds lines by another index.
    func use(_ index: JobIndex) {
        thread.run { [opened] in
            opened.index = index
            opened.reader = nil
        }
    }

    func stop() {
        thread.run { [opened] in opened.reader = nil }
        thread.stop()
    }
}
