internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStore
internal import BrokerWire
internal import DequeModule
internal import NIOCore
internal import Synchronization

/// One client, as seen by the threads that answer it: a destination for frames. Any thread may call.
///
/// ```
/// send ───────────────────────────▶ frames ──event loop──▶ kernel
/// answer ──small, or there is room────▲
///    └──────large─▶ waiting ──room, from the ledger
/// ```
///
/// Invariants:
/// 1. Answers to jobs leave in the order of ``answer(_:tag:isBrief:)``; other messages in the order of sending.
/// 2. A large answer is held in memory only while the client has little else unread and there is room in the budget of
///    all. Otherwise only its position is retained, and it is read from the ledger when its turn has come. So a client
///    that reads slowly gets everything, and one that does not read costs next to nothing. Objects (`reply: objects`)
///    and dry runs are not in the ledger: more of them are held, and above that bound they are omitted or shortened,
///    with a warning.
/// 3. The connection retains neither its handler nor the client's messages; a closed one retains nothing.
final class Connection: Sendable {
    /// Bytes of short frames that are gathered, at most.
    static let pieceBytes = 32 << 10
    /// Bytes of an answer that are not worth a second look into the ledger.
    static let smallAnswerBytes = 4 << 10
    /// Bytes of a fetch's answer that are not worth a second fetch.
    static let smallFetchBytes = 64 << 10
    /// While the client has that much to read, large answers wait, and the server does not read from it.
    static let readAheadBytes = 1 << 20
    /// While the client has that much to read, it gets no objects of jobs: a whole frame less than the bound at which
    /// it is cut off.
    static let objectsAheadBytes = 16 << 20
    /// When the answers of all clients together exceed this, the client with the most is cut off.
    static let cutOffBytesOfAll = 48 << 20

    let peer: PeerCredentials
    private let currentRole: Mutex<ClientRole>
    let activity = ClientActivity()
    private let eventLoop: any EventLoop
    private let handler: NIOLoopBoundBox<FrameHandler?>
    let coordinator: Coordinator
    let codecs: FrameCodecs
    let budget: SharedBudget
    private let cutOffBytes: Int
    private let outbox = Mutex(Outbox())
    let parts = Mutex(ConnectionParts())

    /// Called on the handler's event loop.
    init(_ handler: FrameHandler, as role: ClientRole, on eventLoop: any EventLoop) {
        let connections = handler.connections
        peer = handler.peer
        currentRole = Mutex(role)
        self.eventLoop = eventLoop
        self.handler = NIOLoopBoundBox(handler, eventLoop: eventLoop)
        coordinator = connections.coordinator
        codecs = connections.messages.codecs
        budget = connections.answers
        cutOffBytes = connections.options.cutOffBytes
    }

    /// Of a message that is opened now.
    var role: ClientRole {
        get { currentRole.withLock { $0 } }
        set { currentRole.withLock { $0 = newValue } }
    }

    // MARK: - Answering

    /// Sends a message.
    ///
    /// - Parameters:
    ///   - frame: the frame that is answered.
    ///   - finishing: this is the last answer to a message that arrived.
    func send(_ content: [UInt8], about frame: FrameReference, finishing: Bool = true) {
        guard !isClosed else { return }
        put(codecs.encode(content, about: frame), finishing: finishing)
    }

    /// Sends a message of that type.
    ///
    /// - Parameters:
    ///   - capacity: bytes of the members, about.
    ///   - members: writes the members, without the `tag`.
    func send(
        _ type: String, about frame: FrameReference, finishing: Bool = true, capacity: Int = 0,
        _ members: (inout JSONWriter) -> Void = { _ in }
    ) {
        guard !isClosed else { return }
        send(
            MessageWriter.message(type, capacity: capacity, tag: frame.tag, members), about: frame,
            finishing: finishing)
    }

    /// Sends an error.
    ///
    /// - Parameters:
    ///   - frame: the frame at fault; nil when the error is about the connection.
    ///   - finishing: it answers a message that arrived.
    func send(_ error: WireError, about frame: FrameReference?, finishing: Bool = true) {
        let frame = frame ?? FrameReference()
        send(error.about(frame).encoded(), about: frame, finishing: finishing)
    }

