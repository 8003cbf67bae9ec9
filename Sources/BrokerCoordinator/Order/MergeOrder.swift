internal import DequeModule

/// The order in which jobs take effect: that in which their frames arrived completely.
///
/// ```
/// reserve ──▶ opening ──▶ a job: staging ──▶ ready ──▶ taken
///                    └──▶ no job: void (skipped)
/// ```
///
/// A frame gets its ticket before its content is known, because opening takes time and must not change the order. Only jobs
/// get sequences, without gaps, as soon as everything before them has been opened. Only sequences that the store has reserved
/// are given, because a client that was sent one must never see it on another job.
///
/// Invariants
///  1. Sequences rise with tickets, and none is above ``reservedThrough``; those that were given before come first.
///  2. Work leaves in the order of sequences, each exactly once; a ticket that is not ready holds back all after it.
///  3. A job that fails is work like any other, so that a failure never stalls the order.
///  4. A ticket without a job is removed as soon as it is settled, so that questions after a waiting job cost no memory.
///
/// A pure value: no threads, no clocks.
struct MergeOrder<Work> {
    typealias Ticket = Int

    /// A ticket that is opened, with everything before it.
    struct Settled: Equatable {
        let ticket: Ticket
        /// The job's sequence; nil when the frame held no job.
        let sequence: Int64?
    }

    private enum State {
        case opening
        case void
        case staging
        case ready(Work)

        var isJob: Bool {
            switch self {
            case .opening, .void: false
            case .staging, .ready: true
            }
        }
    }

    private struct Entry {
        let ticket: Ticket
        var state: State
        var sequence: Int64?
    }

    /// By rising tickets.
    private var entries = Deque<Entry>()
    /// The ticket that is given next.
    private(set) var nextTicket = 0
    /// The first ticket that is not settled.
    private var nextToSettle = 0
    /// The newest sequence that was given, by this order or before it; 0 for none.
    private(set) var newestSequence: Int64
    /// Sequences up to this one may be given.
    private(set) var reservedThrough: Int64

    /// - Parameters:
    ///   - sequence: the newest that was given before, 0 for none.
    ///   - reservedThrough: the last one that may be given until ``extend(through:)``.
    init(after sequence: Int64, reservedThrough: Int64) {
        newestSequence = sequence
        self.reservedThrough = reservedThrough
    }

    /// Nothing is in the order.
    var isEmpty: Bool { entries.isEmpty }

    /// Tickets that wait to be opened, staged or merged.
    var count: Int { entries.count }

    /// The index of the first entry whose ticket is not lower.
    private func position(from ticket: Ticket) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func position(of ticket: Ticket) -> Int? {
        let position = position(from: ticket)
        return position < entries.count && entries[position].ticket == ticket ? position : nil
    }

    /// - Parameter sequence: the one that a job of the journal has: below all that are given later.
    mutating func reserve(sequence: Int64? = nil) -> Ticket {
        entries.append(Entry(ticket: nextTicket, state: .opening, sequence: sequence))
        nextTicket += 1
        return nextTicket - 1
    }

    /// The frame was opened: a job, or not. Returns the tickets that this settled, in order.
    mutating func open(_ ticket: Ticket, isJob: Bool) -> [Settled] {
        entries[position(of: ticket)!].state = isJob ? .staging : .void
        return settle()
    }

    // MARK: - Sequences

    /// The last sequence of the block that should be reserved now, because at most half of one is left; nil for not yet.
    func reservationDue(block: Int64) -> Int64? {
        reservedThrough - newestSequence > block / 2 ? nil : newestSequence + block
    }

    /// More sequences may be given. Returns the tickets that this settled, in order.
    mutating func extend(through sequence: Int64) -> [Settled] {
        reservedThrough = sequence
        return settle()
    }

    /// The next work is ready, and has no sequence because none is left.
    var isStarved: Bool {
        guard let first = entries.first, case .ready = first.state else { return false }
        return first.sequence == nil
    }

