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

/// Runs `body`; an error of the store becomes ``FetchFailure/store(_:)``.
@inline(__always)
func fetching<Result>(_ body: () throws(StoreError) -> Result) throws(FetchFailure) -> Result {
    do throws(StoreError) {
        return try body()
    } catch {
        throw .store(error)
    }
}
