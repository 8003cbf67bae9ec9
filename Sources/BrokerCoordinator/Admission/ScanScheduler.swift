internal import BrokerJSON
internal import DequeModule

/// Lets scans of different sources take turns. A scan is a job that may read all objects of an entity, however few its
/// bytes are; ``ScanConcurrency`` limits how many are in the order of jobs at a time. A pure machine.
///
/// ```
/// admit ─▶ opening ──▶ continues with its ticket (a scan, if it may)
///             │
///             └──▶ waiting, with the later jobs of its source ──its turn──▶ continues with a new ticket
/// ```
///
/// The content of a frame is known when it has been opened, and until then no client has been sent its sequence: so the
/// frame can still give up its ticket. Sources take turns, so that a flood of scans delays its own source, and others
/// by a few of them only.
///
/// Invariants
///  1. The frames of one source go on with tickets that rise with their arrivals: they take effect as sent.
///  2. A source waits for a scan that is in the order, or for a frame of its own that is being opened; both end.
///  3. A frame that has gone on, and all frames that arrived before it, never give up their tickets.
///
/// An arrival is a frame's first ticket, which names the frame here from then on.
struct ScanScheduler<Frame> {
    enum Content {
        /// A message that has no place in an order: it was answered, or could not be.
        case nothing
        case job
        case search
        case question
    }

    private struct Source {
        /// Arrivals of the frames that are not opened yet, in order; each still has its first ticket.
        var opening = ShortList<Int>()
        /// In the order of arrivals.
        var waiting = Deque<(arrival: Int, isSearch: Bool, frame: Frame)>()
        /// The newest arrival that went on.
        var newestGone = -1
        /// The newest ticket that was given to a waiting frame.
        var newestCalled = -1

        /// No frame before the waiting ones is being opened.
        var mayBeCalled: Bool {
            guard let first = waiting.first else { return false }
            return opening.first.map { first.arrival < $0 } ?? true
        }
    }

    /// The sources of which a frame is being opened or waits.
    private var sources: [Int: Source] = [:]
    /// The sources of which a frame waits, each once; the next turn is the first one's.
    private var turns = Deque<Int>()
    /// Arrivals of the scans in the order: at most the allowed number, and those that could not give up their tickets.
    private var searching: Set<Int> = []
    private var pace = ScanConcurrency()

    /// Whether a scan is in the order and recent scans took long.
    var hasLong: Bool { !searching.isEmpty && pace.width == 1 }

    /// Whether the arrival is a scan in the order.
    func isSearching(_ arrival: Int) -> Bool { searching.contains(arrival) }

    private var mayAnotherSearch: Bool { searching.count < pace.width }

    /// Whether a frame of that source waits.
    func isWaiting(_ source: Int) -> Bool { !turns.isEmpty && sources[source]?.waiting.isEmpty == false }

    /// A frame has arrived, and is to be opened.
    mutating func admit(_ arrival: Int, from source: Int) { sources[source, default: Source()].opening.append(arrival) }

    /// A frame was opened that has not been called.
    ///
    /// - Parameter frame: called if it must wait.
    /// - Returns: whether it goes on. If not, it gives up its ticket, and is called later.
    mutating func opened(_ arrival: Int, from source: Int, _ content: Content, _ frame: () -> Frame) -> Bool {
        guard var own = sources.removeValue(forKey: source) else { return true }
        defer { if !own.opening.isEmpty || !own.waiting.isEmpty { sources[source] = own } }
        if let position = own.opening.firstIndex(where: { $0 == arrival }) { own.opening.remove(at: position) }
        guard content != .nothing else { return true }
        guard mustWait(arrival, content, own) else {
            own.newestGone = max(own.newestGone, arrival)
            if content == .search { searching.insert(arrival) }
            return true
        }
        if own.waiting.isEmpty { turns.append(source) }
        let position = (own.waiting.lastIndex { $0.arrival < arrival } ?? -1) + 1
        own.waiting.insert((arrival, content == .search, frame()), at: position)
        return false
    }

    private func mustWait(_ arrival: Int, _ content: Content, _ own: Source) -> Bool {
        guard own.newestGone < arrival else { return false }
        // An earlier frame waits, or went on with a later ticket; or a frame that is being opened will.
        if let first = own.waiting.first, first.arrival < arrival { return true }
        let before = own.opening.first.flatMap { $0 < arrival ? $0 : nil }
        guard (before ?? arrival) > own.newestCalled else { return true }
        // While no other scan is allowed, nothing overtakes a frame that may turn out to be a scan.
        return !mayAnotherSearch && (content == .search || before != nil)
    }

    // MARK: - Calling

    /// Calls the frames of that source that need not wait any longer, one scan at most.
    ///
    /// - Parameter ticket: the ticket for the first of them; the others get those after it.
    /// - Returns: frames in the order of their new tickets.
    mutating func call(_ source: Int, from ticket: Int) -> [Frame] {
        guard !turns.isEmpty, var own = sources.removeValue(forKey: source) else { return [] }
        defer { if !own.opening.isEmpty || !own.waiting.isEmpty { sources[source] = own } }
        guard !own.waiting.isEmpty else { return [] }
        var called: [Frame] = []
        var hasSearch = false
        while own.mayBeCalled, let first = own.waiting.first {
            if first.isSearch {
                guard !hasSearch, mayAnotherSearch else { break }
                hasSearch = true
                searching.insert(first.arrival)
            }
            own.waiting.removeFirst()
            own.newestGone = first.arrival
            own.newestCalled = ticket + called.count
            called.append(first.frame)
        }
        if own.waiting.isEmpty { turns.removeAll { $0 == source } }
        return called
    }

    /// A scan has taken that long, on a clock of microseconds that never goes back.
    mutating func note(_ arrival: Int, took microseconds: Int64, at now: Int64) {
        if searching.contains(arrival) { pace.note(microseconds, at: now) }
    }

    /// A frame that went on has ended, or was not a job after all.
    mutating func ended(_ arrival: Int) { searching.remove(arrival) }

    /// The source whose turn it is to scan, to be called; nil when there is none. The caller asks until it is nil,
    /// whenever a frame was opened or has ended.
    mutating func next() -> Int? {
        guard !turns.isEmpty, mayAnotherSearch else { return nil }
        guard let position = turns.firstIndex(where: { sources[$0]?.mayBeCalled == true }) else { return nil }
        let source = turns.remove(at: position)
        turns.append(source)
        return source
    }
}

extension ScanScheduler {
    /// Checks the invariants in linear time; the simulation calls it after every event.
    ///
    /// 1. A source is known exactly while one of its frames is being opened or waits, and it has one turn exactly while one
    ///    waits.
    /// 2. The frames of a source are in the order of arrival, and those that wait arrived after all that went on.
    func checkInvariants() throws(InvariantViolation) {
        var waitingCount = 0
        for source in sources.values {
            try InvariantViolation.require(
                !source.opening.isEmpty || !source.waiting.isEmpty, "a source without frames is forgotten")
            let waiting = source.waiting.map(\.arrival)
            for arrivals in [Array(source.opening), waiting] {
                try InvariantViolation.require(
                    zip(arrivals, arrivals.dropFirst()).allSatisfy { $0 < $1 }, "frames are in the order of arrival")
            }
            if let first = waiting.first {
                waitingCount += 1
                try InvariantViolation.require(first > source.newestGone, "no frame overtakes one of its source")
            }
        }
        try InvariantViolation.require(
            turns.count == waitingCount && Set(turns).count == waitingCount
                && turns.allSatisfy { sources[$0]?.waiting.isEmpty == false },
            "each source that waits has one turn")
    }
}