    func send(_ fault: Fault, about frame: FrameReference, finishing: Bool = true) {
        let message = MessageWriter.message("error", tag: nil) { writer in
            writer.key("error")
            fault.write(to: &writer)
            writer.reference(frame)
        }
        send(message, about: frame, finishing: finishing)
    }

    /// A message that arrived needs no further answer.
    func finish() { put(nil, finishing: true) }

    /// Sends the outcome of a job of this client. Called on one thread for all jobs, in their order.
    func answer(_ outcome: JobCompletion, about frame: FrameReference, isBrief: Bool) {
        guard !isClosed else { return }
        if !isBrief, outcome.byteCount > Self.smallAnswerBytes, case .completed(_, let isDuplicate) = outcome.result {
            let job = Source.job(
                sequence: outcome.sequence, isDuplicate: isDuplicate, lostObjects: outcome.objects?.count)
            let isStored = outcome.objects == nil && !outcome.isDryRun
            guard mayHold(behind: isStored ? Self.readAheadBytes : Self.objectsAheadBytes) else {
                guard outcome.isDryRun else { return wait(.stored(id: outcome.id, frame, job)) }
                return put(small: codecs.encode(outcome.shortened(.brief), tag: frame.tag, isBrief: false))
            }
        }
        let isPut =
            !isSomethingWaiting
            && codecs.withFrame(ofShort: outcome, tag: frame.tag, isBrief: isBrief) { answer in
                put(answer.count, finishing: true) { $0.add(answer) }
            }
        if !isPut { put(small: codecs.encode(outcome, tag: frame.tag, isBrief: isBrief)) }
    }

    private func put(small answer: [UInt8]) {
        if isSomethingWaiting { wait(.frame(answer)) } else { put(answer, finishing: true) }
    }

    /// Asks for the outcome of a job, and sends it when the job has ended.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question.
    ///   - share: its part of the budget of all awaits, until it is answered.
    func answer(awaitOf id: String, before ticket: Int, about frame: FrameReference, _ share: BudgetShare) {
        // The ledger is not asked twice for a client that has much to read.
        if isSomethingWaiting { return wait(.stored(id: id, frame, .question(ticket: ticket))) }
        coordinator.await(id, before: ticket, as: peer.owner) { [self, share] result in
            defer { withExtendedLifetime(share) {} }
            if case .success(let outcome?) = result, case .completed = outcome.result,
                outcome.byteCount > Self.smallAnswerBytes, !mayHoldLarge
            {
                return wait(.stored(id: id, frame, .question(ticket: ticket)))
            }
            put(awaited: result, id, frame)
        }
    }

    /// Answers a fetch: a brief one at once, a long one when there is room for its answer, a streamed one part by part.
    func answer(_ fetch: PendingFetch) {
        guard !fetch.request.isStreamed else { return stream(fetch) }
        ask(fetch, mayBeLong: { [weak self] in self?.mayHoldLarge ?? true }) { [self] end in
            if case .found(let objects) = end, objects.bytes.count > Self.smallFetchBytes, !mayHoldLarge {
                return wait(.fetch(fetch))
            }
            if case .postponed = end { return wait(.fetch(fetch)) }
            put(end, of: fetch)
        }
    }

    private func ask(
        _ fetch: PendingFetch, mayBeLong: @escaping @Sendable () -> Bool,
        _ notify: @escaping @Sendable (FetchEnd) -> Void
    ) {
        coordinator.fetch(
            fetch.request, before: fetch.ticket, from: source, of: peer.user,
            in: fetch.envelope, isWanted: { [weak self] in self.map { !$0.isClosed } ?? false },
            mayBeLong: mayBeLong, notify: notify)
    }

    private func put(_ end: FetchEnd, of fetch: PendingFetch) {
        switch end {
        case .found(let objects):
            guard !isClosed else { return }
            put(codecs.encode(objects) ?? codecs.tooLarge(about: fetch.frame), finishing: true)
        case .failed(let fault): send(fault, about: fetch.frame)
        case .postponed, .stopped: finish()
        }
    }

