internal import BrokerModel
package import BrokerStore

/// The halt of a server that shares its log: it applies nothing more, refuses jobs, and serves reads.
extension Coordinator {
    /// Calls `notify` once, with the reason, when nothing more is applied: now or later, on a thread of the coordinator's.
    ///
    /// Jobs on their way to the log get no answer then: another server may apply them. Their clients' connections are to be
    /// ended.
    package func onHalt(_ notify: @escaping @Sendable (StoreError) -> Void) { completions.run(halting.observe(notify)) }

    /// Nothing more is applied. Any number of calls; the first counts.
    ///
    /// - Parameter say: logs it.
    func halt(_ error: StoreError, _ say: () -> Void) {
        jobTable.change(completions) { jobTable in
            jobTable.isLogLost = true
            jobTable.refusals.halt =
                jobTable.refusals.halt ?? Fault(.storeUnavailable, "This server has halted. \(error.message)")
            return jobTable.effects([], notifies: true)
        }
        halting.happened(.halted(cause: error.message), error, statistics, completions, say)
        failChanges(error)
    }
}
