internal import DequeModule

/// The jobs in flight by their places and sources, and who waits until those before a place have ended. A pure value.
///
/// Jobs begin in any order, though rarely by much, and end in the order of their places.
struct CompletionBarrier {
    typealias Waiter = @Sendable () -> Void

    /// Of every source.
    private var all = Line()
    /// By source, while it has a job in flight.
    private var lines: [Int: Line] = [:]
    /// Those who need not wait any longer.
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

    /// Waits until every job before the place has ended. All of them must have begun.
    ///
    /// - Returns: false when there is nothing to wait for; the waiter is then not kept.
    mutating func wait(before place: Int, _ waiter: @escaping Waiter) -> Bool { all.wait(before: place, waiter) }

    /// The same for the jobs of one source.
    mutating func wait(before place: Int, from source: Int, _ waiter: @escaping Waiter) -> Bool {
        lines[source]?.wait(before: place, waiter) ?? false
    }

    /// Takes those who need not wait any longer; each is to be told once.
    mutating func takeReady() -> [Waiter] {
        guard !ready.isEmpty else { return [] }
        defer { ready = [] }
        return ready
    }

    private struct Line {
        /// In order.
        private var places = Deque<Int>()
        /// In the order of their places.
        private var waiting = Deque<(place: Int, waiter: Waiter)>()

        /// Whoever waits, waits for a job.
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
