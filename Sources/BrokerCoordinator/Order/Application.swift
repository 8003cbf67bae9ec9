internal import BrokerStore
internal import DequeModule

/// The order in which jobs take effect: that of the log.
///
/// ```
/// opened here ──▶ began ──▶ delivered ──┐
///                                       ├──▶ finished ──▶ taken
/// read from the log ─────▶ delivered ───┘
/// ```
///
/// A job is staged while the log stores it, so it is finished before or after it is delivered.
///
/// Invariants
///  1. Jobs leave in the order of their positions, each exactly once; a job that is not finished holds back all after it.
///  2. The log delivers the jobs of this server in the order of their tickets.
///  3. A job that fails, or that the log refused, is work like any other, so that a failure never stalls the order.
///
/// A pure value: no threads, no clocks.
struct Application<Work> {
    struct Entry {
        let ticket: Int
        /// That of the model under which it is staged.
        var generation: Int
        var place: LogPlace?
        /// Nil for a frame that was read from the log, until it is staged.
        var job: Work?
        /// It is staged.
        var isFinished = false
    }

    /// Jobs that were opened here, by rising tickets. The first ``deliveredCount`` of them are delivered or refused.
    private(set) var own = Deque<Entry>()
    private(set) var deliveredCount = 0
    /// Jobs that were read from the log, by rising tickets and positions.
    private(set) var others = Deque<Entry>()
    /// The newest position that was delivered, by this order or before it; 0 for none.
    private(set) var position: Int64
    var generation = 0

    init(after position: Int64) { self.position = position }

    var hasDelivered: Bool { deliveredCount > 0 || !others.isEmpty }

    // MARK: - From the log

    /// A frame that was opened here held a job, which is staged under the model of that generation.
    mutating func began(_ ticket: Int, _ job: Work, under generation: Int = 0) {
        // Frames are opened out of order, though rarely by much.
        let index = (own.lastIndex { $0.ticket < ticket } ?? -1) + 1
        own.insert(Entry(ticket: ticket, generation: generation, job: job), at: index)
        // A job that was refused before this one was opened.
        deliveredCount = min(deliveredCount, index)
    }

    /// The log delivers a job of this server, or refuses it: then its place has no position.
    ///
    /// - Returns: the job, and whether another server has changed the model before it: it is to be staged again.
    /// - Throws: `StoreError` when another job, or a later position, should have come first.
    @discardableResult mutating func deliver(
        own ticket: Int, at place: LogPlace
    ) throws(StoreError) -> (job: Work, isStale: Bool) {
        guard deliveredCount < own.count, own[deliveredCount].ticket == ticket, let job = own[deliveredCount].job else {
            throw .unexpectedJob
        }
        try advance(to: place)
        let isStale = own[deliveredCount].generation != generation && place.position != nil
        if isStale {
            own[deliveredCount].generation = generation
            own[deliveredCount].isFinished = false
        }
        own[deliveredCount].place = place
        passRefused()
        return (job, isStale)
    }

    /// The log does not get a job of this server, which is to be finished as work without a position.
    mutating func refuse(_ ticket: Int) {
        guard let index = own.index(of: ticket, by: { $0.ticket }) else { return }
        own[index].place = LogPlace(position: nil, time: 0)
        passRefused()
    }

    /// Counts the delivered jobs, with the refused ones among them and after them.
    private mutating func passRefused() {
        while deliveredCount < own.count, own[deliveredCount].place != nil { deliveredCount += 1 }
    }

    /// The log delivers a job that this server did not append; its frame has that ticket. Throws when a later position was
    /// delivered before.
    mutating func deliver(other ticket: Int, at place: LogPlace) throws(StoreError) {
        try advance(to: place)
        others.append(Entry(ticket: ticket, generation: generation, place: place))
    }

    /// The log delivers an entry that is no job.
    mutating func advance(to place: LogPlace) throws(StoreError) {
        guard let position = place.position else { return }
        guard position > self.position else { throw .fallingPosition }
        self.position = position
    }

    // MARK: - Staging, merging

    /// The job is staged under the model of that generation, or has failed: it can be merged when its turn comes. False for work of
    /// another model than is wanted, which is dropped.
    mutating func finish(_ ticket: Int, _ job: Work, under generation: Int = 0) -> Bool {
        if let index = own.index(of: ticket, by: { $0.ticket }) {
            return Self.finish(&own[index], job, generation)
        }
        return others.index(of: ticket, by: { $0.ticket }).map { Self.finish(&others[$0], job, generation) } ?? false
    }

    private static func finish(_ entry: inout Entry, _ job: Work, _ generation: Int) -> Bool {
        guard entry.generation == generation else { return false }
        (entry.job, entry.isFinished) = (job, true)
        return true
    }

    func holds(_ ticket: Int) -> Bool { entry(ticket) != nil }

    func isReady(_ ticket: Int) -> Bool { entry(ticket)?.isFinished ?? false }

    /// Where the log has a job that is still in the order; nil before it is delivered.
    func place(of ticket: Int) -> LogPlace? { entry(ticket)?.place }

    /// The next job in order; nil when it is not delivered, or not finished.
    var next: (place: LogPlace, job: Work)? {
        guard let first = isOwnNext ? own.first : others.first, first.isFinished, let place = first.place,
            let job = first.job
        else { return nil }
        return (place, job)
    }

    /// Takes the next job in order; nil when it is not delivered, or not finished.
    mutating func takeNext() -> (place: LogPlace, job: Work)? {
        guard let next else { return nil }
        if isOwnNext {
            own.removeFirst()
            deliveredCount -= 1
        } else {
            others.removeFirst()
        }
        return next
    }

    /// A refused job has no position, and is next when the jobs of this server before it have gone.
    private var isOwnNext: Bool {
        guard deliveredCount > 0 else { return false }
        guard let other = others.first?.place?.position else { return true }
        return own[0].place?.position ?? 0 < other
    }

    // MARK: - Finding

    private func entry(_ ticket: Int) -> Entry? {
        if let index = own.index(of: ticket, by: { $0.ticket }) { return own[index] }
        return others.index(of: ticket, by: { $0.ticket }).map { others[$0] }
    }
}

/// The order in which frames arrived: their jobs go to the log in it.
///
/// ```
/// reserve ──▶ opening ──▶ a job: settled, to the log
///                    └──▶ no job: settled, skipped
/// ```
///
/// A frame gets its ticket before its content is known, because opening takes time and must not change the order. A ticket
/// is settled as soon as it and everything before it has been opened; then it leaves. So questions after a waiting job cost no
/// memory.
///
/// A pure value: no threads, no clocks.
struct Admission<Content> {
    typealias Ticket = Int

    /// The contents of the tickets that are not settled, in their order, without gaps; nil for a frame that is not opened.
    private(set) var contents = Deque<Content?>()
    private(set) var nextTicket = 0

    private var firstTicket: Ticket { nextTicket - contents.count }

    mutating func reserve() -> Ticket {
        contents.append(nil)
        nextTicket += 1
        return nextTicket - 1
    }

    /// The frame was opened. Others may be settled now: ``takeSettled()``.
    mutating func open(_ ticket: Ticket, _ content: Content) { contents[ticket - firstTicket] = content }

    /// The next ticket that is opened, with everything before it; nil when there is none.
    mutating func takeSettled() -> (ticket: Ticket, content: Content)? {
        guard let first = contents.first, let content = first else { return nil }
        defer { contents.removeFirst() }
        return (firstTicket, content)
    }
}