    /// The process that sent everything on this connection, for turns.
    var source: Int { Int(bitPattern: ObjectIdentifier(self)) }

    var isClosed: Bool { outbox.withLock { $0.isClosed } }
    private var isSomethingWaiting: Bool { outbox.withLock { $0.isReading || !$0.waiting.isEmpty } }

    private var mayHoldLarge: Bool { mayHold(behind: Self.readAheadBytes) }

    private func mayHold(behind bytes: Int) -> Bool {
        budget.hasRoom(peer.process) && outbox.withLock { !$0.isReading && $0.waiting.isEmpty && $0.bytes < bytes }
    }

    func put(_ frame: [UInt8]?, finishing: Bool) {
        put(frame?.count ?? 0, finishing: finishing) { if let frame { $0.add(frame) } }
    }

    /// - Parameter add: adds that many bytes.
    private func put(_ count: Int, finishing: Bool, _ add: (inout Outbox) -> Void) {
        let (mustSchedule, bytes) = outbox.withLock { outbox -> (Bool, Int) in
            guard !outbox.isClosed else { return (false, 0) }
            add(&outbox)
            if finishing { outbox.finished += 1 }
            return (outbox.schedule(), outbox.bytes)
        }
        guard bytes > 0 || mustSchedule else { return }
        let all = budget.add(count, peer.process)
        if bytes > cutOffBytes { cutOff("it has not read \(bytes) bytes of answers") }
        if all > Self.cutOffBytesOfAll { onHandler { $0.connections.cutOffLargest() } }
        if mustSchedule { onHandler { $0.flush() } }
    }

    // MARK: - Large answers

    private func wait(_ answer: Waiting) {
        outbox.withLock { outbox in
            if !outbox.isClosed { outbox.waiting.append(answer) }
        }
        sendWaiting()
    }

    private func sendWaiting() {
        while true {
            let hasRoom = budget.hasRoom(peer.process)
            var needsRoom = false
            let next = outbox.withLock { outbox -> Waiting? in
                guard !outbox.isReading, outbox.bytes < Self.readAheadBytes, let first = outbox.waiting.first else {
                    return nil
                }
                if first.isLarge {
                    needsRoom = !hasRoom
                    guard hasRoom else { return nil }
                    outbox.isReading = true
                }
                return outbox.waiting.removeFirst()
            }
            switch next {
            case .frame(let frame): put(frame, finishing: true)
            case .fetch(let fetch): return read(fetch)
            case .stored(let id, let frame, let source):
                var ticket: Int?
                if case .question(let asked) = source { ticket = asked }
                return coordinator.await(id, before: ticket, as: peer.owner) { [self] result in
                    sendStored(result, id, frame, source)
                    outbox.withLock { $0.isReading = false }
                    sendWaiting()
                }
            case nil:
                if needsRoom { waitForRoom() }
                return
            }
        }
    }

    private func sendStored(
        _ result: Result<JobCompletion?, StoreError>, _ id: String, _ frame: FrameReference, _ source: Source
    ) {
        guard case .job(let sequence, let isDuplicate, let lostObjects) = source else {
            return put(awaited: result, id, frame)
        }
        // The job is committed, whatever the ledger has deleted since.
        var outcome = JobCompletion.committed(id, sequence: sequence, isDuplicate: isDuplicate)
        if case .success(let found?) = result, case .completed(let members, _) = found.result,
            found.sequence == sequence
        {
            outcome.result = .completed(members: members, isDuplicate: isDuplicate)
        }
        outcome.objects = lostObjects.map { ReplyObjects(count: $0, json: nil) }
        put(awaited: .success(outcome), id, frame)
    }

    private func put(awaited result: Result<JobCompletion?, StoreError>, _ id: String, _ frame: FrameReference) {
        guard !isClosed else { return }
        switch result {
        case .success(let outcome?): put(codecs.encode(outcome, tag: frame.tag, isBrief: false), finishing: true)
        case .success(nil): send(.unknownJob(id), about: frame)
        case .failure(let cause): send(WireError(.internal, cause.message), about: frame)
        }
    }

