package import BrokerModel
internal import BrokerStaging
package import BrokerStore

package enum FetchEnd: Sendable {
    case found(FetchedObjects)
    case failed(Fault)
    /// The fetch is long, and the client has no room for a long answer now.
    case postponed
    /// The client ended the fetch.
    case stopped
}

struct FetchTask: Sendable {
    let request: FetchRequest
    /// The client, and its user; users take turns, and so do the sources of each.
    let source: Int
    let user: UInt32
    /// The text around the objects.
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
/// In both queues users take turns (``FetchQueue``); and no fetch of a source that has several long ones is tried briefly until
/// they have ended. So a brief fetch waits for brief attempts alone, one of each other user and of each other source of its own.
final class ReaderPool: Sendable {
    /// A reader, used by the one task that has taken it.
    private struct Idle: @unchecked Sendable {
        // It goes from thread to thread, but through the lock, and only one thread has it at a time.
        let reader: StoreReader
    }

    static let isOutdated = Fault(
        .busy, "The model was changed while this request waited. Send it again.")

    private static let longFetches = 1

    private let pool = WorkerPool(longTasks: longFetches, named: "reader")
    private let idle = Monitor<[Idle]>([])
    private let long = Monitor(LongFetches())
    private let briefQueue = Monitor(FetchQueue<FetchTask>())
    private let longQueue = Monitor(FetchQueue<FetchTask>())
    /// The server stops: only brief fetches that run are still answered.
    private let isStopping = Monitor(false)
    /// The writer's.
    private let failure = Monitor<StoreError?>(nil)
    private let files: OpenedFiles
    private let plan: Monitor<StagingPlan>
    private let gate: ReaderGate
    /// Makes the parts of streams.
    let streams: StreamThread
    /// Reads for the followers of the feed.
    let feed: FeedThread

    /// - Parameters:
    ///   - files: those of the store that the writer has opened.
    ///   - gate: the writer's.
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
        self.plan = Monitor(plan)
        // Files that were moved can still be read over it.
        pool.run(.opening, .brief, from: 0) { [weak self] in self?.openReader(plan) }
    }

    private func openReader(_ plan: StagingPlan) {
        guard let reader = try? StoreReader(files, plan: plan) else { return }
        let idle = Idle(reader: reader)
        self.idle.withLock { $0.append(idle) }
    }

    /// From now on fetches use another model; those that run end with the old one.
    func use(_ plan: StagingPlan) {
        self.plan.withLock { $0 = plan }
        idle.withLock { $0 = [] }
        streams.use(plan)
        feed.use(plan)
    }

    func fetch(_ task: FetchTask) {
        let isTried = long.withLock { long in
            let isTried = long.triesBriefly(task.source)
            if !isTried { long.began(from: task.source) }
            return isTried
        }
        guard isTried else { return fetchLong(task) }
        briefQueue.withLock { $0.append(task, from: task.source, of: task.user) }
        pool.run(.opening, .brief, from: Int(task.user)) { [self, user = task.user] in
            guard let task = briefQueue.withLock({ $0.next(of: user) }) else { return }
            guard let end = attempt(task, .brief) else {
                long.withLock { $0.began(from: task.source) }
                return fetchLong(task)
            }
            task.notify(end)
        }
    }

    /// The fetch has been counted as a long one.
    private func fetchLong(_ task: FetchTask) {
        longQueue.withLock { $0.append(task, from: task.source, of: task.user) }
        pool.run(.staging, .long, from: Int(task.user)) { [self, user = task.user] in
            guard let task = longQueue.withLock({ $0.next(of: user) }) else { return }
            let end = task.mayBeLong() ? attempt(task, .long) ?? .failed(.tooMuchWork) : .postponed
            long.withLock { $0.ended(from: task.source) }
            task.notify(end)
        }
    }

