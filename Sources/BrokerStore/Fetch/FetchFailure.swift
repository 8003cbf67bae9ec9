package import BrokerModel

/// Why a fetch has no result.
package enum FetchFailure: Error, Sendable {
    case fault(Fault)
    case store(StoreError)
    /// The fetch exceeds its limits. A brief one must be repeated with larger ones.
    case tooLong
    /// It is not wanted any more.
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
