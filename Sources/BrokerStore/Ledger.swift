/// How a job ended, as the ledger keeps it.
public struct StoredOutcome: Sendable, Equatable {
    public let sequence: Int64
    /// Of the decoded bytes of the message; nil for a job whose id the server made.
    public let contentHash: [UInt8]?
    public let isFailure: Bool
    /// A JSON object: a completed job's members of `completed` but for `timing`, or a failed job's `error`.
    public let body: [UInt8]
}

/// For how long outcomes are remembered, and ids with them.
public struct LedgerRetention: Sendable, Equatable {
    /// About as many as a busy day of a job a minute over two years, or a minute at full speed; some 300 bytes each.
    public static let defaultCount = 1_000_000
    public static let defaultSeconds = 7 * 24 * 3600

    public var count: Int
    public var seconds: Int

    public init(count: Int = defaultCount, seconds: Int = defaultSeconds) {
        self.count = count
        self.seconds = seconds
    }
}

/// The jobs that have ended, written in the transactions of their data.
struct Ledger {
    static let tables = [
        """
        CREATE TABLE IF NOT EXISTS "_broker_jobs" (
            "sequence" INTEGER PRIMARY KEY,
            "id" TEXT NOT NULL UNIQUE,
            "hash" BLOB,
            "failed" INTEGER NOT NULL,
            "ended" INTEGER NOT NULL,
            "outcome" TEXT NOT NULL
        )
        """,
        "CREATE TABLE IF NOT EXISTS \"_broker_meta\" (\"key\" TEXT PRIMARY KEY, \"value\" TEXT NOT NULL)",
    ]

    /// Rows looked at in one go when old outcomes are forgotten.
    private static let pruneStep = 1_000

    private let find: Statement
    private let insert: Statement
    private let forget: Statement
    private let prune: Statement
    private let noteSequence: Statement
    private let findSequence: Statement
    private let retention: LedgerRetention
    private var writtenSincePruning = 0

    init(on connection: Connection, _ retention: LedgerRetention) throws(StoreError) {
        self.retention = retention
        find = try connection.prepare("SELECT sequence, hash, failed, outcome FROM _broker_jobs WHERE id = ?1")
        forget = try connection.prepare("DELETE FROM _broker_jobs WHERE id = ?1")
        insert = try connection.prepare(
            "INSERT INTO _broker_jobs (sequence, id, hash, failed, ended, outcome) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        noteSequence = try connection.prepare(
            "INSERT INTO _broker_meta (key, value) VALUES ('newestSequence', ?1) "
                + "ON CONFLICT (key) DO UPDATE SET value = excluded.value")
        findSequence = try connection.prepare(
            "SELECT max((SELECT ifnull(max(sequence), 0) FROM _broker_jobs), "
                + "ifnull((SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'newestSequence'), 0))")
        // Sequences rise with time, so what is too old or too many lies at the beginning; the newest always stays,
        // because the next sequence is counted from it.
        prune = try connection.prepare(
            "DELETE FROM _broker_jobs WHERE sequence IN (SELECT sequence FROM _broker_jobs ORDER BY sequence LIMIT ?3) "
                + "AND (sequence <= ?1 OR ended < ?2) AND sequence < (SELECT max(sequence) FROM _broker_jobs)")
    }

    /// The newest sequence, of a line in the ledger or noted.
    func newestSequence() throws(StoreError) -> Int64 {
        defer { findSequence.reset() }
        return try findSequence.step() ? findSequence.integer(0) : 0
    }

    /// A sequence was used that gets no line of its own, and must not be given again.
    func note(newestSequence sequence: Int64) throws(StoreError) {
        noteSequence.bind(sequence, at: 1)
        try noteSequence.run()
    }

    func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? {
        find.bind(id, at: 1)
        defer { find.reset() }
        guard try find.step() else { return nil }
        return StoredOutcome(find)
    }

    /// - Parameter replacesFailure: the id is there already, of a job that failed.
    mutating func record(
        _ outcome: StoredOutcome, ofJob id: String, replacesFailure: Bool, now: Int64
    ) throws(StoreError) {
        if replacesFailure {
            forget.bind(id, at: 1)
            try forget.run()
        }
        insert.bind(outcome.sequence, at: 1)
        insert.bind(id, at: 2)
        insert.bind(blob: outcome.contentHash, at: 3)
        insert.bind(outcome.isFailure ? 1 : 0, at: 4)
        insert.bind(now, at: 5)
        insert.bind(text: outcome.body, at: 6)
        try insert.run()
        writtenSincePruning += 1
        if writtenSincePruning >= Self.pruneStep / 2 {
            writtenSincePruning = 0
            prune.bind(outcome.sequence - Int64(retention.count), at: 1)
            prune.bind(now - Int64(retention.seconds) * 1_000, at: 2)
            prune.bind(Int64(Self.pruneStep), at: 3)
            try prune.run()
        }
    }
}
