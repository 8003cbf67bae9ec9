/// The calls that follow a change of the job table.
struct Effects {
    typealias Call = @Sendable () -> Void

    /// Calls of observers and waiters, for the thread of completions, in this order.
    var completions: [Call] = []
    /// Callers that waited for room, and frames whose turn has come.
    var wakeUps: [Call] = []
    /// The threads that wait for the table look again.
    var notifies = false
}

extension Monitor<JobTable> {
    /// Changes the table, and makes the calls that follow.
    ///
    /// Completions are passed on under the lock, so that those of several changes keep the order of the changes. The
    /// woken callers are called without the lock: they may use the table.
    func change(_ completions: SerialThread, _ body: (inout JobTable) -> Effects) {
        var wakeUps: [Effects.Call] = []
        broadcast { jobTable in
            let effects = body(&jobTable)
            completions.run(effects.completions)
            wakeUps = effects.wakeUps
            return effects.notifies
        }
        for call in wakeUps { call() }
    }
}
