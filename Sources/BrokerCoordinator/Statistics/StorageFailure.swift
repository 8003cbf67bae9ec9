internal import BrokerStore

/// Whether something has failed for good (the disk under the store or its journal; or a shared log), and the observers of that. Any
/// thread may call.
final class StorageFailure: Sendable {
    typealias Observer = @Sendable (StoreError) -> Void

    private struct State {
        var error: StoreError?
        var observers: [Observer] = []
    }

    private let state = Monitor(State())

    /// Nil while nothing has failed.
    var error: StoreError? { state.withLock { $0.error } }

    /// Reports the failure to `stats`, and to the observers after everything that was sent before.
    ///
    /// - Parameters:
    ///   - newState: the store's from now on.
    ///   - say: logs the failure, before any observer ends the process; not called when it was known.
    func happened(
        _ newState: StoreState, _ error: StoreError, _ statistics: Statistics, _ completions: SerialThread,
        _ say: () -> Void
    ) {
        let observers = state.withLock { state -> [Observer]? in
            guard state.error == nil else { return nil }
            state.error = error
            defer { state.observers = [] }
            return state.observers
        }
        guard let observers else { return }
        say()
        statistics.count { $0.store = newState }
        completions.run(observers.map { notify in { notify(error) } })
    }

    /// Returns the call to make now, if the disk has failed already.
    func observe(_ notify: @escaping Observer) -> [@Sendable () -> Void] {
        let error = state.withLock { state -> StoreError? in
            if state.error == nil { state.observers.append(notify) }
            return state.error
        }
        return error.map { error in [{ notify(error) }] } ?? []
    }
}
