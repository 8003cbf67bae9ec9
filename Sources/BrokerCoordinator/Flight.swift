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
    /// Of these, the jobs.
    private(set) var jobCount = 0
    var isDraining = false
    /// Nothing will come any more: the writer may end.
    var isStopped = false
    /// Called once, when there is room again.
    var roomWaiters: [@Sendable () -> Void] = []
    /// By place: what to do when it is settled, with the sequence of a job.
    private var whenSettled: [Int: @Sendable (Int64?) -> Void] = [:]
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

    /// The frame held a job. Gives back what is to be done about the places that this settled.
    mutating func began(
        _ id: String, _ place: Int, addedWeight: Int, _ acceptance: (@Sendable (Int64?) -> Void)?
    ) -> [@Sendable () -> Void] {
        bytes += addedWeight
        running[id, default: (0, [])].count += 1
        jobCount += 1
        whenSettled[place] = acceptance
        return tell(order.open(place, isJob: true))
    }

    /// The frame held no job, or one that was refused.
    ///
    /// - Parameter question: to be asked when everything before it has been opened.
    mutating func skipped(
        _ place: Int, _ weight: Int, _ question: (@Sendable () -> Void)?
    ) -> [@Sendable () -> Void] {
        bytes -= weight
        count -= 1
        if let question { whenSettled[place] = { _ in question() } }
        return tell(order.open(place, isJob: false))
    }

    /// Those who wait for room, when there is some: each is to be told once.
    mutating func takeRoomWaiters(_ limits: CoordinatorLimits) -> [@Sendable () -> Void] {
        guard !roomWaiters.isEmpty, hasRoom(limits) else { return [] }
        defer { roomWaiters = [] }
        return roomWaiters
    }

    /// Gives back who awaited that job.
    mutating func ended(_ id: String, _ weight: Int) -> [Waiter] {
        bytes -= weight
        count -= 1
        jobCount -= 1
        guard var entry = running[id] else { return [] }
        entry.count -= 1
        defer { running[id] = entry.count > 0 ? (entry.count, []) : nil }
        return entry.waiters
    }

    /// Whether a job of that id is in flight, whose end the waiter will then be told.
    mutating func await(_ id: String, _ waiter: @escaping Waiter) -> Bool {
        running[id]?.waiters.append(waiter) != nil
    }

    private mutating func tell(_ settled: [MergeOrder<ReadyJob>.Settled]) -> [@Sendable () -> Void] {
        guard !whenSettled.isEmpty else { return [] }
        var tasks: [@Sendable () -> Void] = []
        for place in settled {
            guard let tell = whenSettled.removeValue(forKey: place.place) else { continue }
            let sequence = place.sequence
            tasks.append { tell(sequence) }
        }
        return tasks
    }
}
