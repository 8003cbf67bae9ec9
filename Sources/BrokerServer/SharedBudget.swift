internal import BrokerCoordinator
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
internal import DequeModule
internal import Logging
internal import Synchronization

/// A part of a budget, held as long as this object lives.
final class BudgetShare: Sendable {
    private let budget: SharedBudget
    private let bytes: Int
    private let process: Int32

    init(of budget: SharedBudget, _ bytes: Int, _ process: Int32) {
        self.budget = budget
        self.bytes = bytes
        self.process = process
        budget.add(bytes, process)
    }

    deinit { budget.remove(bytes, process) }
}

/// Bytes that all connections together may hold of one kind, in fair shares of the processes that connected. Any thread may
/// call.
///
/// A process may hold more as long as it holds no more than is free. So one process alone gets half of the budget, two get a
/// third each, and there is always something left for the next one, whatever the others hold. (The dynamic thresholds of
/// Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998, with a factor of 1.)
///
/// It does not refuse: the caller asks ``hasRoom(_:)`` before it adds.
final class SharedBudget: Sendable {
    private struct Waiter {
        let process: Int32
        let notify: @Sendable () -> Void
    }

    private struct State {
        var held = 0
        /// Bytes by process; never 0.
        var shares: [Int32: Int] = [:]
        /// Waiters by client; each is called once, when there is room for its process.
        var waiters: [ObjectIdentifier: Waiter] = [:]

        func hasRoom(_ process: Int32, _ byteLimit: Int) -> Bool {
            held < byteLimit && shares[process, default: 0] <= byteLimit - held
        }
    }

    let byteLimit: Int
    private let state = Mutex(State())

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    var held: Int { state.withLock { $0.held } }

    /// Whether the process may hold more.
    func hasRoom(_ process: Int32) -> Bool { state.withLock { $0.hasRoom(process, byteLimit) } }

    /// Bytes that the process holds.
    func share(of process: Int32) -> Int { state.withLock { $0.shares[process, default: 0] } }

    /// Whether a client waits for room.
    var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// - Returns: the bytes held now.
    @discardableResult func add(_ bytes: Int, _ process: Int32) -> Int {
        state.withLock { state in
            guard bytes > 0 else { return state.held }
            state.held += bytes
            state.shares[process, default: 0] += bytes
            return state.held
        }
    }

    func remove(_ bytes: Int, _ process: Int32) {
        guard bytes > 0 else { return }
        let woken = state.withLock { state -> [Waiter] in
            state.held -= bytes
            let share = state.shares[process, default: 0] - bytes
            state.shares[process] = share > 0 ? share : nil
            guard !state.waiters.isEmpty else { return [] }
            let woken = state.waiters.filter { state.hasRoom($0.value.process, byteLimit) }
            for waiter in woken.keys { state.waiters[waiter] = nil }
            return Array(woken.values)
        }
        for waiter in woken { waiter.notify() }
    }

    /// Calls `notify` once when there is room for the process: at once, or on the thread that frees it. A later call for
    /// the same waiter replaces an earlier one.
    func whenRoom(for waiter: ObjectIdentifier, of process: Int32, _ notify: @escaping @Sendable () -> Void) {
        let hasRoom = state.withLock { state in
            if state.hasRoom(process, byteLimit) { return true }
            state.waiters[waiter] = Waiter(process: process, notify: notify)
            return false
        }
        if hasRoom { notify() }
    }

    func forget(_ waiter: ObjectIdentifier) { state.withLock { $0.waiters[waiter] = nil } }
}

/// Streamed fetches: the next part is made when the client has taken most of its answers.
extension Connection {
    /// While the client has that much to read, no part of a stream is made: one or two frames of ordinary objects, so
    /// that a client that reads does not wait for the next one.
    static let streamAheadBytes = 256 << 10

    /// Answers a streamed fetch, when the jobs before it have ended.
    func stream(_ fetch: PendingFetch) {
        coordinator.whenEnded(before: fetch.ticket, from: source) { [self] in
            let stream = coordinator.stream(
                fetch.request, of: peer.process, in: fetch.envelope,
                isWanted: { [weak self] in self.map { !$0.isClosed } ?? false },
                notify: { [self] stream, event in put(event, of: stream, fetch) })
            streams.withLock { $0.add(stream) }
            // A closed connection retains none.
            if isClosed { cancelStreams() } else { sendStreams() }
        }
    }

