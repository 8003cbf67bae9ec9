/// The sending and the measurements of a run.
package struct RunOptions: Sendable {
    package var socketPath: String
    package var connections = 1
    /// The maximum number of jobs without an end on each connection. In an open loop, too: jobs beyond it are sent
    /// late, which their latency includes.
    package var inFlight = 64
    package var schedule: Schedule
    /// Seconds at the beginning that are not measured.
    package var warmUpSeconds = 0.0
    package var intervalSeconds = 0.5
    /// Seconds without any answer after which what is in flight is lost.
    package var patienceSeconds = 60.0

    package init(socketPath: String, schedule: Schedule) {
        self.socketPath = socketPath
        self.schedule = schedule
    }
}

/// The result of a run.
package struct RunResult: Sendable {
    /// Seconds that were measured.
    package var seconds = 0.0
    /// Over the whole run, the warm-up with it.
    package var totals = JobAccounts.Totals()
    package var lost = 0
    package var failures: [String: (count: Int, message: String)] = [:]
    /// The first answer that answered nothing, if it was an error.
    package var strangeMessage: String?
    package var objects = ObjectCounts()

    // The measured time only.
    package var jobs = 0
    package var records = 0
    package var contentBytes = 0
    package var frameBytes = 0
    package var completed = LatencyHistogram()
    package var accepted = LatencyHistogram()
    package var lag = LatencyHistogram()
    package var stages: [LatencyHistogram] = []
    package var intervals: [RunInterval] = []

    package var server = ServerObservations()
    /// Processor seconds of the thread that sends and receives, and of the whole harness.
    package var senderSeconds = 0.0
    package var harnessSeconds = 0.0
    /// How often the sender had to wait for frames.
    package var frameWaits = 0

    package var jobsPerSecond: Double { seconds > 0 ? Double(jobs) / seconds : 0 }
    package var recordsPerSecond: Double { seconds > 0 ? Double(records) / seconds : 0 }
}