    /// - Returns: nil when it is longer than the limits allow.
    private func attempt(_ task: FetchTask, _ limits: FetchLimits) -> FetchEnd? {
        guard task.isWanted() else { return .stopped }
        if isStopping.withLock({ $0 }) { return .failed(.stopping) }
        if let error = failure.withLock({ $0 }) { return .failed(Fault(error)) }
        let plan = plan.withLock { $0 }
        guard task.request.plan == nil || task.request.plan === plan else { return .failed(Self.isOutdated) }
        var hasExpired = false
        do throws(FetchFailure) {
            let reader = try takeReader(plan)
            let found = gate.read(limits.isBrief ? .brief : .long) { [isStopping, gate] snapshot in
                let found = Result { () throws(FetchFailure) in
                    try reader.fetch(task.request, limits: limits, in: task.envelope) {
                        task.isWanted()
                            && (limits.isBrief || !isStopping.withLock { $0 } && !gate.hasExpired(snapshot))
                    }
                }
                hasExpired = gate.hasExpired(snapshot)
                return found
            }
            if case .failure(.store) = found {
                // A fault of the connection may end with it.
            } else {
                let idle = Idle(reader: reader)
                self.idle.withLock { $0.append(idle) }
            }
            return .found(try found.get())
        } catch {
            switch error {
            case .fault(let fault): return .failed(fault)
            case .store(let error): return .failed(Fault(error))
            case .stopped where isStopping.withLock { $0 }: return .failed(.stopping)
            case .stopped: return hasExpired ? .failed(.snapshotOutgrown) : .stopped
            case .tooLong: return nil
            }
        }
    }

    private func takeReader(_ plan: StagingPlan) throws(FetchFailure) -> StoreReader {
        while let idle = idle.withLock({ $0.popLast() }) {
            if idle.reader.plan === plan { return idle.reader }
        }
        do throws(StoreError) {
            return try StoreReader(files, plan: plan)
        } catch {
            throw .store(error)
        }
    }

    /// The contents of the store are unknown: a later fetch would be a guess.
    func fail(_ error: StoreError) {
        failure.withLock { $0 = error }
        streams.fail(error)
        feed.fail(error)
    }

    /// Ends the long fetches and the streams, and answers no more. Any number of calls.
    func interrupt() {
        isStopping.withLock { $0 = true }
        streams.interrupt()
    }

    /// Interrupts the running fetches, and ends the threads and connections. Called once.
    func stop() {
        interrupt()
        gate.stop()
        streams.stop()
        feed.stop()
        pool.stop()
        idle.withLock { $0 = [] }
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

/// Fetches that wait for a thread. Users take turns, and so do the connections of each, so that more connections give no user
/// more turns. A pure value.
struct FetchQueue<Task> {
    private var users: [UInt32: TurnQueue<Task>] = [:]

    mutating func append(_ task: Task, from source: Int, of user: UInt32) {
        users[user, default: TurnQueue()].append(task, from: source)
    }

    /// The next fetch of a user whose turn has come; nil when none waits.
    mutating func next(of user: UInt32) -> Task? {
        defer { if users[user]?.count == 0 { users[user] = nil } }
        return users[user]?.popFirst()
    }
}

/// The sources that have so many long fetches that their next one is not tried briefly. A pure value.
struct LongFetches {
    /// The number that one source may have and still be answered quickly: a client that shows a long list and looks up
    /// single objects at the same time.
    static let besideBrief = 4

    /// The long fetches of each source that wait or run; never 0.
    private var counts: [Int: Int] = [:]

    /// Whether the source's next fetch is tried briefly. If not, it counts as a long one at once.
    func triesBriefly(_ source: Int) -> Bool { counts[source, default: 0] < Self.besideBrief }

    /// A fetch turned out to be long, or was not tried briefly.
    mutating func began(from source: Int) { counts[source, default: 0] += 1 }

    /// A long fetch has ended.
    mutating func ended(from source: Int) {
        let rest = counts[source, default: 1] - 1
        counts[source] = rest > 0 ? rest : nil
    }

    /// Whether no long fetch waits or runs.
    var isEmpty: Bool { counts.isEmpty }
}
