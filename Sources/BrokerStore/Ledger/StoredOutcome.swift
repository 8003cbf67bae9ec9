/// The outcome of a job, as the ledger stores it.
package struct StoredOutcome: Sendable, Equatable {
    package let sequence: Int64
    /// Nil for a job that ended before owners were stored.
    package let owner: JobOwner?
    /// The hash of the job's content; nil for a job whose id the server made.
    package let contentHash: JobHash?
    package let isFailure: Bool
    /// A JSON object: a completed job's members of `completed` except `timing`, or a failed job's `error`.
    package let body: [UInt8]
}
