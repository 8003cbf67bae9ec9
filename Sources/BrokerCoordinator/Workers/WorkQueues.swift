internal import DequeModule

/// Tasks of several sources: those of one source in order, the sources of a user in turn, and the users in turn, so that more
/// connections give no user more turns.
struct TurnQueue<Task> {
    private struct User {
        let user: UInt32
        /// Sources that have tasks, each once; the next turn is the first one's.
        var sources: Deque<(source: Int, tasks: Deque<Task>)>
    }

    /// Users that have tasks, each once. No more than there are clients, as their sources.
    private var users = Deque<User>()
    private(set) var count = 0

    mutating func append(_ task: Task, from source: Int, of user: UInt32 = 0) {
        count += 1
        guard let turn = users.firstIndex(where: { $0.user == user }) else {
            return users.append(User(user: user, sources: [(source, [task])]))
        }
        if let own = users[turn].sources.firstIndex(where: { $0.source == source }) {
            users[turn].sources[own].tasks.append(task)
        } else {
            users[turn].sources.append((source, [task]))
        }
    }

    mutating func popFirst() -> Task? {
        guard var user = users.popFirst(), var own = user.sources.popFirst() else { return nil }
        count -= 1
        let task = own.tasks.removeFirst()
        if !own.tasks.isEmpty { user.sources.append(own) }
        if !user.sources.isEmpty { users.append(user) }
        return task
    }
}

/// The tasks of the workers, and their order.
///
/// Brief tasks and long ones take turns, so that neither delays the other much. At most ``longLimit`` long ones run at
/// a time, so that a worker is always free soon for brief ones; and at most ``longLimitBesideWriter`` are begun while
/// the writer is busy, which then has a processor to itself, because everything waits for it. In both queues users and their
/// sources take turns: whatever one asks for, another's first task waits for one task of each at most.
///
/// A worker is woken when more brief tasks wait than the awake workers will soon run.
///
/// A pure value: no threads.
struct WorkQueues<Task> {
    enum Length {
        /// A brief task that takes no longer than waking a worker.
        case short
        case brief, long

        fileprivate var isLong: Bool { self == .long }
    }

    let longLimit: Int
    let longLimitBesideWriter: Int
    private var isWriterBusy = false
    private var brief = TurnQueue<(task: Task, length: Length)>()
    private var long = TurnQueue<(task: Task, length: Length)>()
    private var longRunning = 0
    private var shortRunning = 0
    private var wasLong = true

    /// The processors are those that the workers share with the writer.
    init(longLimit: Int, processors: Int = .max) {
        self.longLimit = longLimit
        longLimitBesideWriter = max(1, min(longLimit, processors - 1))
    }

    var isEmpty: Bool { brief.count == 0 && long.count == 0 }

    /// Whether a worker should be woken. A long task wakes a worker of its own, so that the worker that takes it leaves another for
    /// the brief ones.
    mutating func append(_ task: Task, _ length: Length, from source: Int, of user: UInt32 = 0) -> Bool {
        guard !length.isLong else {
            long.append((task, length), from: source, of: user)
            return true
        }
        brief.append((task, length), from: source, of: user)
        return brief.count > shortRunning
    }

    /// The next task for an idle worker; nil when there is none that it may take.
    mutating func next() -> (task: Task, length: Length)? {
        guard let next = wasLong ? takeBrief() ?? takeLong() : takeLong() ?? takeBrief() else { return nil }
        wasLong = next.length.isLong
        return next
    }

    /// A task that was taken has ended. Returns whether others may be taken now that could not before.
    mutating func ended(_ length: Length) -> Bool {
        switch length {
        case .short: shortRunning -= 1
        case .brief: break
        case .long:
            longRunning -= 1
            return !isEmpty
        }
        return false
    }

    /// Whether others may be taken now that could not before.
    mutating func writer(isBusy: Bool) -> Bool {
        isWriterBusy = isBusy
        return !isBusy && long.count > 0
    }

    private mutating func takeBrief() -> (task: Task, length: Length)? {
        guard let next = brief.popFirst() else { return nil }
        if next.length == .short { shortRunning += 1 }
        return next
    }

    private mutating func takeLong() -> (task: Task, length: Length)? {
        let limit = isWriterBusy ? longLimitBesideWriter : longLimit
        guard longRunning < limit, let next = long.popFirst() else { return nil }
        longRunning += 1
        return next
    }
}

extension Deque {
    /// The index of the element with that ticket; the elements are in the order of rising tickets.
    func index(of ticket: Int, by ticketOf: (Element) -> Int) -> Int? {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if ticketOf(self[middle]) < ticket { low = middle + 1 } else { high = middle }
        }
        return low < count && ticketOf(self[low]) == ticket ? low : nil
    }
}
