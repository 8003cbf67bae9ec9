/// The events of a job, in this order.
package enum JobEvent: Sendable {
    /// The job has its sequence among all jobs.
    case accepted(id: String, sequence: Int64)
    /// The numbers of rows staged and of those merged; sent now and then, or never.
    case progress(id: String, staged: Int, merged: Int)
    /// The transaction is durable, or the job changed nothing. The last event.
    case ended(JobCompletion)
}
