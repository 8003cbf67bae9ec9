internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A job during staging, with what is needed to open it again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let accepted: AcceptedJob
    /// That of the model under which it is staged.
    let generation: Int

    /// - Parameter microseconds: the time that workers spent on the job.
    func ready(_ work: StoreJob.Work, took microseconds: Int64 = 0) -> ReadyJob {
        var times = StageTimes()
        times.queued = accepted.openedAt - accepted.admittedAt
        times.staged = monotonicMicroseconds() - accepted.openedAt
        times.work = microseconds
        return ReadyJob(work: work, memory: frame.memory, accepted: accepted, times: times)
    }

    /// The job on its way to the log.
    var logEntry: LogEntry {
        LogEntry(
            kind: .job, ticket: accepted.ticket, position: 0, id: accepted.key, isIDMade: accepted.isIDMade,
            owner: accepted.owner, mayDelete: accepted.mayDelete, isPrivileged: accepted.isPrivileged,
            time: accepted.acceptedAt, payload: { [frame] in frame.payload })
    }
}
