internal import BrokerJSON
internal import BrokerStaging
internal import DequeModule

/// Lets scans of different users and sources take turns. A scan is a job that may do much work in the store, however few its
/// bytes are, or a frame that takes long to open; ``ScanConcurrency`` limits how many are in the order of jobs at a time. A pure
/// machine.
///
/// ```
/// admit ─▶ opening ──▶ continues with its ticket (a scan, if it may)
///             │
///             └──▶ waiting, with the later jobs of its source ──its turn──▶ continues with a new ticket
/// ```
///
/// The content of a frame is known when it has been opened, and until then no client has been sent its sequence: so the
/// frame can still give up its ticket. The next turn is that of the user whose scans have taken the least time, and the
/// sources of one user take turns. So a flood of scans delays its own user, and others by a few of them only.
///
/// Invariants
///  1. The frames of one source go on with tickets that rise with their arrivals: they take effect as sent.
///  2. A source waits for a scan that is in the order, or for a frame of its own that is being opened; both end.
///  3. A frame that has gone on, and all frames that arrived before it, never give up their tickets.
///
/// An arrival is a frame's first ticket, which names the frame here from then on.
struct ScanScheduler<Frame> {
    typealias Content = ScanContent

    struct Source {
        /// Arrivals of the frames that are not opened yet, in order; each still has its first ticket.
        var opening = ShortList<Int>()
        /// In the order of arrivals.
        var waiting = Deque<(arrival: Int, content: Content, frame: Frame)>()
        var user: UInt32 = 0
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
    private(set) var sources: [Int: Source] = [:]
    /// The sources of which a frame waits, each once; of those of one user, the next turn is the first one's.
    private(set) var turns = Deque<Int>()
    /// The users of the scans in the order, by arrival: at most the allowed number, and those that could not give up their
    /// tickets.
    private var searching: [Int: UInt32] = [:]
    /// By user, the microseconds of their scans since a scan waited first. A user who comes later begins with those of the
    /// user whose turn it was last.
    private var spent: [UInt32: Int64] = [:]
    private var spentAtTurn: Int64 = 0
    private var pace = ScanConcurrency()

    /// Whether a scan is in the order and recent scans took long.
    var hasLong: Bool { !searching.isEmpty && pace.isSlow }

    func isSearching(_ arrival: Int) -> Bool { searching[arrival] != nil }

    private func mayGoOn(_ content: Content) -> Bool {
        content.widest.map { searching.count < pace.width(atMost: $0) } ?? true
    }

    func isWaiting(_ source: Int) -> Bool { !turns.isEmpty && sources[source]?.waiting.isEmpty == false }

    mutating func admit(_ arrival: Int, from source: Int) { sources[source, default: Source()].opening.append(arrival) }

    /// A frame was opened that has not been called.
    ///
    /// - Parameters:
    ///   - frame: called if it must wait.
    /// - Returns: whether it goes on. If not, it gives up its ticket, and is called later.
    mutating func opened(
        _ arrival: Int, from source: Int, of user: UInt32 = 0, _ content: Content, _ frame: () -> Frame
    ) -> Bool {
        guard var own = sources.removeValue(forKey: source) else { return true }
        defer { if !own.opening.isEmpty || !own.waiting.isEmpty { sources[source] = own } }
        if let position = own.opening.firstIndex(where: { $0 == arrival }) { own.opening.remove(at: position) }
        guard content != .nothing else { return true }
        guard mustWait(arrival, content, own) else {
            own.newestGone = max(own.newestGone, arrival)
            if content.widest != nil { searching[arrival] = user }
            return true
        }
        if own.waiting.isEmpty { turns.append(source) }
        if content.widest != nil {
            own.user = user
            spent[user] = max(spent[user] ?? 0, spentAtTurn)
        }
        let position = (own.waiting.lastIndex { $0.arrival < arrival } ?? -1) + 1
        own.waiting.insert((arrival, content, frame()), at: position)
        return false
    }

    private func mustWait(_ arrival: Int, _ content: Content, _ own: Source) -> Bool {
        guard own.newestGone < arrival else { return false }
        // An earlier frame waits, or went on with a later ticket; or a frame that is being opened will.
        if let first = own.waiting.first, first.arrival < arrival { return true }
        let before = own.opening.first.flatMap { $0 < arrival ? $0 : nil }
        guard (before ?? arrival) > own.newestCalled else { return true }
        if content.widest != nil, !turns.isEmpty { return true }
        // While no other scan is allowed, nothing overtakes a frame that may turn out to be a scan.
        return !mayGoOn(before == nil ? content : .search)
    }

    // MARK: - Calling

    /// Calls the frames of that source that need not wait any longer. The first gets that ticket; the others those after it. If it
    /// is the source's turn, it may scan, once. Returns the frames in the order of their new tickets.
    mutating func call(_ source: Int, from ticket: Int, isItsTurn: Bool = false) -> [Frame] {
        guard !turns.isEmpty, var own = sources.removeValue(forKey: source) else { return [] }
        defer { if !own.opening.isEmpty || !own.waiting.isEmpty { sources[source] = own } }
        guard !own.waiting.isEmpty else { return [] }
        var called: [Frame] = []
        var mayScan = isItsTurn
        while own.mayBeCalled, let first = own.waiting.first {
            if first.content.widest != nil {
                guard mayScan, mayGoOn(first.content) else { break }
                mayScan = false
                searching[first.arrival] = own.user
            }
            own.waiting.removeFirst()
            own.newestGone = first.arrival
            own.newestCalled = ticket + called.count
            called.append(first.frame)
        }
        if own.waiting.isEmpty {
            turns.removeAll { $0 == source }
            if turns.isEmpty { (spent, spentAtTurn) = ([:], 0) }
        }
        return called
    }

