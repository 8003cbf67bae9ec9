internal import BrokerStore

/// Whether the store has failed, and who is to be told. Any thread may call.
final class StoreFailure: Sendable {
    typealias Observer = @Sendable (StoreError) -> Void

    private struct State {
        var error: StoreError?
        var observers: [Observer] = []
    }

    private let state = Monitor(State())

    /// The store has failed. Gives back what is to be done about it; nil when that was known.
    func happened(_ error: StoreError) -> [@Sendable () -> Void]? {
        let observers = state.withLock { state -> [Observer]? in
            guard state.error == nil else { return nil }
            state.error = error
            defer { state.observers = [] }
            return state.observers
        }
        return observers?.map { tell in { tell(error) } }
    }

    /// Gives back what is to be done now, if it has failed already.
    func observe(_ tell: @escaping Observer) -> [@Sendable () -> Void] {
        let error = state.withLock { state -> StoreError? in
            if state.error == nil { state.observers.append(tell) }
            return state.error
        }
        return error.map { error in [{ tell(error) }] } ?? []
    }
}
