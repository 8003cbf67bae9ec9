/// SQLite's write-ahead log (WAL) beside the store.
extension Store {
    /// Copies the WAL into the database if it has reached its working size. To be called after every `commit()`, when
    /// the replies to its jobs have been sent: it may take as long as the disk does.
    package func copyWALIfDue() {
        guard loss == nil, failure == nil, walCheckpointer.copyIfDue(), ledger.history != nil else { return }
        noteCopied()
        // A reader may hold the WAL for hours; the jobs that the disk has can leave the journal meanwhile. A failure of the
        // disk is in ``failure``.
        if walCheckpointer.status.uncheckpointedPages > 0 { try? syncWAL() }
    }

    /// The WAL was due for a checkpoint before the last transaction, and that one was appended to it: a reader uses it.
    package var isWALOverdue: Bool { loss == nil && failure == nil && walCheckpointer.isOverdue }

    /// Whether the WAL is as long as one that a reader holds, and a backup tool holds it that copies it into the database
    /// by itself. False again until the WAL has grown by as much.
    package func isWALLeftToBackupTool() -> Bool {
        guard loss == nil, failure == nil, walCheckpointer.isLong else { return false }
        walCheckpointer.notedLong()
        return isReadByBackupTool
    }

    /// Whether a backup tool has a read transaction open. One without a name, such as one in another container, is
    /// recognised by the tables that it made.
    var isReadByBackupTool: Bool {
        WALReader.others(ofStoreAt: location).contains { $0.isBackupTool || $0.process == nil && hasBackupToolTables }
    }

    private var hasBackupToolTables: Bool {
        (try? connection.integer("SELECT 1 FROM sqlite_schema WHERE name = '_litestream_lock'")) == 1
    }

    /// The first bytes of the WAL, which change when it restarts.
    package var walHeader: [UInt8]? { walCheckpointer.header() }

    /// Copies the WAL, however long it is.
    package func copyLog() {
        guard loss == nil, failure == nil else { return }
        walCheckpointer.copyAll()
        noteCopied()
    }

    /// Copies the WAL because a transaction that was rolled back found no room
    /// (``/BrokerSQLite/StoreError/Code/full``): the next one then overwrites it.
    ///
    /// - Returns: whether the next transaction may find more room.
    package func makeRoom() -> Bool { loss == nil && failure == nil && walCheckpointer.makeRoom() }

    /// Whether there is work that is better done now, while no client waits for a transaction.
    package var hasIdleWork: Bool { loss == nil && failure == nil && walCheckpointer.hasIdleWork }

    /// Does such work. To be called while no client waits for a transaction.
    package func idle() {
        guard hasIdleWork else { return }
        walCheckpointer.idle()
        noteCopied()
    }

    /// The WAL after the last commit.
    package var wal: WALStatus { walCheckpointer.status }

    /// The events of the WAL since the last call that an operator should know.
    package func takeWALNotices() -> [WALNotice] { walCheckpointer.takeNotices() }
}
