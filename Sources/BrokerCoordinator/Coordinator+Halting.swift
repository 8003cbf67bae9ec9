internal import BrokerModel
package import BrokerStore

/// The halt of a server that shares its log, or whose files are no longer those that it opened: it applies nothing more, refuses
/// jobs, and serves reads.
extension Coordinator {
    /// Calls `notify` once, with the reason, when nothing more is applied: now or later, on a thread of the coordinator's.
    ///
    /// Jobs on their way to the log get no answer then: another server may apply them. Their clients' connections are to be
    /// ended.
    package func onHalt(_ notify: @escaping @Sendable (StoreError) -> Void) { completions.run(halting.observe(notify)) }

    /// Looks whether the files of the store and of the journal are those that were opened, and halts if not.
    ///
    /// - Throws: why jobs and everything that would open the store again are refused from now on.
    func checkFiles() throws(StoreError) {
        do throws(StoreError) {
            try writer.files.check()
            try writer.log?.checkFiles()
        } catch {
            // A store that was closed has no WAL.
            guard !jobTable.withLock({ $0.isStopped }) else { return }
            halt(forLossOf: error)
            throw error
        }
    }

    /// The files of the store or of the journal are no longer those that were opened: nothing is opened by their names any more.
    /// Any number of calls; the first counts.
    func halt(forLossOf error: StoreError) {
        if let reader = logReader.withLock({ $0 }), reader.replicas != nil { return reader.halt(error) }
        let isFirst = jobTable.withLock { jobTable in
            defer { jobTable.refusals.halt = jobTable.refusals.halt ?? .halted(error) }
            return jobTable.refusals.halt == nil
        }
        guard isFirst else { return }
        statistics.count { $0.store = .halted(cause: error.message) }
        logger.critical(
            "This server has halted: it refuses jobs, and serves reads where it can.", metadata: ["cause": "\(error)"])
    }

    /// Nothing more is applied. Any number of calls; the first counts.
    ///
    /// - Parameter say: logs it.
    func halt(_ error: StoreError, _ say: () -> Void) {
        jobTable.change(completions) { jobTable in
            jobTable.isLogLost = true
            jobTable.refusals.halt = jobTable.refusals.halt ?? .halted(error)
            return jobTable.effects([], notifies: true)
        }
        halting.happened(.halted(cause: error.message), error, statistics, completions, say)
        failChanges(error)
    }
}

extension Fault {
    fileprivate static func halted(_ error: StoreError) -> Fault {
        Fault(.storeUnavailable, "This server has halted. \(error.message)")
    }
}
