internal import DequeModule

/// How much of the memory for jobs in flight each holder has, in the bytes that it really takes.
///
/// ```
/// the first in merge order    ├──────── up to `one` ────────┤
/// the first read from the log ├──────── what it needs ──────┤
/// all others together         ├──── up to `shared` ────┤
/// ```
///
/// Tickets are in merge order, except that a job that was read from the log precedes jobs of this server that have earlier tickets
/// and later positions. The next in the order of positions is the first of one of both kinds.
///
/// Invariants
/// 1. All but these first hold at most `shared` together, beside what was taken by force and what they held when another
///    was first before them.
/// 2. The first is never refused below `one`, and the first of the log never, whatever the others hold: so the order never stalls
///    for want of memory.
/// 3. A waiting holder is woken once: when it has become one of the first, or when the room that it waited for is its own.
///    Until then no later holder takes that room.
///
/// A pure value: no threads, no locks.
struct MemoryShares<Waiter> {
    /// A job's ticket: rising numbers, each added once.
    typealias Ticket = Int

    enum Answer: Equatable {
        case granted
        /// There is no room now.
        case later
        /// There will never be room for so much.
        case never
    }

    private struct Holder {
        let ticket: Ticket
        var bytes: Int
        /// The job was read from the log.
        let isLogged: Bool
        var isGone = false
        /// The bytes that a waiting holder needs, and its wake-up call.
        var waiting: (bytes: Int, waiter: Waiter)?
    }

    /// Bytes that all but the first may hold together.
    let shared: Int
    /// Bytes that one job may hold.
    let one: Int
    private(set) var total = 0
    /// By rising tickets, with some that have left; the first is always present.
    private var holders = Deque<Holder>()
    private var goneCount = 0
    /// The waiting holders, in order; few, because each has at least begun.
    private var waiting: [Ticket] = []

    init(shared: Int, one: Int) {
        self.shared = shared
        self.one = one
    }

    /// Whether the holder is one of the first.
    func isNext(_ ticket: Ticket) -> Bool { position(of: ticket).map { isNext(at: $0) } ?? false }

    private var takenByOthers: Int { total - (holders.first?.bytes ?? 0) }

    /// The index of a holder that has not left.
    private func position(of ticket: Ticket) -> Int? {
        var low = 0
        var high = holders.count
        while low < high {
            let middle = (low + high) / 2
            if holders[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        return low < holders.count && holders[low].ticket == ticket && !holders[low].isGone ? low : nil
    }

    /// Adds a holder after all others, with the bytes that it has already.
    ///
    /// - Parameter isLogged: the job was read from the log, and must be applied.
    mutating func add(_ ticket: Ticket, bytes: Int, isLogged: Bool = false) {
        holders.append(Holder(ticket: ticket, bytes: bytes, isLogged: isLogged))
        total += bytes
    }

    /// - Parameter passesWaiting: takes room also where an earlier holder waits for it, because the amount is small.
    mutating func take(_ bytes: Int, for ticket: Ticket, passesWaiting: Bool = false) -> Answer {
        guard let position = position(of: ticket) else { return .never }
        let held = holders[position].bytes
        let limit = limit(of: holders[position])
        if isNext(at: position) {
            guard held + bytes <= limit else { return .never }
        } else {
            let hasRoom = takenByOthers + bytes <= shared && (passesWaiting || !isWaiting(before: ticket))
            guard hasRoom else { return held + bytes <= limit ? .later : .never }
        }
        holders[position].bytes += bytes
        total += bytes
        return .granted
    }

    /// Takes bytes for a job that is being merged, up to its limit, whatever the others hold: nothing is before it.
    mutating func takeInTurn(_ bytes: Int, for ticket: Ticket) -> Bool {
        guard let position = position(of: ticket),
            holders[position].bytes + bytes <= limit(of: holders[position])
        else { return false }
        hold(bytes, for: ticket)
        return true
    }

    /// The holder has taken that much already, whether there is room or not.
    mutating func hold(_ bytes: Int, for ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        holders[position].bytes += bytes
        total += bytes
    }

    mutating func giveBack(_ bytes: Int, of ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        holders[position].bytes -= bytes
        total -= bytes
    }

    /// The holder gives back everything.
    mutating func remove(_ ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        total -= holders[position].bytes
        holders[position].isGone = true
        holders[position].bytes = 0
        if holders[position].waiting != nil {
            holders[position].waiting = nil
            waiting.removeAll { $0 == ticket }
        }
        goneCount += 1
        while let first = holders.first, first.isGone {
            holders.removeFirst()
            goneCount -= 1
        }
        // Holders that have left after a first one that stays are removed now and then, at the cost of adding them.
        if goneCount > 32, goneCount * 2 > holders.count {
            holders.removeAll { $0.isGone }
            goneCount = 0
        }
    }

    /// The holder waits for `bytes` of room beside what it has, or until it is the first.
    mutating func wait(_ ticket: Ticket, for bytes: Int, _ waiter: Waiter) {
        guard let position = position(of: ticket) else { return }
        holders[position].waiting = (bytes, waiter)
        waiting.insert(ticket, at: waiting.firstIndex { $0 > ticket } ?? waiting.count)
    }

    /// Takes the holders that need not wait any longer, in order. The room that each waited for is its own now; the
    /// first gets what there is.
    mutating func takeWoken() -> [(waiter: Waiter, granted: Int)] {
        guard !waiting.isEmpty else { return [] }
        var woken: [(Waiter, Int)] = []
        for ticket in waiting {
            guard let position = position(of: ticket), let (bytes, waiter) = holders[position].waiting else { continue }
            if take(bytes, for: ticket) == .granted {
                woken.append((waiter, bytes))
            } else if isNext(at: position) {
                woken.append((waiter, 0))
            } else {
                // Later ones do not take the room for which this one waits.
                continue
            }
            holders[position].waiting = nil
            waiting.removeAll { $0 == ticket }
        }
        return woken
    }

    private func isNext(at position: Int) -> Bool {
        position == 0
            || holders[position].isLogged && !holders.prefix(position).contains { $0.isLogged && !$0.isGone }
    }

    private func limit(of holder: Holder) -> Int { holder.isLogged ? .max : one }

    private func isWaiting(before ticket: Ticket) -> Bool { waiting.first.map { $0 < ticket } ?? false }
}
