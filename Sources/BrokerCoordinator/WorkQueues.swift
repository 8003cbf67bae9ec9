internal import DequeModule

/// Tasks of several sources: each source's own in order, the sources in turn.
struct TurnQueue<Task> {
    /// Sources that have tasks, each once; whose turn it is comes first. No more than there are clients.
    private var turns = Deque<(source: Int, tasks: Deque<Task>)>()
    private(set) var count = 0

    mutating func append(_ task: Task, from source: Int) {
        if let turn = turns.firstIndex(where: { $0.source == source }) {
            turns[turn].tasks.append(task)
        } else {
            turns.append((source, [task]))
        }
        count += 1
    }

    mutating func popFirst() -> Task? {
        guard var own = turns.popFirst() else { return nil }
        let task = own.tasks.removeFirst()
        if !own.tasks.isEmpty { turns.append(own) }
        count -= 1
        return task
    }
}

/// What the workers are to do, and who does what next.
///
/// Brief tasks and long ones take turns, so that neither keeps the other waiting; at most ``longLimit`` long ones run at
/// a time, so that a worker is always near for brief ones. In both, sources take turns: whatever one source asks for,
/// another's first task waits for one task of each source at most.
///
/// A pure value: no threads.
struct WorkQueues<Task> {
    enum Length { case brief, long }

    let longLimit: Int
    private(set) var brief = TurnQueue<Task>()
    private(set) var long = TurnQueue<Task>()
    private var longRunning = 0
    private var lastTaken = Length.long

    init(longLimit: Int) { self.longLimit = longLimit }

    var isEmpty: Bool { brief.count == 0 && long.count == 0 }

    mutating func append(_ task: Task, _ length: Length, from source: Int) {
        switch length {
        case .brief: brief.append(task, from: source)
        case .long: long.append(task, from: source)
        }
    }

    /// The next task for a worker that has nothing to do; nil when there is none that it may take.
    mutating func next() -> (task: Task, length: Length)? {
        let order: [Length] = lastTaken == .brief ? [.long, .brief] : [.brief, .long]
        for length in order {
            guard let task = take(length) else { continue }
            lastTaken = length
            return (task, length)
        }
        return nil
    }

    /// A long task is done; another may be taken.
    mutating func longEnded() { longRunning -= 1 }

    private mutating func take(_ length: Length) -> Task? {
        guard length == .long else { return brief.popFirst() }
        guard longRunning < longLimit, let task = long.popFirst() else { return nil }
        longRunning += 1
        return task
    }
}