    private func put(_ event: StreamEvent, of stream: FetchStream, _ fetch: PendingFetch) {
        var hasMore = false
        switch event {
        case .objects(let objects):
            let frame = codecs.encode(objects)
            hasMore = objects.hasMore && frame != nil
            if objects.hasMore, frame == nil { stream.cancel() }
            put(frame ?? codecs.apology(about: fetch.frame), finishing: !hasMore)
        case .failed(let fault):
            noteEnd(fault)
            send(fault, about: fetch.frame)
        case .stopped: send(.stopping, about: fetch.frame)
        }
        streams.withLock { $0.came(stream.number, hasMore: hasMore) }
        sendStreams()
    }

    /// Asks for the next parts, as far as there is room for them.
    func sendStreams() {
        while bytes < Self.streamAheadBytes, streams.withLock({ $0.isReady }) {
            guard budget.hasRoom(peer.process) else { return waitForRoom() }
            streams.withLock { $0.next() }?.ask()
        }
    }

    /// The connection is closed: the read transactions of its streams end.
    func cancelStreams() {
        let streams = streams.withLock { streams in
            defer { streams = ConnectionStreams() }
            return streams.all
        }
        for stream in streams { stream.cancel() }
    }

    private func noteEnd(_ fault: Fault) {
        guard fault.code == .snapshotExpired else { return }
        onHandler { [peer] handler in
            handler.connections.log.logger.info("A stream was ended: its client was too slow.", metadata: peer.metadata)
        }
    }
}

/// A fetch that waits for its turn, or whose objects are being sent.
struct PendingFetch: Sendable {
    let request: FetchRequest
    /// The ticket of the question.
    let ticket: Int
    let frame: FrameReference
    /// Its part of the budget of all waiting fetches.
    let share: BudgetShare

    /// The message around the objects. Each message of a stream says whether others follow.
    var envelope: FetchEnvelope {
        FetchEnvelope(beginning: MessageWriter.objectsBeginning) {
            [tag = frame.tag, isStreamed = request.isStreamed] hasMore, last in
            MessageWriter.objectsEnding(more: isStreamed || hasMore ? hasMore : nil, last: last, tag: tag)
        }
    }
}

/// The streamed fetches of one connection, and which of them may be asked for its next part. A value.
///
/// One open stream at a time makes a part, so that at most one part more than the unread bytes that a client may have is
/// in memory. One stream at a time is opened: opening may wait for other streams, and an open stream must not wait with it.
struct ConnectionStreams {
    private var streams: [Int: FetchStream] = [:]
    /// Those that have not been asked, and those that wait for room, in their turns.
    private var new = Deque<Int>()
    private var waiting = Deque<Int>()
    /// The stream that was asked for its first part.
    private var opening: Int?
    /// The open stream that was asked for its next part.
    private var making: Int?

    var all: [FetchStream] { Array(streams.values) }
    var isEmpty: Bool { streams.isEmpty }

    mutating func add(_ stream: FetchStream) {
        streams[stream.number] = stream
        new.append(stream.number)
    }

    /// A part has come.
    ///
    /// - Parameter hasMore: the stream waits for room for the next one.
    mutating func came(_ number: Int, hasMore: Bool) {
        if opening == number { opening = nil }
        if making == number { making = nil }
        if hasMore { waiting.append(number) } else { streams[number] = nil }
    }

    /// The stream to ask when there is room; nil when none may be asked now.
    mutating func next() -> FetchStream? {
        if making == nil, let number = waiting.popFirst() {
            making = number
            return streams[number]
        }
        if opening == nil, let number = new.popFirst() {
            opening = number
            return streams[number]
        }
        return nil
    }

    /// Whether ``next()`` returns a stream.
    var isReady: Bool { making == nil && !waiting.isEmpty || opening == nil && !new.isEmpty }
}
