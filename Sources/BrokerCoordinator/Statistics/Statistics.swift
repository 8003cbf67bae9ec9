internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import Histogram

/// The counters of the coordinator. Cheap enough for every job: one lock and a few additions.
final class Statistics: Sendable {
    struct Counters {
        var accepted = 0
        private(set) var failures: [FaultCode: Int] = [:]
        /// Since the start.
        private(set) var totals = RecentJobs.Slot.Counts()
        /// Rejected records by entity: as many as the models have had since the start.
        var rejects: [String: Int] = [:]
        /// What warnings count, by their entities and codes.
        var warnings: [String: [Warning.Code: Int]] = [:]
        /// Steps whose records were applied one after the other, by the reason.
        var interpreted: [InterpretationReason: Int] = [:]
        var latencies = Latencies()
        /// In the order of ``StageTimes/names``.
        var buckets = StageTimes.names.map { _ in LatencyBuckets() }
        var batches = Batches()
        var recent: RecentJobs
        var slow: SlowJobs
        var ended = EndedJobs()
        var store = StoreState.serving {
            // A halt is for good; only a failed disk is worse.
            didSet { if case .halted = oldValue, !store.isFailed { store = oldValue } }
        }
        /// Bytes that the store had no room for, 1 MiB at most, until there is room for them; nil for none.
        var refusedBytes: Int?
        var lastReload: LastReload?
        /// The store after the newest commit.
        var facts = StoreFacts()
        /// When the newest backup was done, in milliseconds since 1970, also by an earlier server.
        var backedUpAt: Int64?
        /// The newest sequence that a backup of this run contains; 0 for none.
        var backedUpThrough: Int64 = 0
        /// That under the model in force; nil without a journal.
        var fingerprint: String?

        /// A transaction has succeeded.
        mutating func noteServing() {
            if refusedBytes == nil { store = .serving }
        }

        mutating func noteFailure(_ code: FaultCode, at now: Int64) {
            totals.failed += 1
            failures[code, default: 0] += 1
            recent.note(at: now) { $0.counts.failed += 1 }
        }
    }

    private let counters: Monitor<Counters>
    let startedAt: Int64
    let slowObserver = Callback<EndedJob>()

    init(slow: Int64 = SlowJobs.defaultMicroseconds) {
        startedAt = monotonicMicroseconds()
        counters = Monitor(Counters(recent: RecentJobs(at: startedAt), slow: SlowJobs(from: slow)))
    }

    func count(_ body: (inout Counters) -> Void) { counters.withLock(body) }

    /// Notes the store after a commit.
    func note(_ store: Store) {
        let facts = StoreFacts(store)
        count { $0.facts = facts }
    }

    var now: Counters { counters.withLock { $0 } }

    var slowJobs: [EndedJob] { counters.withLock { $0.slow.byWork } }

    /// Those of that id that are remembered, the newest first.
    func endedJobs(_ id: String) -> [EndedJob] { counters.withLock { $0.ended.find(id) } }

    func reports(_ jobs: [EndedJob]) -> [@Sendable () -> Void] {
        slowObserver.isSet ? jobs.map { job in { self.slowObserver(job) } } : []
    }
}

/// What `stats` shows of the store.
struct StoreFacts {
    var wal = WALStatus()
    /// Lines of the ledger.
    var outcomes = 0
    /// When the job of the oldest line ended.
    var oldestOutcomeAt: Int64?
    /// The newest sequence whose outcome may be forgotten.
    var forgottenThrough: Int64 = 0
    var rejects = RejectTally()
    /// Nil without a journal.
    var history: StateDigest?

    init() {}

    init(_ store: Store) {
        (wal, rejects) = (store.wal, store.rejectTally)
        (outcomes, oldestOutcomeAt) = (store.outcomeCount, store.oldestOutcomeTime)
        (forgottenThrough, history) = (store.forgottenThrough, store.history)
    }
}

extension ChangeCounts {
    mutating func add(_ other: ChangeCounts) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }
}

/// How the last change of the model by a reload or a migration ended.
struct LastReload {
    /// In milliseconds since 1970.
    let time: Int64
    /// Why the model before it stays in effect; nil for a change that was made.
    let refusal: String?

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("at", time)
            writer.member("successful", refusal == nil)
            if let refusal { writer.member("reason", refusal) }
        }
    }
}

/// The numbers of jobs in the transactions, and the times of their COMMITs, since the start.
struct Batches {
    private static let mostJobs: UInt64 = 1_000_000
    private static let mostMicroseconds: UInt64 = 3_600_000_000

    private var jobs = Histogram<UInt32>(highestTrackableValue: mostJobs, numberOfSignificantValueDigits: .two)
    private var microseconds = Histogram<UInt32>(
        highestTrackableValue: mostMicroseconds, numberOfSignificantValueDigits: .two)
    private(set) var commits = LatencyBuckets()

    mutating func record(jobs count: Int) { _ = jobs.record(min(Self.mostJobs, UInt64(count))) }

