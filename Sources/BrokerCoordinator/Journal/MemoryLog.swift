internal import DequeModule

/// The log of a server without a journal: it gives positions at once, as far as the store has reserved them. A pure value.
///
/// Only reserved positions are given, because a client that was sent one must never see it on another job, and after a crash
/// nothing but the store remembers them.
struct MemoryLog {
    /// The newest position that was given, by this log or before it; 0 for none.
    private(set) var newest: Int64
    /// Positions up to this one may be given.
    private(set) var reservedThrough: Int64
    /// Jobs that have no position yet, in order, with their times.
    private var waiting = Deque<(ticket: Int, time: Int64)>()
    private var time: Int64 = 0

    /// - Parameters:
    ///   - position: the newest that was given before, 0 for none.
    ///   - reservedThrough: the last one that may be given until ``extend(through:)``.
    init(after position: Int64, reservedThrough: Int64) {
        newest = position
        self.reservedThrough = reservedThrough
    }

    mutating func append(_ ticket: Int, at time: Int64) { waiting.append((ticket, time)) }

    /// The next job with its place; nil when there is none, or no position is reserved.
    mutating func read() -> (ticket: Int, place: LogPlace)? {
        guard newest < reservedThrough, let first = waiting.popFirst() else { return nil }
        newest += 1
        time = max(time, first.time)
        return (first.ticket, LogPlace(position: newest, time: time))
    }

    /// Jobs wait for a reservation.
    var isStarved: Bool { !waiting.isEmpty }

    /// No more can be reserved: the waiting jobs get no position. Returns their tickets.
    mutating func refuse() -> [Int] {
        defer { waiting = [] }
        return waiting.map(\.ticket)
    }

    // MARK: - Reserving

    /// The last position of the block that should be reserved now, because at most half of one is left; nil for not yet.
    func reservationDue(block: Int64) -> Int64? {
        reservedThrough - newest > block / 2 ? nil : newest + block
    }

    /// More positions may be given.
    mutating func extend(through position: Int64) { reservedThrough = position }

    /// Another log has given that position.
    mutating func note(_ position: Int64) { newest = max(newest, position) }
}
