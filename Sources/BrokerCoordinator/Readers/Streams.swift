internal import BrokerJournal
package import BrokerModel
internal import BrokerStaging
package import BrokerStore
internal import DequeModule

/// The loop of the thread that makes the parts of streams. Only it touches the connections of the streams, each of which
/// has a read transaction open between its parts.
struct StreamLoop {
    private enum Work {
        case step(StreamTable.Step, FetchStream?)
        case outgrown(Int)
        case stop([FetchStream])
        case end
    }

    fileprivate struct OpenStream {
        let objects: ObjectStream
        let reader: StoreReader
        let snapshot: ReaderGate.Snapshot
    }

    /// How often the thread looks whether a client is too slow, or the WAL too long, in microseconds.
    private static let lookMicroseconds: Int64 = 100_000

    fileprivate let state: Monitor<StreamThread.State>
    fileprivate let gate: ReaderGate
    fileprivate let files: OpenedFiles
    fileprivate var open: [Int: OpenStream] = [:]
    /// Used for the next stream. Files that were moved can still be read over it.
    fileprivate var spare: StoreReader?

    mutating func run() {
        while true {
            switch nextWork() {
            case .step(.make(let number), let stream?): make(number, stream)
            // It was cancelled meanwhile.
            case .step(.make(let number), nil): ended(number)
            case .step(.expire(let number), let stream):
                ended(number)
                stream?.report(.failed(.snapshotExpired))
            case .step(.close(let number), _): ended(number)
            case .outgrown(let number):
                let stream = state.withLock { $0.streams[number] }
                ended(number)
                stream?.report(.failed(.snapshotOutgrown))
            case .stop(let streams):
                for stream in streams {
                    ended(stream.number)
                    stream.report(.stopped)
                }
            case .end:
                for number in Array(open.keys) { ended(number) }
                return
            }
        }
    }

    private func nextWork() -> Work {
        let look = { (state: inout StreamThread.State) -> Work? in
            guard !state.isStopping else {
                if !state.streams.isEmpty { return .stop(Array(state.streams.values)) }
                return state.isStopped ? .end : nil
            }
            guard let step = state.table.next(at: monotonicMicroseconds()) else { return nil }
            return .step(step, state.streams[step.number])
        }
        while true {
            if let old = open.first(where: { gate.hasExpired($0.value.snapshot) }) { return .outgrown(old.key) }
            // Only this thread makes parts, so no stream begins to wait for its client meanwhile.
            guard state.withLock({ $0.table.isTimed }) else { return state.wait(look) }
            let deadline = monotonicMicroseconds() + Self.lookMicroseconds
            if let work = state.wait(until: deadline, look) { return work }
        }
    }

    private mutating func make(_ number: Int, _ stream: FetchStream) {
        do throws(FetchFailure) {
            if open[number] == nil { open[number] = try begin(stream) }
            guard let source = open[number] else { return state.withLock { $0.table.postpone(number) } }
            let objects = try source.objects.next()
            if objects.hasMore {
                state.withLock { $0.table.made(number, at: monotonicMicroseconds()) }
            } else {
                ended(number)
            }
            stream.report(.objects(objects))
        } catch {
            ended(number)
            switch error {
            case .fault(let fault): stream.report(.failed(fault))
            case .store(let error):
                // A fault of the connection may end with it.
                spare = nil
                stream.report(.failed(Fault(error)))
            case .tooLong: stream.report(.failed(.tooMuchWork))
            case .stopped where stream.isWanted: stream.report(.failed(.snapshotOutgrown))
            case .stopped: stream.report(.stopped)
            }
        }
    }

    /// - Returns: nil when the writer waits for the other streams to end.
    private mutating func begin(_ stream: FetchStream) throws(FetchFailure) -> OpenStream? {
        let (plan, failure) = state.withLock { ($0.plan, $0.failure) }
        if let failure { throw .store(failure) }
        guard stream.task.request.plan == nil || stream.task.request.plan === plan else {
            throw .fault(ReaderPool.isOutdated)
        }
        guard stream.isWanted else { throw .stopped }
        let reader: StoreReader
        do throws(StoreError) {
            reader = try spare?.plan === plan ? spare! : makeReader(plan)
        } catch {
            throw .store(error)
        }
        spare = reader
        guard let snapshot = gate.beginStream() else { return nil }
        spare = nil
        let objects = ObjectStream(stream.task.request, on: reader, in: stream.task.envelope) { [gate] in
            stream.isWanted && !gate.hasExpired(snapshot)
        }
        return OpenStream(objects: objects, reader: reader, snapshot: snapshot)
    }

    private func makeReader(_ plan: StagingPlan) throws(StoreError) -> StoreReader {
        try StoreReader(files, plan: plan, cacheBytes: StoreReader.streamCacheBytes)
    }

