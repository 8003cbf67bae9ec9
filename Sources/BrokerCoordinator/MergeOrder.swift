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
        var state: State
        var sequence: Int64?
    }

    private var entries = Deque<Entry>()
    private var firstPlace = 0
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

    /// The place that is reserved next.
    var nextPlace: Place { firstPlace + entries.count }

    /// - Parameter sequence: of a job that was given it before, by this log: below all that are given anew.
    mutating func reserve(sequence: Int64? = nil) -> Place {
        entries.append(Entry(state: .opening, sequence: sequence))
        return nextPlace - 1
    }

    /// The frame was opened: a job, or not. Gives back the places that this settled, in order.
    mutating func open(_ place: Place, isJob: Bool) -> [Settled] {
        entries[place - firstPlace].state = isJob ? .staging : .void
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
        let own = Settled(place: firstPlace, sequence: nil)
        entries.removeFirst()
        firstPlace += 1
        nextToSettle = firstPlace
        return (work, [own] + settle())
    }

    /// Settles what can be, from the first place that is not.
    private mutating func settle() -> [Settled] {
        var settled: [Settled] = []
        loop: for position in (nextToSettle - firstPlace)..<entries.count {
            switch entries[position].state {
            case .opening: break loop
            case .void: settled.append(Settled(place: nextToSettle, sequence: nil))
            case .staging where entries[position].sequence != nil, .ready where entries[position].sequence != nil:
                settled.append(Settled(place: nextToSettle, sequence: entries[position].sequence))
            case .staging, .ready:
                guard newestSequence < reservedThrough else { break loop }
                newestSequence += 1
                entries[position].sequence = newestSequence
                settled.append(Settled(place: nextToSettle, sequence: newestSequence))
            }
            nextToSettle += 1
        }
        dropVoid()
        return settled
    }

    // MARK: - Work

    /// The job is staged, or has failed: it can be merged when its turn comes.
    mutating func finish(_ place: Place, _ work: Work) {
        entries[place - firstPlace].state = .ready(work)
    }

    /// The job is here, staged or not: nobody has taken it.
    func holds(_ place: Place) -> Bool {
        guard place >= firstPlace, place < nextPlace else { return false }
        switch entries[place - firstPlace].state {
        case .staging, .ready: return true
        case .opening, .void: return false
        }
    }

    /// Of the job at that place, which is here; nil before it is settled.
    func sequence(at place: Place) -> Int64? { entries[place - firstPlace].sequence }

    /// Changes the work at that place, if it is ready.
    mutating func change(_ place: Place, _ body: (Work) -> Work) {
        if case .ready(let work) = entries[place - firstPlace].state {
            entries[place - firstPlace].state = .ready(body(work))
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
        firstPlace += 1
        dropVoid()
        return (sequence, work)
    }

    private mutating func dropVoid() {
        while let first = entries.first, case .void = first.state {
            entries.removeFirst()
            firstPlace += 1
        }
    }
}
