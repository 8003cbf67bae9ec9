/// The state of the coordinator at one moment, for the status that a service manager shows.
package struct CoordinatorCondition: Sendable, Equatable {
    /// Jobs that have not ended.
    package var jobs = 0
    package var isPaused = false
    package var isDraining = false
    /// Why the store takes no writes at the moment; nil when it does.
    package var waitingCause: String?

    package init() {}
}

extension Coordinator {
    package var condition: CoordinatorCondition {
        var condition = CoordinatorCondition()
        statistics.count { counters in
            if case .waiting(let cause) = counters.store { condition.waitingCause = cause }
        }
        (condition.jobs, condition.isPaused, condition.isDraining) = jobTable.withLock {
            ($0.jobCount, $0.isPaused, $0.isDraining)
        }
        return condition
    }
}