    private func read(_ fetch: PendingFetch) {
        ask(fetch, mayBeLong: { true }) { [self] end in
            put(end, of: fetch)
            outbox.withLock { $0.isReading = false }
            sendWaiting()
        }
    }

    /// Goes on when the process has room in the budget of all answers.
    func waitForRoom() {
        budget.whenRoom(for: ObjectIdentifier(self), of: peer.process) { [weak self] in
            self?.sendWaiting()
            self?.sendParts()
        }
        onHandler { $0.connections.watch() }
    }

    // MARK: - For the event loop

    /// Calls `body` on the event loop, if the connection is open then.
    func onHandler(_ body: @escaping @Sendable (FrameHandler) -> Void) {
        eventLoop.execute { if let handler = self.handler.value { body(handler) } }
    }

    /// Calls `body` on the event loop after that time.
    func later(_ time: TimeAmount, _ body: @escaping @Sendable () -> Void) {
        eventLoop.scheduleTask(in: time, body)
    }

    /// Ends the connection: its client does not take its answers.
    func cutOff(_ reason: String) { onHandler { $0.cutOff(reason) } }

    /// Bytes of answers that the client has not taken.
    var bytes: Int { outbox.withLock { $0.bytes } }

    var isEmpty: Bool { outbox.withLock { $0.bytes == 0 && $0.waiting.isEmpty && !$0.isReading } }

    /// The frames to be written, and how many messages they finish.
    func takeFrames() -> (frames: [[UInt8]], finished: Int) {
        outbox.withLock { outbox in
            defer {
                outbox.frames = []
                outbox.finished = 0
                outbox.isFlushScheduled = false
            }
            return (outbox.frames, outbox.finished)
        }
    }

    /// The kernel has taken that many bytes of the frames.
    func wrote(_ bytes: Int) {
        let isOpen = outbox.withLock { outbox in
            if !outbox.isClosed { outbox.bytes -= bytes }
            return !outbox.isClosed
        }
        guard isOpen else { return }
        budget.remove(bytes, peer.process)
        sendWaiting()
        sendParts()
    }

    /// The channel is closed: unsent frames are dropped, and no more are taken.
    func close() {
        handler.value = nil
        let bytes = outbox.withLock { outbox in
            defer {
                outbox = Outbox()
                outbox.isClosed = true
            }
            return outbox.bytes
        }
        budget.forget(ObjectIdentifier(self))
        budget.remove(bytes, peer.process)
        cancelParts()
    }
}

extension Connection {
    /// An answer whose turn has not come.
    enum Waiting {
        /// Small, and after a large one.
        case frame([UInt8])
        /// In the ledger: the outcome of a job of this client's, or of one that was asked for with a ticket.
        case stored(id: String, FrameReference, Source)
        /// In the store, and long.
        case fetch(PendingFetch)
    }

    enum Source {
        /// - lostObjects: the number of objects that the ledger lacks; nil when none were asked for.
        case job(sequence: Int64?, isDuplicate: Bool, lostObjects: Int?)
        case question(ticket: Int)
    }

    struct Outbox {
        var frames: [[UInt8]] = []
        var finished = 0
        /// Bytes of frames that the kernel has not taken.
        var bytes = 0
        var waiting = Deque<Waiting>()
        /// The answer that was first among `waiting` is being read from the ledger.
        var isReading = false
        var isFlushScheduled = false
        var isClosed = false

        mutating func add(_ frame: [UInt8]) {
            frames.append(frame)
            bytes += frame.count
        }

        /// As the other, for a short frame: gathers them in one piece.
        mutating func add(_ frame: UnsafeRawBufferPointer) {
            bytes += frame.count
            if let last = frames.indices.last, frames[last].count + frame.count <= Connection.pieceBytes {
                frames[last].append(contentsOf: frame)
            } else {
                frames.append([UInt8](frame))
            }
        }

        /// - Returns: whether a flush must be scheduled.
        mutating func schedule() -> Bool {
            defer { isFlushScheduled = true }
            return !isFlushScheduled
        }
    }
}

extension Connection.Waiting {
    /// Reading it needs room.
    var isLarge: Bool {
        if case .frame = self { false } else { true }
    }
}
