internal import Histogram

/// What happened in a while of a run.
package struct RunInterval: Sendable {
    /// Seconds from the start of the measured time.
    package var start: Double
    package var seconds: Double
    package var jobs = 0
    package var records = 0
    /// Nanoseconds.
    package var p50: UInt64 = 0
    package var p99: UInt64 = 0
    package var highest: UInt64 = 0
}

/// Counts the measurements, interval by interval. Jobs that were sent before the measured time are not counted.
struct RunRecorder {
    private(set) var completed = LatencyHistogram()
    private(set) var accepted = LatencyHistogram()
    /// How late jobs were sent.
    private(set) var lag = LatencyHistogram()
    /// The server's own times, in the order of ``Answer/Stages/names``.
    private(set) var stages = Answer.Stages.names.map { _ in LatencyHistogram() }
    private(set) var intervals: [RunInterval] = []
    /// Ends within the measured time.
    private(set) var jobs = 0
    private(set) var records = 0
    private(set) var sentJobs = 0
    private(set) var contentBytes = 0
    private(set) var frameBytes = 0

    private var current = RunInterval(start: 0, seconds: 0)
    private var currentCompleted = LatencyHistogram()
    private var currentAccepted = LatencyHistogram()

    /// All that was counted so far was warm-up.
    mutating func begin() { self = RunRecorder() }

    mutating func sent(late: UInt64, contentBytes: Int, frameBytes: Int) {
        lag.record(late)
        sentJobs += 1
        self.contentBytes += contentBytes
        self.frameBytes += frameBytes
    }

    /// - Parameter latency: nil for a job of the warm-up, whose end counts for the rate alone.
    mutating func ended(records: Int, latency: UInt64?, stages: Answer.Stages?) {
        jobs += 1
        self.records += records
        current.jobs += 1
        current.records += records
        if let latency { currentCompleted.record(latency) }
        guard let stages else { return }
        let times = stages.values
        for place in times.indices { self.stages[place].record(UInt64(max(0, times[place])) * 1_000) }
    }

    mutating func accepted(latency: UInt64) { currentAccepted.record(latency) }

    /// The latency of a job that ended after the measured time, but was sent within it.
    mutating func endedLate(latency: UInt64) { currentCompleted.record(latency) }

    /// - Parameter end: seconds from the start of the measured time.
    mutating func closeInterval(at end: Double) {
        current.seconds = end - current.start
        if current.seconds > 0 {
            current.p50 = currentCompleted.percentile(50)
            current.p99 = currentCompleted.percentile(99)
            current.highest = currentCompleted.highestRecorded
            intervals.append(current)
        }
        completed.add(currentCompleted)
        accepted.add(currentAccepted)
        currentCompleted.reset()
        currentAccepted.reset()
        current = RunInterval(start: end, seconds: 0)
    }
}

/// Times in nanoseconds, with three digits, up to an hour.
package struct LatencyHistogram: Sendable {
    static let highest: UInt64 = 3_600_000_000_000

    private(set) var counts = Histogram<UInt32>(highestTrackableValue: highest, numberOfSignificantValueDigits: .three)

    package init() {}

    /// Longer than an hour is counted as an hour.
    package mutating func record(_ nanoseconds: UInt64) { _ = counts.record(min(Self.highest, nanoseconds)) }

    mutating func add(_ other: LatencyHistogram) { counts.add(other.counts) }

    mutating func reset() { counts.reset() }

    package var count: Int { Int(counts.totalCount) }

    /// Nanoseconds below which that share of the values is; 0 when there are none.
    package func percentile(_ percent: Double) -> UInt64 {
        counts.totalCount == 0 ? 0 : counts.valueAtPercentile(percent)
    }

    package var highestRecorded: UInt64 { counts.totalCount == 0 ? 0 : counts.max }

    package var mean: Double { counts.totalCount == 0 ? 0 : counts.mean }
}

/// The counts of changed objects of a job, or of several.
package struct ObjectCounts: Sendable, Equatable {
    package var inserted = 0
    package var updated = 0
    package var unchanged = 0
    package var deleted = 0
    package var rejected = 0

    mutating func add(_ other: ObjectCounts) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }
}

/// An answer of the server's, as far as it is measured.
package struct Answer: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case accepted
        case completed
        /// `failed`, or an `error`.
        case failed(code: String, message: String)
        /// One to a message that is no job.
        case other
    }

    /// Microseconds that the server says a job spent in each of its stages.
    package struct Stages: Sendable, Equatable {
        package static let names = [
            "queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed",
        ]

        package var queued = 0
        package var staged = 0
        package var journalWaited = 0
        package var journalSynced = 0
        package var waited = 0
        package var merged = 0
        package var committed = 0

        /// In the order of ``names``.
        var values: InlineArray<7, Int> {
            [queued, staged, journalWaited, journalSynced, waited, merged, committed]
        }
    }

    /// The number of the job in this run; nil for an answer to anything else.
    package var job: Int?
    package var kind: Kind
    /// The job had been applied before it was sent.
    package var isDuplicate = false
    package var objects = ObjectCounts()
    /// Nil when the answer lacks them.
    package var stages: Stages?
}