    private mutating func ended(_ number: Int) {
        if let source = open.removeValue(forKey: number) {
            source.objects.end()
            spare = source.reader
            gate.endStream()
        }
        state.withLock { state in
            state.streams[number] = nil
            state.table.ended(number)
        }
    }
}

extension StreamTable.Step {
    fileprivate var number: Int {
        switch self {
        case .make(let number), .expire(let number), .close(let number): number
        }
    }
}

extension Fault {
    fileprivate static let snapshotExpired = Fault(
        .snapshotExpired,
        "The client took the objects of this stream so slowly that the server ended its read transaction, which others "
            + "waited for or which was not used. Fetch again, or continue in a new transaction: `after` with the "
            + "`last` of the newest frame.")
}

/// Opens streamed fetches, makes their parts one at a time, and ends those whose clients are too slow, on a thread of its
/// own. ``StreamTable`` decides which, ``StreamLoop`` does it.
final class StreamThread: Sendable {
    struct State {
        var table: StreamTable
        /// Those that are queued or open.
        var streams: [Int: FetchStream] = [:]
        var plan: StagingPlan
        /// The contents of the store are unknown.
        var failure: StoreError?
        var isStopping = false
        var isStopped = false
        var lastNumber = 0
    }

    private let state: Monitor<State>
    private let thread: Thread

    init(_ files: OpenedFiles, plan: StagingPlan, gate: ReaderGate, _ limits: StreamLimits) {
        let state = Monitor(State(table: StreamTable(limits), plan: plan))
        self.state = state
        gate.onWriterWaiting { waits in
            state.update { $0.table.writer(waits: waits) }
        }
        thread = Thread(named: "streams") {
            var loop = StreamLoop(state: state, gate: gate, files: files)
            loop.run()
        }
    }

    /// Streams that are opened from now on use another model.
    func use(_ plan: StagingPlan) { state.withLock { $0.plan = plan } }

    func fail(_ error: StoreError) { state.withLock { $0.failure = error } }

    func stream(_ task: StreamTask) -> FetchStream {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return FetchStream(number, task, on: self)
    }

    fileprivate var isStopping: Bool { state.withLock { $0.isStopping } }

    func ask(_ stream: FetchStream) {
        state.update { state in
            state.streams[stream.number] = stream
            state.table.ask(stream.number, of: stream.task.process, at: monotonicMicroseconds())
        }
    }

    func cancel(_ stream: FetchStream) {
        state.update { state in
            state.streams[stream.number] = nil
            state.table.cancel(stream.number)
        }
    }

    /// Ends all streams, and each new one. Any number of calls.
    func interrupt() { state.update { $0.isStopping = true } }

    func stop() {
        state.update {
            $0.isStopping = true
            $0.isStopped = true
        }
        thread.join()
    }
}

/// An event of a streamed fetch. The last is one that is not `objects` with more.
package enum StreamEvent: Sendable {
    /// The next part. Parts follow while it has more, each after another ``FetchStream/ask()``.
    case objects(FetchedObjects)
    case failed(Fault)
    case stopped
}

struct StreamTask: Sendable {
    let request: FetchRequest
    /// The client's; processes share the places for open streams.
    let process: Int32
    /// The text around the objects of each part.
    let envelope: FetchEnvelope
    let isWanted: @Sendable () -> Bool
    let notify: @Sendable (FetchStream, StreamEvent) -> Void
}

/// A fetch whose objects come in parts, all of one read transaction. Any thread may call.
///
/// The transaction begins when the first part is made, and ends with the last event or with ``cancel()``.
package final class FetchStream: Sendable {
    package let number: Int
    let task: StreamTask
    private let thread: StreamThread

    init(_ number: Int, _ task: StreamTask, on thread: StreamThread) {
        self.number = number
        self.task = task
        self.thread = thread
    }

    var isWanted: Bool { task.isWanted() && !thread.isStopping }

    /// The client has room for the next part. Called once for each.
    package func ask() { thread.ask(self) }

    /// Ends the stream. A part that is being made is still sent; no other event follows.
    package func cancel() { thread.cancel(self) }

    func report(_ event: StreamEvent) { task.notify(self, event) }
}

/// Which streamed fetches are open, which makes its next part, and which have to end. A pure value: it reads no clock
/// and runs nothing.
///
/// ```
/// ask ─▶ queued ─a place is free─▶ making ─▶ waiting ─ask─▶ asked ─in turn─▶ making …
///                                               └─the client is too slow─▶ end
/// ```
///
/// - A stream is queued when its client has room for the first part, so no place is held for a client that does not
///   read.
/// - A process may hold another place while it holds no more than are free, as in the server's shared budgets: there
///   is always a place for the next process. The process with the fewest comes first; of several, they take turns.
/// - No stream is opened while the writer waits for the open ones to end.
struct StreamTable {
    enum Step: Equatable {
        /// Make the next part; the first time, open the stream. ``made(_:at:)``, ``ended(_:)`` or ``postpone(_:)`` follows.
        case make(Int)
        case expire(Int)
        case close(Int)
    }

