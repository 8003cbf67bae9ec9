// The sequences of jobs, and their lines in the ledger.
extension Store {
    /// Finds the lines of jobs, for readers of the ledger on other connections.
    package var jobs: JobIndex { ledger.index }

    /// The highest sequence that may have been sent to a client; 0 in a new store.
    ///
    /// The next sequence is greater. After a crash there is a gap, as wide as the reservation.
    package func lastSequence() throws(StoreError) -> Int64 { try ledger.newestSequence() }

    /// Reserves sequences in a transaction of its own, before the first of them is sent to a client.
    ///
    /// - Parameter position: the newest position of the journal: after a loss of power, the store may know only earlier ones.
    /// - Returns: the highest sequence that may have been sent before; the `count` after it are reserved.
    package func openSequences(_ count: Int64, after position: Int64 = 0) throws(StoreError) -> Int64 {
        do throws(StoreError) {
            try checkUsable()
            let newest = max(try lastSequence(), position)
            try beginning.run()
            try reserveSequences(through: newest + count)
            try commit()
            return newest
        } catch {
            rollback()
            throw error
        }
    }

    /// Reserves sequences in the open transaction: once that is durable, those up to `sequence` may be sent to clients,
    /// and no later server assigns one of them to another job.
    ///
    /// At a clean stop, with the highest sequence that was sent, it releases the others.
    package func reserveSequences(through sequence: Int64) throws(StoreError) {
        try ledger.reserve(through: sequence)
    }

    /// The highest sequence whose outcome may have been deleted; 0 for none.
    package var forgottenThrough: Int64 { ledger.forgottenThrough }

    /// The number of outcomes that the ledger has.
    package var outcomeCount: Int { ledger.count }
}
