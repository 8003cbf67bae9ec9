package import BrokerStore

/// The result of a cancellation.
package enum Cancellation: Sendable {
    /// The job has failed with `cancelled`, which its observer has received, and it retains its ticket.
    case cancelled
    /// The merge of the job has begun, or it has ended.
    case tooLate
    case unknown
    case failed(StoreError)
}
