internal import DequeModule

/// Who may search now: of the jobs that may look at all objects of an entity, however few their bytes are, few are in the
/// order of jobs at a time, by ``ScanConcurrency``. A pure machine.
///
/// ```
/// admit ─▶ opening ──▶ goes on at its place (a search, if it may)
///             │
///             └──▶ waiting, with all that its source sends behind it ──its turn──▶ goes on at a new place
/// ```
///
/// What is in a frame is known when it has been opened, and nobody has been told its sequence until then: so it can still
/// give up its place. Sources take turns, so that a flood of searches keeps its own source waiting, and others for
/// those few.
///
/// Invariants
///  1. What goes on of one source does so at places that rise with its arrivals: its frames take effect as sent.
///  2. A source waits for a search that is in the order, or for a frame of its own that is being opened; both end.
///  3. What has gone on, and all that arrived before it, never gives up its place.
///
/// An arrival is a frame's first place; it is the frame's name here for good.
struct ScanScheduler<Frame> {
    enum Content {
        /// Nothing that has an order: it was answered, or could not be.
        case nothing
        case job
        case search
        case question
    }

    private struct Source {
        /// Arrivals of what has not been opened yet, in order; each is still at its first place.
        var opening = Deque<Int>()
        /// In the order of arrivals.
        var waiting = Deque<(arrival: Int, isSearch: Bool, frame: Frame)>()
        /// The newest arrival that went on.
        var newestGone = -1
        /// The newest place that was given anew.
        var newestCalled = -1

        /// Nothing before what waits is being opened.
        var mayBeCalled: Bool {
            guard let first = waiting.first else { return false }
            return opening.first.map { first.arrival < $0 } ?? true
        }
    }

    /// Those of which something is being opened or waits.
    private var sources: [Int: Source] = [:]
    /// Those of which something waits, each once; whose turn it is comes first.
    private var turns = Deque<Int>()
    /// Arrivals of the searches in the order: as many as may be, but for what could not give up its place.
    private var searching: Set<Int> = []
    private var pace = ScanConcurrency()

    /// There is a search in the order, and lately searches took long.
    var hasLong: Bool { !searching.isEmpty && pace.width == 1 }

    /// It is a search in the order.
    func isSearching(_ arrival: Int) -> Bool { searching.contains(arrival) }

    private var mayAnotherSearch: Bool { searching.count < pace.width }

    /// Something of that source waits.
    func isWaiting(_ source: Int) -> Bool { !turns.isEmpty && sources[source]?.waiting.isEmpty == false }

    /// A frame has arrived, and is to be opened.
    mutating func admit(_ arrival: Int, from source: Int) { sources[source, default: Source()].opening.append(arrival) }

    /// A frame was opened that has not been called.
    ///
    /// - Returns: whether it goes on. If not, it gives up its place, and is called later.
    mutating func opened(_ arrival: Int, from source: Int, _ content: Content, _ frame: Frame) -> Bool {
        guard var own = sources.removeValue(forKey: source) else { return true }
        defer { if !own.opening.isEmpty || !own.waiting.isEmpty { sources[source] = own } }
        if let position = own.opening.firstIndex(of: arrival) { own.opening.remove(at: position) }
        guard content != .nothing else { return true }
        guard mustWait(arrival, content, own) else {
            own.newestGone = max(own.newestGone, arrival)
            if content == .search { searching.insert(arrival) }
            return true
        }
        if own.waiting.isEmpty { turns.append(source) }
        let position = (own.waiting.lastIndex { $0.arrival < arrival } ?? -1) + 1
        own.waiting.insert((arrival, content == .search, frame), at: position)
        return false
    }

    private func mustWait(_ arrival: Int, _ content: Content, _ own: Source) -> Bool {
        guard own.newestGone < arrival else { return false }
        // Something before it waits, or went on at a place behind its own; or that will be so with what is being opened.
        if let first = own.waiting.first, first.arrival < arrival { return true }
        let before = own.opening.first.flatMap { $0 < arrival ? $0 : nil }
        guard (before ?? arrival) > own.newestCalled else { return true }
        // While no other may search, nothing overtakes what may turn out to be a search.
        return !mayAnotherSearch && (content == .search || before != nil)
    }

    // MARK: - Calling

    /// Calls what of that source need not wait any longer, one search at most.
    ///
    /// - Parameter place: that the first of them is to have; the others have those behind it.
    /// - Returns: frames in the order of their new places.
    mutating func call(_ source: Int, from place: Int) -> [Frame] {
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
            own.newestCalled = place + called.count
            called.append(first.frame)
        }
        if own.waiting.isEmpty { turns.removeAll { $0 == source } }
        return called
    }

    /// A search has taken so long, on a clock of microseconds that never goes back.
    mutating func note(_ arrival: Int, took microseconds: Int64, at now: Int64) {
        if searching.contains(arrival) { pace.note(microseconds, at: now) }
    }

    /// What went on has ended, or was no job after all.
    mutating func ended(_ arrival: Int) { searching.remove(arrival) }

    /// Whose turn it is to search, to be called; nil when it is nobody's. To be asked, until it is, whenever something was
    /// opened or has ended.
    mutating func next() -> Int? {
        guard !turns.isEmpty, mayAnotherSearch else { return nil }
        guard let position = turns.firstIndex(where: { sources[$0]?.mayBeCalled == true }) else { return nil }
        let source = turns.remove(at: position)
        turns.append(source)
        return source
    }
}
