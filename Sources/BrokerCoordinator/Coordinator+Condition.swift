/// The state of the coordinator at one moment, for the status that a service manager shows.
package struct CoordinatorCondition: Sendable, Equatable {
    /// Jobs that have not ended.
    package var jobs = 0
    package var isPaused = false
    package var isDraining = false
    /// Why the store takes no writes at the moment; nil when it does.
    package var waitingCause: String?
    /// Why nothing more of a shared log is applied; nil while the server applies it.
    package var haltCause: String?

    package init() {}
}

extension Coordinator {
    package var condition: CoordinatorCondition {
        var condition = CoordinatorCondition()
        switch storeState {
        case .waiting(let cause): condition.waitingCause = cause
        case .halted(let cause): condition.haltCause = cause
        case .serving, .failed: break
        }
        (condition.jobs, condition.isPaused, condition.isDraining) = jobTable.withLock {
            ($0.jobCount, $0.isPaused, $0.isDraining)
        }
        return condition
    }

    /// The state that a new job would meet now, also where none was sent since the cause arose.
    var storeState: StoreState {
        try? checkFiles()
        var state = StoreState.serving
        statistics.count { state = $0.store }
        guard case .serving = state else { return state }
        let refusals = jobTable.withLock { $0.refusals }
        let fullness = { [self] in writer.log?.fullness ?? DiskSpace(of: storePath).fullness }
        return ((refusals.store ?? refusals.log)?.message ?? fullness()?.message).map { .waiting(cause: $0) } ?? state
    }
}
