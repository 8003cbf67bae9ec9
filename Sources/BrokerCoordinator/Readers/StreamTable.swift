internal import DequeModule

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
        /// End an open stream whose client was too slow.
        case expire(Int)
        /// End an open stream that was cancelled.
        case close(Int)
    }

    private enum Phase: Equatable {
        case making
        /// For the client to take the last part.
        case waiting(since: Int64)
        case asked
    }

    private struct OpenStream {
        let process: Int32
        var phase = Phase.making
        var isCancelled = false
        /// How long the stream has waited for its client.
        var waited: Int64 = 0

        func waited(at now: Int64) -> Int64 {
            if case .waiting(let since) = phase { waited + now - since } else { waited }
        }
    }

    let limits: StreamLimits
    /// At most ``StreamLimits/open``.
    private var open: [Int: OpenStream] = [:]
    /// Streams to be opened, of each process in the order in which they were asked. The process that opened one last is
    /// the last.
    private var queue: [(process: Int32, numbers: Deque<Int>)] = []
    private var asked = Deque<Int>()
    private var writerWaits = false

    init(_ limits: StreamLimits) { self.limits = limits }

    var openCount: Int { open.count }

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

    /// No client wants the stream any more.
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

    /// The step that is due now; nil when none is.
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

    /// Checks the invariants in linear time: the open streams are limited and counted, and each process that waits has one
    /// turn.
    func checkInvariants() throws(InvariantViolation) {
        let queued = queue.flatMap(\.numbers)
        try InvariantViolation.require(open.count <= limits.open, "open streams are limited")
        try InvariantViolation.require(
            asked.count == open.values.count { $0.phase == .asked } && asked.allSatisfy { open[$0]?.phase == .asked },
            "the streams that were asked are counted")
        try InvariantViolation.require(
            queued.allSatisfy { open[$0] == nil } && Set(queued).count == queued.count, "a stream waits once or is open"
        )
        try InvariantViolation.require(
            queue.allSatisfy { !$0.numbers.isEmpty } && Set(queue.map(\.process)).count == queue.count,
            "each process that waits has one turn")
    }
}
