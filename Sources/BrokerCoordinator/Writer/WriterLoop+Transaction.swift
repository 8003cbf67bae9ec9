internal import BrokerStore

extension WriterLoop {
    /// Runs `body` in a transaction. While another program has locked the store, the writer waits and tries again:
    /// nothing has happened then, and jobs need not fail. Only a server that stops limits the wait.
    ///
    /// - Returns: nil when `body` returns nil; its changes are then undone.
    func transaction<Result>(
        _ body: () throws(StoreError) -> Result?
    ) throws(StoreError) -> Result? {
        var wait = LockWait(statistics, logger)
        while true {
            do throws(StoreError) {
                try store.begin()
                guard let result = try body() else {
                    store.rollback()
                    return nil
                }
                let start = monotonicMicroseconds()
                try store.commit()
                statistics.count {
                    $0.batches.record(commitMicroseconds: monotonicMicroseconds() - start)
                    $0.noteServing()
                }
                wait.ended()
                activity.advance()
                return result
            } catch {
                store.rollback()
                noteLoss()
                activity.advance()
                guard error.isLocked, wait.pause(jobTable) else { throw error }
            }
        }
    }
}
