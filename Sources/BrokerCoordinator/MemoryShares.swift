internal import DequeModule

/// Who holds how much of the memory for jobs in flight, in the bytes that they really take.
///
/// ```
/// the first in merge order ├──────── up to `one` ────────┤
/// all others together      ├──── up to `shared` ────┤
/// ```
///
/// Invariants
///  1. All but the first hold at most `shared` together, beside what was taken by force and what they held when another
///     was first before them.
///  2. The first is never refused below `one`, whatever the others hold: so the order never stalls for want of memory.
///  3. Who waits is woken once: when it has become the first, or with the room that it waited for already its own. Until
///     then nobody behind it takes that room away.
///
/// A pure value: no threads, no locks.
struct MemoryShares<Waiter> {
    /// A job's place in merge order: rising numbers, each added once.
    typealias Place = Int

    enum Answer: Equatable {
        case granted
        /// There is no room now.
        case later
        /// There will never be room for so much.
        case never
    }

    private struct Holder {
        var bytes: Int
        /// Of somebody who waits: what it needs, and what wakes it.
        var waiting: (bytes: Int, waiter: Waiter)?
    }

    /// Bytes that all but the first may hold together.
    let shared: Int
    /// Bytes that one job may hold.
    let one: Int
    private(set) var total = 0
    private var holders: [Place: Holder] = [:]
    /// Places in order, with some that are gone; the first is always there.
    private var order = Deque<Place>()
    /// Those who wait, in order; few, because each has at least begun.
    private var waiting: [Place] = []

    init(shared: Int, one: Int) {
        self.shared = shared
        self.one = one
    }

    var first: Place? { order.first }

    private var takenByOthers: Int { total - (first.flatMap { holders[$0]?.bytes } ?? 0) }

    /// Adds a holder behind all others, with what it holds already.
    mutating func add(_ place: Place, bytes: Int) {
        holders[place] = Holder(bytes: bytes)
        order.append(place)
        total += bytes
    }

    /// - Parameter passesWaiting: takes room also where an earlier place waits for it, because what is taken is little.
    mutating func take(_ bytes: Int, for place: Place, passesWaiting: Bool = false) -> Answer {
        guard let held = holders[place]?.bytes else { return .never }
        if place == first {
            guard held + bytes <= one else { return .never }
        } else {
            let hasRoom = takenByOthers + bytes <= shared && (passesWaiting || !isWaiting(before: place))
            guard hasRoom else { return held + bytes <= one ? .later : .never }
        }
        holders[place]?.bytes += bytes
        total += bytes
        return .granted
    }

    /// The place has taken so much already, whether there is room or not.
    mutating func hold(_ bytes: Int, for place: Place) {
        guard holders[place] != nil else { return }
        holders[place]?.bytes += bytes
        total += bytes
    }

    mutating func giveBack(_ bytes: Int, of place: Place) {
        holders[place]?.bytes -= bytes
        total -= bytes
    }

    /// Everything of the place is gone.
    mutating func remove(_ place: Place) {
        guard let holder = holders.removeValue(forKey: place) else { return }
        total -= holder.bytes
        waiting.removeAll { $0 == place }
        while let first = order.first, holders[first] == nil { order.removeFirst() }
        // Those that are gone behind a first that stays are swept up now and then, for the price of adding them.
        if order.count > 64, order.count > holders.count * 2 { order.removeAll { holders[$0] == nil } }
    }

    /// The place waits for `bytes` of room beside what it holds, or until it is the first.
    mutating func wait(_ place: Place, for bytes: Int, _ waiter: Waiter) {
        holders[place]?.waiting = (bytes, waiter)
        waiting.insert(place, at: waiting.firstIndex { $0 > place } ?? waiting.count)
    }

    /// Those who need not wait any longer, in order; the room that each waited for is its own now, but for the first's,
    /// which gets what there is.
    mutating func takeWoken() -> [(waiter: Waiter, granted: Int)] {
        guard !waiting.isEmpty else { return [] }
        var woken: [(Waiter, Int)] = []
        for place in waiting {
            guard let (bytes, waiter) = holders[place]?.waiting else { continue }
            if take(bytes, for: place) == .granted {
                woken.append((waiter, bytes))
            } else if place == first {
                woken.append((waiter, 0))
            } else {
                // Who comes later must not take the room away for which an earlier one waits.
                break
            }
            holders[place]?.waiting = nil
            waiting.removeFirst()
        }
        return woken
    }

    private func isWaiting(before place: Place) -> Bool { waiting.first.map { $0 < place } ?? false }
}