    /// Takes the next work without a sequence; it never gets one. Nil when the next work is not starved.
    mutating func takeStarved() -> (work: Work, settled: [Settled])? {
        guard let first = entries.first, case .ready(let work) = first.state, first.sequence == nil else { return nil }
        let own = Settled(ticket: first.ticket, sequence: nil)
        entries.removeFirst()
        nextToSettle = first.ticket + 1
        return (work, [own] + settle())
    }

    /// Settles tickets, from the first that is not settled.
    private mutating func settle() -> [Settled] {
        var settled: [Settled] = []
        var position = position(from: nextToSettle)
        // Tickets without a job are removed together: removed one by one, each would move its neighbours.
        var retained = position
        loop: while position < entries.count {
            let ticket = entries[position].ticket
            switch entries[position].state {
            case .opening: break loop
            case .void:
                settled.append(Settled(ticket: ticket, sequence: nil))
            case .staging, .ready:
                if entries[position].sequence == nil {
                    guard newestSequence < reservedThrough else { break loop }
                    newestSequence += 1
                    entries[position].sequence = newestSequence
                }
                settled.append(Settled(ticket: ticket, sequence: entries[position].sequence))
                if retained < position { entries.swapAt(retained, position) }
                retained += 1
            }
            position += 1
            nextToSettle = ticket + 1
        }
        entries.removeSubrange(retained..<position)
        return settled
    }

    // MARK: - Work

    /// The job is staged, or has failed: it can be merged when its turn comes.
    mutating func finish(_ ticket: Ticket, _ work: Work) {
        entries[position(of: ticket)!].state = .ready(work)
    }

    /// Whether the job is still in the order, staged or not.
    func holds(_ ticket: Ticket) -> Bool { position(of: ticket).map { entries[$0].state.isJob } ?? false }

    /// Whether the job is still in the order, and staged.
    func isReady(_ ticket: Ticket) -> Bool {
        if let position = position(of: ticket), case .ready = entries[position].state { true } else { false }
    }

    /// The sequence of a job that is still in the order; nil before its ticket is settled.
    func sequence(at ticket: Ticket) -> Int64? { entries[position(of: ticket)!].sequence }

    /// Changes the work of that ticket, if it is ready.
    mutating func change(_ ticket: Ticket, _ body: (Work) -> Work) {
        if let position = position(of: ticket), case .ready(let work) = entries[position].state {
            entries[position].state = .ready(body(work))
        }
    }

    /// Work can be taken.
    var hasReady: Bool {
        guard let first = entries.first, case .ready = first.state else { return false }
        return first.sequence != nil
    }

    /// The next work in order; nil when it is not ready.
    var nextReady: Work? { next?.work }

    /// The same with its sequence.
    var next: (sequence: Int64, work: Work)? {
        guard let first = entries.first, case .ready(let work) = first.state, let sequence = first.sequence else {
            return nil
        }
        return (sequence, work)
    }

    /// Takes the next work in order; nil when it is not ready.
    mutating func takeReady() -> (sequence: Int64, work: Work)? {
        guard let next else { return nil }
        entries.removeFirst()
        return next
    }
}

extension MergeOrder {
    /// Checks the invariants in linear time; the simulation calls it after every event.
    func checkInvariants() throws(InvariantViolation) {
        var lastTicket = -1
        var lastSequence: Int64 = 0
        var isSettled = true
        for entry in entries {
            try InvariantViolation.require(entry.ticket > lastTicket && entry.ticket < nextTicket, "tickets rise")
            lastTicket = entry.ticket
            if let sequence = entry.sequence {
                try InvariantViolation.require(sequence > lastSequence, "sequences rise with tickets")
                lastSequence = sequence
            }
            isSettled = isSettled && entry.ticket < nextToSettle
            try InvariantViolation.require(!isSettled || entry.state.isJob, "a settled ticket has a job")
            try InvariantViolation.require(!isSettled || entry.sequence != nil, "a settled job has a sequence")
        }
        try InvariantViolation.require(newestSequence <= reservedThrough, "only reserved sequences are given")
    }

    /// The number of entries with a job.
    var jobCount: Int { entries.count { $0.state.isJob } }
}
