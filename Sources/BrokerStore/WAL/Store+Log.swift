internal import BrokerModel

/// The log that the store is fed from.
extension Store {
    /// How far it has come in the log that it is fed from.
    public func logPosition() throws(StoreError) -> JournalPosition {
        guard let identity = try StoreMeta(connection: connection).value(of: .log), let history = ledger.history else {
            return JournalPosition(identity: nil, applied: try lastSequence(), id: nil)
        }
        return JournalPosition(
            identity: identity, applied: history.position, id: try ledger.id(ofJobAt: history.position))
    }

    /// From now on it is fed from that log, of which nothing is applied yet.
    ///
    /// - Parameter position: before which the log begins.
    public func beginLog(_ identity: String, after position: Int64) throws(StoreError) {
        try setLog(identity, StateDigest(position: position))
    }

    /// From now on it is fed from no log.
    public func endLog() throws(StoreError) { try setLog(nil, nil) }

    private func setLog(_ identity: String?, _ history: StateDigest?) throws(StoreError) {
        do throws(StoreError) {
            try statements.begin.run()
            let meta = StoreMeta(connection: connection)
            try meta.set(.log, to: identity)
            try meta.set(.logApplied, to: history?.text)
            ledger.history = history
            try commit()
        } catch {
            rollback()
            throw error
        }
    }

    /// - Throws: ``StoreError`` `defect` when the log has applied that position already: its jobs are applied in order, once.
    func noteInHistory(_ end: JobOutcome, of job: StoreJob, _ rows: RowDigest?) throws(StoreError) {
        guard let history = ledger.history else { return }
        guard job.sequence > history.position else {
            throw StoreError(
                .defect,
                "Job \(job.sequence) was to be applied after job \(history.position) of the same log. This is a defect of Broker's; "
                    + "report it.")
        }
        ledger.history?.extend(job, end.body(of: job), end.isFailure ? nil : rows)
    }
}