    /// A scan has taken that long, on a clock of microseconds that never goes back. Its own part of the time is paid for by its
    /// bytes.
    mutating func note(_ arrival: Int, took microseconds: Int64, own: Int64 = 0, at now: Int64) {
        guard let user = searching[arrival] else { return }
        pace.note(max(0, microseconds - own), at: now)
        if !turns.isEmpty { spent[user, default: spentAtTurn] += microseconds }
    }

    /// A frame that went on has ended, or was not a job after all.
    mutating func ended(_ arrival: Int) { searching[arrival] = nil }

    /// The source whose turn it is to scan, to be called; nil when there is none. The caller asks until it is nil,
    /// whenever a frame was opened or has ended.
    mutating func next() -> Int? {
        guard !turns.isEmpty, mayGoOn(.linking) else { return nil }
        var first: (position: Int, spent: Int64)?
        for (position, source) in turns.enumerated() {
            guard let own = sources[source], own.mayBeCalled else { continue }
            let spent = spent[own.user] ?? 0
            if first.map({ spent < $0.spent }) ?? true { first = (position, spent) }
        }
        // No other source passes the one whose turn it is, even if its frame might go on.
        guard let first, let content = sources[turns[first.position]]?.waiting.first?.content, mayGoOn(content) else {
            return nil
        }
        spentAtTurn = max(spentAtTurn, first.spent)
        let source = turns.remove(at: first.position)
        turns.append(source)
        return source
    }
}

/// The content of a frame, as far as its turn depends on it.
enum ScanContent {
    /// A message that has no place in an order: it was answered, or could not be.
    case nothing
    case job
    /// A job that may end very many links, or delete very many objects. To do that again, a job must make them first.
    case linking
    /// A job that may do much work in the store any number of times.
    case search
    /// What may have so much content that opening it takes long; what it holds is not known before that.
    case large
    case question

    /// How many scans may be in the order when one of this kind goes on, however cheap they are: past costs say little about
    /// future ones. Nil for what is no scan.
    var widest: Int? {
        switch self {
        case .nothing, .job, .question: nil
        case .linking: 32
        case .search: 2
        case .large: 1
        }
    }
}

extension Job {
    func content(under plan: StagingPlan) -> ScanContent {
        // A share of an entity's objects is known when all of them have been counted.
        if case .share = terms.maximumDeletions { return .search }
        if operations.contains(where: { $0.isSearch(in: plan.model) }) { return .search }
        let reading = plan.reading(terms.form.names)
        guard operations.contains(where: { $0.mayReachOthers(under: reading) }) else { return .job }
        // A job that is undone leaves everything as it was for the next one.
        let mayBeUndone =
            terms.isDryRun || !terms.mayDelete || terms.maximumDeletions != nil || operations.count > 1
            || plan.mayFailLast
            || plan.model.tableEntities.contains { plan.model.entities[$0].maximumDeletions != nil }
        return mayBeUndone ? .search : .linking
    }
}

/// How many scans may be in the order of jobs at a time, learned from those that ended. A pure value.
///
/// One is always allowed; several, when even the slowest of the recent ones would have done all of them in a short
/// time, but not before the first ``firstScans`` have ended. So cheap scans share a COMMIT, and expensive ones go one by one.
struct ScanConcurrency {
    /// The time that the scans in the order may take together.
    static let microseconds: Int64 = 20_000
    /// After this time the slowest counts for half of what it took.
    static let halfLifeMicroseconds: Int64 = 10_000_000
    static let firstScans = 8

    /// The time of the slowest recent scan. At first, high enough to allow one at a time.
    private var slowest = microseconds
    private var notedAt: Int64?
    /// The slowest of the first scans, and how many of them have not ended.
    private var first = (slowest: Int64(0), left: firstScans)

    /// Even the slowest recent scan took so long that no other may be in the order beside one.
    var isSlow: Bool { slowest > Self.microseconds / 2 }

    /// The number of scans that may be in the order, 1 at least.
    func width(atMost widest: Int) -> Int { Int(max(1, min(Int64(widest), Self.microseconds / max(1, slowest)))) }

    /// A scan has ended, by a clock that never goes back.
    mutating func note(_ microseconds: Int64, at now: Int64) {
        if first.left > 0 {
            first = (max(first.slowest, microseconds), first.left - 1)
            if first.left == 0 { slowest = min(slowest, first.slowest) }
        }
        let halvings = (now - (notedAt ?? now)) / Self.halfLifeMicroseconds
        // Halved once for each period; a part of a period is not lost.
        notedAt = (notedAt ?? now) + halvings * Self.halfLifeMicroseconds
        slowest = max(slowest >> min(halvings, 62), microseconds)
        if microseconds == slowest { notedAt = now }
    }
}