    enum Phase: Equatable {
        case making
        /// For the client to take the last part.
        case waiting(since: Int64)
        case asked
    }

    struct OpenStream {
        let process: Int32
        var phase = Phase.making
        var isCancelled = false
        var waited: Int64 = 0

        func waited(at now: Int64) -> Int64 {
            if case .waiting(let since) = phase { waited + now - since } else { waited }
        }
    }

    let limits: StreamLimits
    /// At most ``StreamLimits/open``.
    private(set) var open: [Int: OpenStream] = [:]
    /// Streams to be opened, of each process in the order in which they were asked. The process that opened one last is
    /// the last.
    private(set) var queue: [(process: Int32, numbers: Deque<Int>)] = []
    private(set) var asked = Deque<Int>()
    private var writerWaits = false

    init(_ limits: StreamLimits) { self.limits = limits }

    /// A stream waits for its client, so a step may become due without an event.
    var isTimed: Bool { open.values.contains { if case .waiting = $0.phase { true } else { false } } }

    // MARK: - Events

    /// The client of a new stream, or of one that waits for it, has room for the next part.
    mutating func ask(_ number: Int, of process: Int32, at now: Int64) {
        guard var stream = open[number] else { return enqueue(number, process) }
        guard case .waiting = stream.phase else { return }
        stream.waited = stream.waited(at: now)
        stream.phase = .asked
        open[number] = stream
        asked.append(number)
    }

    mutating func cancel(_ number: Int) {
        guard open[number] == nil else {
            open[number]?.isCancelled = true
            return
        }
        guard let turn = queue.firstIndex(where: { $0.numbers.contains(number) }) else { return }
        queue[turn].numbers.removeAll { $0 == number }
        if queue[turn].numbers.isEmpty { queue.remove(at: turn) }
    }

    /// A part was made, and others follow.
    mutating func made(_ number: Int, at now: Int64) { open[number]?.phase = .waiting(since: now) }

    /// The last part was made, or making one failed. Ignored if the stream has ended before.
    mutating func ended(_ number: Int) {
        if open.removeValue(forKey: number)?.phase == .asked { asked.removeAll { $0 == number } }
    }

    /// The stream could not be opened, because the writer waits: it comes first when the writer has copied.
    mutating func postpone(_ number: Int) {
        guard let stream = open.removeValue(forKey: number), !stream.isCancelled else { return }
        let turn = queue.firstIndex { $0.process == stream.process }
        let numbers = turn.map { queue.remove(at: $0).numbers } ?? []
        queue.insert((stream.process, [number] + numbers), at: 0)
    }

    /// The writer waits for the open streams to end, or has copied the WAL.
    mutating func writer(waits: Bool) { writerWaits = waits }

    // MARK: - Steps

    mutating func next(at now: Int64) -> Step? {
        if let number = open.first(where: { $0.value.isCancelled && $0.value.phase != .making })?.key {
            ended(number)
            return .close(number)
        }
        if let number = open.first(where: { isTooSlow($0.value, at: now) })?.key {
            ended(number)
            return .expire(number)
        }
        if let number = asked.popFirst() {
            open[number]?.phase = .making
            return .make(number)
        }
        return openNext().map(Step.make)
    }

    private func isTooSlow(_ stream: OpenStream, at now: Int64) -> Bool {
        guard case .waiting(let since) = stream.phase else { return false }
        let isAwaited = writerWaits || !queue.isEmpty
        return now - since >= limits.frameWait || isAwaited && stream.waited(at: now) >= limits.wait
    }

    private mutating func openNext() -> Int? {
        guard !writerWaits, open.count < limits.open else { return nil }
        var held: [Int32: Int] = [:]
        for stream in open.values { held[stream.process, default: 0] += 1 }
        let fewest = queue.indices.min { held[queue[$0].process, default: 0] < held[queue[$1].process, default: 0] }
        guard let turn = fewest, held[queue[turn].process, default: 0] <= limits.open - open.count else { return nil }
        var (process, numbers) = queue.remove(at: turn)
        let number = numbers.removeFirst()
        if !numbers.isEmpty { queue.append((process, numbers)) }
        open[number] = OpenStream(process: process)
        return number
    }

    private mutating func enqueue(_ number: Int, _ process: Int32) {
        if let turn = queue.firstIndex(where: { $0.process == process }) {
            queue[turn].numbers.append(number)
        } else {
            queue.append((process, [number]))
        }
    }
}
