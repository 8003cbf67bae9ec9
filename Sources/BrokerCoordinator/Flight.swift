internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A job that is staged, or has failed to be: what the writer takes.
struct ReadyJob: Sendable {
    let id: JobID
    let place: Int
    let contentHash: [UInt8]?
    let policy: InvalidRecordPolicy
    let wantsKeys: Bool
    let wantsObjects: Bool
    let work: StoreJob.Work
    /// Behind `work`, so that the rows are gone when their memory is given back.
    let memory: JobMemory
    let observer: @Sendable (JobEvent) -> Void
    /// Bytes that it keeps from others while it is in flight.
    let weight: Int
    let admittedAt: Int64
    let timing: Timing

    func storeJob(_ sequence: Int64) -> StoreJob { storeJob(sequence, work) }

    /// The job as one that has failed already.
    func failedStoreJob(_ sequence: Int64, _ fault: Fault) -> StoreJob { storeJob(sequence, .refused(fault)) }

    private func storeJob(_ sequence: Int64, _ work: StoreJob.Work) -> StoreJob {
        StoreJob(
            id: id.text, contentHash: contentHash, sequence: sequence, policy: policy, wantsKeys: wantsKeys,
            wantsObjects: wantsObjects, work: work, now: wallClockMilliseconds())
    }
}

/// What the coordinator knows of the jobs between admission and their end. A value behind the coordinator's lock.
struct Flight {
    var order: MergeOrder<ReadyJob>
    /// Weights of everything admitted and not ended.
    var bytes = 0
    var count = 0
    /// Of these, the frames that are not opened yet.
    private(set) var unopened = 0
    /// Of these, the jobs.
    private(set) var jobCount = 0
    var isDraining = false
    /// Nothing will come any more: the writer may end.
    var isStopped = false
    /// Called once, when there is room again.
    var roomWaiters: [@Sendable () -> Void] = []
    /// By place: what to do when it is settled, with the sequence of a job.
    private var whenSettled: [Int: @Sendable (Int64?) -> Void] = [:]
    var running = RunningJobs()
    var ends = JobEnds()
    var kept = KeptFailures()
    /// When jobs are no longer kept for a store that another program has locked, in microseconds of the monotonic clock;
    /// nil for never.
    var lockDeadline: Int64?

    /// - Parameters:
    ///   - sequence: the newest that was told before.
    ///   - reservedThrough: the last one that is set aside for this flight.
    init(after sequence: Int64, reservedThrough: Int64) {
        order = MergeOrder(after: sequence, reservedThrough: reservedThrough)
    }

    /// The writer can go on.
    var hasWork: Bool { order.hasReady || order.isStarved }

    func hasRoom(_ limits: CoordinatorLimits) -> Bool {
        count < limits.jobs && unopened < CoordinatorLimits.unopenedFrames
            && (bytes < limits.bytes || count < CoordinatorLimits.framesOfAnySize)
    }

    /// A frame takes its place.
    mutating func admit(_ weight: Int) -> Int {
        bytes += weight
        count += 1
        unopened += 1
        return order.reserve()
    }

    /// The frame held a job. Gives back what is to be done about the places that this settled.
    mutating func began(
        _ id: JobID, _ place: Int, addedWeight: Int, _ acceptance: (@Sendable (Int64?) -> Void)?
    ) -> [@Sendable () -> Void] {
        bytes += addedWeight
        unopened -= 1
        running.began(id, place)
        ends.began(place)
        jobCount += 1
        whenSettled[place] = acceptance
        return tell(order.open(place, isJob: true))
    }

    /// The frame held no job, or one that was refused.
    ///
    /// - Parameter question: to be asked when everything before it has been opened, with its place.
    mutating func skipped(
        _ place: Int, _ weight: Int, _ question: (@Sendable (Int) -> Void)?
    ) -> [@Sendable () -> Void] {
        bytes -= weight
        count -= 1
        unopened -= 1
        if let question { whenSettled[place] = { _ in question(place) } }
        return tell(order.open(place, isJob: false))
    }

    /// Those who wait for room, when there is some: each is to be told once.
    mutating func takeRoomWaiters(_ limits: CoordinatorLimits) -> [@Sendable () -> Void] {
        guard !roomWaiters.isEmpty, hasRoom(limits) else { return [] }
        defer { roomWaiters = [] }
        return roomWaiters
    }

    /// Gives back who is to be told of that end, or of the committed job's.
    ///
    /// - Parameter isCommitted: a job of its id is committed: this one, or one before it.
    mutating func ended(_ job: ReadyJob, isCommitted: Bool) -> [RunningJobs.Waiter] {
        bytes -= job.weight
        count -= 1
        jobCount -= 1
        ends.ended(job.place)
        return running.ended(job.id, isCommitted: isCommitted)
    }

    /// More sequences are set aside. Gives back what is to be done about the places that this settled.
    mutating func reserved(through sequence: Int64) -> [@Sendable () -> Void] { tell(order.extend(through: sequence)) }

    /// Takes the jobs that can have no sequence, and what is to be done about the places that this settled.
    mutating func takeStarved() -> (jobs: [ReadyJob], tasks: [@Sendable () -> Void]) {
        var jobs: [ReadyJob] = []
        var tasks: [@Sendable () -> Void] = []
        while let (job, settled) = order.takeStarved() {
            jobs.append(job)
            tasks += tell(settled)
        }
        return (jobs, tasks)
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
