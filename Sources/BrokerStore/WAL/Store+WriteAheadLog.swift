/// SQLite's write-ahead log beside the store.
extension Store {
    /// Copies the log into the database once it is long. To be called after every ``commit()``, when those who wait for that have
    /// been told: it may take as long as the disk likes.
    public func copyLogIfDue() {
        if loss == nil, failure == nil { logKeeper.copyIfDue() }
    }

    /// The log was due before the newest transaction, and that was appended to it: a reader uses it.
    public var isLogOverdue: Bool { loss == nil && failure == nil && logKeeper.isOverdue }

    /// Copies the log, however long it is.
    public func copyLog() {
        if loss == nil, failure == nil { logKeeper.copyAll() }
    }

    /// Copies the log because a transaction that was undone found no room (``/BrokerSQLite/StoreError/Code/full``): the next one
    /// is then written over it.
    ///
    /// - Returns: whether the next one may find more.
    public func makeRoom() -> Bool { loss == nil && failure == nil && logKeeper.makeRoom() }

    /// Something is better done while nobody waits for a transaction than later.
    public var hasIdleWork: Bool { loss == nil && failure == nil && logKeeper.hasIdleWork }

    /// Nobody waits at the moment.
    public func idle() {
        if hasIdleWork { logKeeper.idle() }
    }

    /// The write-ahead log after the newest commit.
    public var log: WALStatus { logKeeper.log }

    /// What has become of the log since the last call that an operator should know.
    public func takeLogNotices() -> [WALNotice] { logKeeper.takeNotices() }
}
