internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A job that is staged, or has failed to be: what the writer takes.
struct ReadyJob: Sendable {
    let id: String
    let contentHash: [UInt8]?
    let policy: InvalidRecordPolicy
    let wantsKeys: Bool
    let work: StoreJob.Work
    let observer: @Sendable (JobEvent) -> Void
    /// Bytes that it keeps from others while it is in flight.
    let weight: Int
    let admittedAt: Int64
    let timing: Timing

    func storeJob(_ sequence: Int64) -> StoreJob {
        StoreJob(
            id: id, contentHash: contentHash, sequence: sequence, policy: policy, wantsKeys: wantsKeys, work: work,
            now: wallClockMilliseconds())
    }
}

/// What the coordinator knows of the jobs between admission and their end. A value behind the coordinator's lock.
struct Flight {
    typealias Waiter = @Sendable (JobEnding) -> Void

    var order: MergeOrder<ReadyJob>
    /// Weights of everything admitted and not ended.
    var bytes = 0
    var count = 0
    var isDraining = false
    /// Nothing will come any more: the writer may end.
    var isStopped = false
    /// Called once, when there is room again.
    var roomWaiters: [@Sendable () -> Void] = []
    /// By place: what to tell when the ticket is given.
    private var acceptances: [Int: @Sendable (Int64) -> Void] = [:]
    /// By id: how many jobs of that id are in flight, and who awaits its end.
    private var running: [String: (count: Int, waiters: [Waiter])] = [:]

    init(after sequence: Int64) { order = MergeOrder(after: sequence) }

    func hasRoom(_ limits: CoordinatorLimits) -> Bool { bytes < limits.bytes && count < limits.jobs }

    /// A frame takes its place.
    mutating func admit(_ weight: Int) -> Int {
        bytes += weight
        count += 1
        return order.reserve()
    }

    /// The frame held a job. Gives back what is to be told of the tickets that this settled.
    mutating func began(
        _ id: String, _ place: Int, addedWeight: Int, _ acceptance: (@Sendable (Int64) -> Void)?
    ) -> [@Sendable () -> Void] {
        bytes += addedWeight
        running[id, default: (0, [])].count += 1
        acceptances[place] = acceptance
        return tell(order.open(place, isJob: true))
    }

    /// The frame held no job, or one that was refused.
    mutating func skipped(_ place: Int, _ weight: Int) -> [@Sendable () -> Void] {
        bytes -= weight
        count -= 1
        return tell(order.open(place, isJob: false))
    }

    /// Gives back who awaited that job.
    mutating func ended(_ id: String, _ weight: Int) -> [Waiter] {
        bytes -= weight
        count -= 1
        guard var entry = running[id] else { return [] }
        entry.count -= 1
        defer { running[id] = entry.count > 0 ? (entry.count, []) : nil }
        return entry.waiters
    }

    /// Whether a job of that id is in flight, whose end the waiter will then be told.
    mutating func await(_ id: String, _ waiter: @escaping Waiter) -> Bool {
        running[id]?.waiters.append(waiter) != nil
    }

    private mutating func tell(_ tickets: [MergeOrder<ReadyJob>.Ticket]) -> [@Sendable () -> Void] {
        guard !acceptances.isEmpty else { return [] }
        var tasks: [@Sendable () -> Void] = []
        for ticket in tickets {
            guard let tell = acceptances.removeValue(forKey: ticket.place) else { continue }
            let sequence = ticket.sequence
            tasks.append { tell(sequence) }
        }
        return tasks
    }
}