    mutating func record(commitMicroseconds time: Int64) {
        _ = microseconds.record(min(Self.mostMicroseconds, UInt64(max(0, time))))
        commits.record(max(0, time))
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("jobs", jobs)
            writer.member("commitMicroseconds", microseconds)
        }
    }
}

/// Whether the store takes writes, for `stats`.
enum StoreState {
    case serving
    /// It takes none at the moment: with a journal, or while another program has locked it, jobs wait; else they fail.
    case waiting(cause: String)
    /// It takes none any more.
    case failed(cause: String)
    /// It takes no more entries of a shared log; reads go on.
    case halted(cause: String)

    var name: String {
        switch self {
        case .serving: "serving"
        case .waiting: "waiting"
        case .failed: "failed"
        case .halted: "halted"
        }
    }

    var isFailed: Bool { if case .failed = self { true } else { false } }

    var cause: String? {
        switch self {
        case .serving: nil
        case .waiting(let cause), .failed(let cause), .halted(let cause): cause
        }
    }
}

struct Latencies {
    /// An hour, in microseconds: longer times are counted as that.
    private static let highest: UInt64 = 3_600_000_000

    private var histograms: [Histogram<UInt32>]

    /// - Parameter digits: the digits that percentiles have; one takes 3 KiB for all stages, two take 96.
    init(digits: SignificantDigits = .two) {
        histograms = StageTimes.names.map { _ in
            Histogram<UInt32>(highestTrackableValue: Self.highest, numberOfSignificantValueDigits: digits)
        }
    }

    mutating func record(_ times: StageTimes) {
        let values = times.values
        for stage in StageTimes.stages(isJournaled: times.isJournaled) {
            _ = histograms[stage].record(min(Self.highest, UInt64(max(0, values[stage]))))
        }
    }

    mutating func add(_ other: Latencies) {
        for stage in histograms.indices { histograms[stage].add(other.histograms[stage]) }
    }

    func write(to writer: inout JSONWriter, isJournaled: Bool) {
        writer.object { writer in
            for stage in StageTimes.stages(isJournaled: isJournaled) {
                writer.member(StageTimes.names[stage], histograms[stage])
            }
        }
    }
}

/// The slow jobs that are remembered. A pure value.
///
/// One long job makes many others wait, which end after it. So the jobs with the least work of their own are forgotten first,
/// after those of more than an hour ago.
struct SlowJobs {
    static let maximumCount = 64
    /// From this time on a job is slow, unless the operator gives another one.
    static let defaultMicroseconds: Int64 = 1_000_000
    private static let agedMilliseconds: Int64 = 3_600_000

    let microseconds: Int64
    private(set) var jobs: [EndedJob] = []

    init(from microseconds: Int64) { self.microseconds = microseconds }

    mutating func add(_ job: EndedJob) {
        jobs.append(job)
        guard jobs.count > Self.maximumCount else { return }
        let aged = jobs.firstIndex { $0.acceptedAt < job.acceptedAt - Self.agedMilliseconds }
        jobs.remove(at: aged ?? jobs.indices.min { jobs[$0].work < jobs[$1].work }!)
    }

    var byWork: [EndedJob] { jobs.reversed().sorted { $0.work > $1.work } }
}

/// A histogram of fixed buckets, for monitoring systems that add those of several times or servers (Prometheus).
struct LatencyBuckets {
    /// Microseconds up to which each bucket counts: the usual steps of 1, 2.5 and 5, from what a small job takes to what
    /// no client waits for.
    static let bounds: [Int64] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ]

    /// Times in each bucket alone; the last one has those above all bounds.
    private var counts = [Int](repeating: 0, count: bounds.count + 1)
    private var sum: Int64 = 0

    mutating func record(_ microseconds: Int64) {
        counts[Self.bounds.firstIndex { microseconds <= $0 } ?? Self.bounds.count] += 1
        sum += microseconds
    }

    var cumulative: [Int] {
        var total = 0
        return counts.dropLast().map {
            total += $0
            return total
        }
    }

    var count: Int { counts.reduce(0, +) }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.array("counts") { writer in for count in cumulative { writer.integer(count) } }
            writer.member("count", count)
            writer.member("sumMicroseconds", sum)
        }
    }

    static func writeBounds(to writer: inout JSONWriter) {
        writer.array("boundsMicroseconds") { writer in for bound in bounds { writer.integer(bound) } }
    }
}

/// Whether something has failed for good (the disk under the store or its journal; or a shared log), and the observers of that. Any
/// thread may call.
final class StorageFailure: Sendable {
    typealias Observer = @Sendable (StoreError) -> Void

    private struct State {
        var error: StoreError?
        var observers: [Observer] = []
    }

    private let state = Monitor(State())

    var error: StoreError? { state.withLock { $0.error } }

