internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A job during staging, with what is needed to open it again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let accepted: AcceptedJob
    /// That of the model under which it is staged.
    let generation: Int

    func ready(_ work: StoreJob.Work) -> ReadyJob {
        var timing = Timing()
        timing.queued = accepted.openedAt - accepted.admittedAt
        timing.staged = monotonicMicroseconds() - accepted.openedAt
        return ReadyJob(work: work, memory: frame.memory, accepted: accepted, timing: timing)
    }

    /// The job on its way to the log.
    var logEntry: LogEntry {
        LogEntry(
            kind: .job, ticket: accepted.ticket, position: 0, id: accepted.key, isIDMade: accepted.isIDMade,
            owner: accepted.owner, mayDelete: accepted.mayDelete, isPrivileged: accepted.isPrivileged,
            time: accepted.acceptedAt, payload: { [frame] in frame.payload })
    }
}
