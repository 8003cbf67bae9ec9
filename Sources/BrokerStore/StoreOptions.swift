/// When SQLite waits for the disk.
public enum Synchronous: String, Sendable, CaseIterable {
    /// At every COMMIT: what was answered survives a loss of power.
    case full
    /// At checkpoints: what was answered survives a crash of the process, not of the machine.
    case normal
    case off
}

public struct StoreOptions: Sendable {
    public var synchronous = Synchronous.full
    public var retention = LedgerRetention()
    /// Bytes of database pages kept in memory; SQLite's own 2 MB halve the rate as soon as there is an index.
    public var cacheBytes = 64 << 20
    /// Pages of the database at most, for tests and quotas; nil is SQLite's limit.
    public var maximumPages: Int?
    /// Bytes of a page of a store that is made now; one that is there keeps its own. Twice SQLite's own measure: bulk loads
    /// write some 15 % less, scattered keys some 20 %, and small jobs, too, are no dearer.
    public var pageBytes = 8192
    /// The log's working size: so many pages are in it when they are copied to the database, and up to four times as many
    /// while transactions are long. 16 MiB of them, so that a bulk load copies a page less often.
    public var logPages = 2048
    /// What becomes of what the model has no longer.
    public var removal = RemovalPolicy.refuse
    /// Permissions of the store's files, whatever the mask of the process is; nil makes new ones with
    /// ``StoreLock/defaultMode`` and leaves those that are there.
    public var fileMode: UInt32?
    /// Units of work that one job may take; tests lower it.
    package var jobWork = JobWork.maximum
    /// For tests: SQLite's name for a VFS that stands between it and the files, and is there for longer than the store.
    public var vfs: String?

    public init() {}
}
