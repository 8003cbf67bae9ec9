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
