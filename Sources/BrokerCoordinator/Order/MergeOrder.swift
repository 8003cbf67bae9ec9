internal import DequeModule

/// In which order jobs take effect: the order in which their frames were whole.
///
/// ```
/// reserve ──▶ opening ──▶ a job: staging ──▶ ready ──▶ taken
///                    └──▶ no job: void (skipped)
/// ```
///
/// A frame takes its place before anyone knows what it holds, because opening takes time and must not change the order.
/// Sequences are given to jobs alone, without gaps, as soon as everything before them has been opened; but only those that
/// have been set aside in the store, because whoever is told one must never see it again on another job.
///
/// Invariants
///  1. Sequences rise with places, and none is above ``reservedThrough``; those that were given before come first.
///  2. Work leaves in the order of sequences, each exactly once; a place that is not ready holds back all behind it.
///  3. A job that fails is work like any other, so that a failure never stalls the order.
///  4. A place that holds no job is gone as soon as it is settled, so that questions cost no memory behind a job that waits.
///
/// A pure value: no threads, no clocks.
struct MergeOrder<Work> {
    typealias Place = Int

    /// A place of which, and of everything before which, it is known what it holds.
    struct Settled: Equatable {
        let place: Place
        /// The job's; nil where there is none.
        let sequence: Int64?
    }

    private enum State {
        case opening
        case void
        case staging
        case ready(Work)
    }

    private struct Entry {
        let place: Place
        var state: State
        var sequence: Int64?
    }

    /// In the order of their places.
    private var entries = Deque<Entry>()
    /// The place that is reserved next.
    private(set) var nextPlace = 0
    /// The first place that is not settled.
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

    /// Places that wait to be opened, staged or merged.
    var count: Int { entries.count }

    /// Where the first entry from that place on stands.
    private func position(from place: Place) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].place < place { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func position(of place: Place) -> Int? {
        let position = position(from: place)
        return position < entries.count && entries[position].place == place ? position : nil
    }

    /// - Parameter sequence: of a job that was given it before, by this log: below all that are given anew.
    mutating func reserve(sequence: Int64? = nil) -> Place {
        entries.append(Entry(place: nextPlace, state: .opening, sequence: sequence))
        nextPlace += 1
        return nextPlace - 1
    }

    /// The frame was opened: a job, or not. Gives back the places that this settled, in order.
    mutating func open(_ place: Place, isJob: Bool) -> [Settled] {
        entries[position(of: place)!].state = isJob ? .staging : .void
        return settle()
    }

    // MARK: - Sequences

    /// Through which sequence a new block should be set aside, because at most half of one is left; nil for not yet.
    func reservationDue(block: Int64) -> Int64? {
        reservedThrough - newestSequence > block / 2 ? nil : newestSequence + block
    }

    /// More sequences may be given. Gives back the places that this settled, in order.
    mutating func extend(through sequence: Int64) -> [Settled] {
        reservedThrough = sequence
        return settle()
    }

    /// The next work is ready, and has no sequence because none is left.
    var isStarved: Bool {
        guard let first = entries.first, case .ready = first.state else { return false }
        return first.sequence == nil
    }

    /// Takes the work that is starved, and never gets a sequence; nil when none is.
    mutating func takeStarved() -> (work: Work, settled: [Settled])? {
        guard let first = entries.first, case .ready(let work) = first.state, first.sequence == nil else { return nil }
        let own = Settled(place: first.place, sequence: nil)
        entries.removeFirst()
        nextToSettle = first.place + 1
        return (work, [own] + settle())
    }

    /// Settles what can be, from the first place that is not.
    private mutating func settle() -> [Settled] {
        var settled: [Settled] = []
        var position = position(from: nextToSettle)
        // Places without a job are taken out together: one by one, each would move what is before or behind it.
        var kept = position
        loop: while position < entries.count {
            let place = entries[position].place
            switch entries[position].state {
            case .opening: break loop
            case .void:
                settled.append(Settled(place: place, sequence: nil))
            case .staging, .ready:
                if entries[position].sequence == nil {
                    guard newestSequence < reservedThrough else { break loop }
                    newestSequence += 1
                    entries[position].sequence = newestSequence
                }
                settled.append(Settled(place: place, sequence: entries[position].sequence))
                if kept < position { entries.swapAt(kept, position) }
                kept += 1
            }
            position += 1
            nextToSettle = place + 1
        }
        entries.removeSubrange(kept..<position)
        return settled
    }

    // MARK: - Work

    /// The job is staged, or has failed: it can be merged when its turn comes.
    mutating func finish(_ place: Place, _ work: Work) {
        entries[position(of: place)!].state = .ready(work)
    }

    /// The job is here, staged or not: nobody has taken it.
    func holds(_ place: Place) -> Bool {
        guard let position = position(of: place) else { return false }
        switch entries[position].state {
        case .staging, .ready: return true
        case .opening, .void: return false
        }
    }

    /// Of the job at that place, which is here; nil before it is settled.
    func sequence(at place: Place) -> Int64? { entries[position(of: place)!].sequence }

    /// Changes the work at that place, if it is ready.
    mutating func change(_ place: Place, _ body: (Work) -> Work) {
        if let position = position(of: place), case .ready(let work) = entries[position].state {
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
        guard let first = entries.first, case .ready(let work) = first.state, let sequence = first.sequence else {
            return nil
        }
        entries.removeFirst()
        return (sequence, work)
    }
}
