internal import DequeModule

/// The jobs in flight by ticket and source, and the callers that wait until all jobs before a ticket have ended. A pure
/// value.
///
/// Jobs begin almost in the order of their tickets, and end exactly in that order.
struct CompletionBarrier {
    typealias Waiter = @Sendable () -> Void

    /// The jobs of all sources.
    private var all = Line()
    /// The jobs of each source that has one in flight.
    private var lines: [Int: Line] = [:]
    /// Waiters whose condition is met, until ``takeReady()``.
    private var ready: [Waiter] = []

    mutating func began(_ place: Int, from source: Int) {
        all.began(place)
        lines[source, default: Line()].began(place)
    }

    mutating func ended(_ place: Int, from source: Int) {
        all.ended(place, &ready)
        guard var line = lines.removeValue(forKey: source) else { return }
        line.ended(place, &ready)
        if !line.isEmpty { lines[source] = line }
    }

    /// Registers a waiter for the end of every job before the ticket. All of those jobs must have begun.
    ///
    /// - Returns: false when there is nothing to wait for; the waiter is then not registered.
    mutating func wait(before place: Int, _ waiter: @escaping Waiter) -> Bool { all.wait(before: place, waiter) }

    /// The same for the jobs of one source.
    mutating func wait(before place: Int, from source: Int, _ waiter: @escaping Waiter) -> Bool {
        lines[source]?.wait(before: place, waiter) ?? false
    }

    /// Takes the waiters whose condition is met; the caller calls each once.
    mutating func takeReady() -> [Waiter] {
        guard !ready.isEmpty else { return [] }
        defer { ready = [] }
        return ready
    }

    private struct Line {
        /// Tickets of the jobs in flight, rising.
        private var places = Deque<Int>()
        /// Waiters, by rising tickets.
        private var waiting = Deque<(place: Int, waiter: Waiter)>()

        /// No job is in flight, so no caller waits.
        var isEmpty: Bool { places.isEmpty }

        mutating func began(_ place: Int) {
            let position = (places.lastIndex { $0 < place } ?? -1) + 1
            places.insert(place, at: position)
        }

        mutating func ended(_ place: Int, _ ready: inout [Waiter]) {
            if places.first == place {
                places.removeFirst()
            } else if let position = places.firstIndex(of: place) {
                places.remove(at: position)
            }
            while let first = waiting.first, !hasJob(before: first.place) {
                ready.append(first.waiter)
                waiting.removeFirst()
            }
        }

        mutating func wait(before place: Int, _ waiter: @escaping Waiter) -> Bool {
            guard hasJob(before: place) else { return false }
            let position = (waiting.lastIndex { $0.place <= place } ?? -1) + 1
            waiting.insert((place, waiter), at: position)
            return true
        }

        private func hasJob(before place: Int) -> Bool { places.first.map { $0 < place } ?? false }
    }
}
