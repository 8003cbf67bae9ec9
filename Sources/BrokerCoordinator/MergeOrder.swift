internal import DequeModule

/// In which order jobs take effect: the order in which their frames were whole.
///
/// ```
/// reserve ──▶ opening ──▶ a job: staging ──▶ ready ──▶ taken
///                    └──▶ no job: void (skipped)
/// ```
///
/// A frame takes its place before anyone knows what it holds, because opening takes time and must not change the order.
/// Sequences are given to jobs alone, without gaps, as soon as everything before them has been opened.
///
/// Invariants
///  1. Sequences rise with places.
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
    private var nextSequence: Int64

    /// - Parameter sequence: the newest that was given before, 0 for none.
    init(after sequence: Int64) { nextSequence = sequence + 1 }

    /// Nothing is in the order.
    var isEmpty: Bool { entries.isEmpty }

    /// Places that wait to be opened, staged or merged.
    var count: Int { entries.count }

    mutating func reserve() -> Place {
        entries.append(Entry(state: .opening))
        return firstPlace + entries.count - 1
    }

    /// The frame was opened: a job, or not. Gives back the places that this settled, in order.
    mutating func open(_ place: Place, isJob: Bool) -> [Settled] {
        precondition(place >= firstPlace, "a place is opened once")
        entries[place - firstPlace].state = isJob ? .staging : .void
        var settled: [Settled] = []
        loop: while nextToSettle < firstPlace + entries.count {
            let position = nextToSettle - firstPlace
            switch entries[position].state {
            case .opening: break loop
            case .void: settled.append(Settled(place: nextToSettle, sequence: nil))
            case .staging, .ready:
                entries[position].sequence = nextSequence
                settled.append(Settled(place: nextToSettle, sequence: nextSequence))
                nextSequence += 1
            }
            nextToSettle += 1
        }
        dropVoid()
        return settled
    }

    /// The job is staged, or has failed: it can be merged when its turn comes.
    mutating func finish(_ place: Place, _ work: Work) {
        entries[place - firstPlace].state = .ready(work)
    }

    /// Work can be taken.
    var hasReady: Bool {
        guard let first = entries.first, case .ready = first.state else { return false }
        return first.sequence != nil
    }

    /// The next work in order; nil when it is not ready.
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
