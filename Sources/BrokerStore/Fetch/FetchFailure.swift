package import BrokerModel

/// Why a fetch has no result.
package enum FetchFailure: Error, Sendable {
    case fault(Fault)
    case store(StoreError)
    /// The fetch exceeds its limits and must be repeated with larger ones.
    case tooLong
    /// The client no longer waits for it.
    case stopped
}