    /// Reports the failure to `stats`, and to the observers after everything that was sent before. `say` logs it, before any
    /// observer ends the process; it is not called when the failure was known.
    func happened(
        _ newState: StoreState, _ error: StoreError, in statistics: Statistics, after completions: SerialThread,
        say: () -> Void
    ) {
        let observers = state.withLock { state -> [Observer]? in
            guard state.error == nil else { return nil }
            state.error = error
            defer { state.observers = [] }
            return state.observers
        }
        guard let observers else { return }
        say()
        statistics.count { $0.store = newState }
        completions.run(observers.map { notify in { notify(error) } })
    }

    /// Returns the call to make now, if the disk has failed already.
    func observe(_ notify: @escaping Observer) -> [@Sendable () -> Void] {
        let error = state.withLock { state -> StoreError? in
            if state.error == nil { state.observers.append(notify) }
            return state.error
        }
        return error.map { error in [{ notify(error) }] } ?? []
    }
}

/// The jobs of about the last minute: six slots of ten seconds, of which the newest is not full. A pure value.
struct RecentJobs {
    struct Slot {
        struct Counts {
            var completed = 0
            var failed = 0
            var duplicates = 0
            var commits = 0
            var objects = ChangeCounts()

            mutating func add(_ other: Counts) {
                completed += other.completed
                failed += other.failed
                duplicates += other.duplicates
                commits += other.commits
                objects.add(other.objects)
            }
        }

        var counts = Counts()
        var latencies = Latencies(digits: .one)

        mutating func add(_ other: Slot) {
            counts.add(other.counts)
            latencies.add(other.latencies)
        }
    }

    private static let slotMicroseconds: Int64 = 10_000_000
    private static let slotCount = 6

    /// By the number of the slot since the clock's beginning.
    private var slots: [Int64: Slot] = [:]
    private let startedAt: Int64

    init(at now: Int64) { startedAt = now }

    /// - Parameter now: the time of the monotonic clock, in microseconds.
    mutating func note(at now: Int64, _ body: (inout Slot) -> Void) {
        let number = now / Self.slotMicroseconds
        if slots[number] == nil {
            slots = slots.filter { $0.key > number - Int64(Self.slotCount) }
            slots[number] = Slot()
        }
        body(&slots[number]!)
    }

    /// The sum of the slots, and the microseconds that they cover.
    func sum(at now: Int64) -> (slot: Slot, microseconds: Int64) {
        let first = now / Self.slotMicroseconds - Int64(Self.slotCount) + 1
        var sum = Slot()
        for (number, slot) in slots where number >= first { sum.add(slot) }
        return (sum, now - max(startedAt, first * Self.slotMicroseconds))
    }

    func write(to writer: inout JSONWriter, at now: Int64, isJournaled: Bool) {
        let (slot, microseconds) = sum(at: now)
        writer.object { writer in
            writer.member("milliseconds", microseconds / 1_000)
            writer.object("jobs") { writer in
                writer.member("completed", slot.counts.completed)
                writer.member("failed", slot.counts.failed)
                writer.member("duplicate", slot.counts.duplicates)
            }
            writer.key("objects")
            slot.counts.objects.write(to: &writer)
            writer.member("commits", slot.counts.commits)
            writer.key("latencyMicroseconds")
            slot.latencies.write(to: &writer, isJournaled: isJournaled)
        }
    }
}

extension Statistics.Counters {
    /// Counts a transaction that has become durable. Returns its slow jobs.
    mutating func note(_ applied: [AcceptedJob], _ committedAt: Int64) -> [EndedJob] {
        var slowJobs: [EndedJob] = []
        var slot = RecentJobs.Slot.Counts(commits: 1)
        var allTimes: [StageTimes] = []
        allTimes.reserveCapacity(applied.count)
        batches.record(jobs: applied.count)
        for job in applied {
            switch job.end {
            case nil: break
            case .failed(let fault), .conflict(let fault, _): noteFailure(fault.code, at: committedAt)
            case .duplicate: slot.duplicates += 1
            case .completed(let outcome):
                slot.completed += 1
                guard !job.facts.terms.isDryRun else { break }
                note(outcome.changes, &slot.objects)
                for warning in outcome.warnings {
                    warnings[warning.entity, default: [:]][warning.code, default: 0] += warning.count
                }
            }
            let times = job.times(committedAt)
            note(times)
            allTimes.append(times)
            guard job.end != nil else { continue }
            let job = EndedJob(job, times)
            ended.add(job)
            if times.total >= slow.microseconds { slowJobs.append(job) }
        }
        for job in slowJobs { slow.add(job) }
        totals.add(slot)
        recent.note(at: committedAt) { recent in
            recent.counts.add(slot)
            for times in allTimes { recent.latencies.record(times) }
        }
        return slowJobs
    }

    private mutating func note(_ changes: [(entity: String, counts: ChangeCounts)], _ sum: inout ChangeCounts) {
        for change in changes {
            sum.add(change.counts)
            if change.counts.rejected > 0 { rejects[change.entity, default: 0] += change.counts.rejected }
        }
    }

    private mutating func note(_ times: StageTimes) {
        latencies.record(times)
        let values = times.values
        for stage in StageTimes.stages(isJournaled: times.isJournaled) { buckets[stage].record(max(0, values[stage])) }
    }
}
