internal import BrokerSchema

/// The keys of changed objects in the table `_broker_feed`, for followers of the feed: written in the transactions of
/// their data, one row for each, and bounded by their bytes. ``FeedReader`` reads them beside the ledger, which has the
/// changes themselves.
///
/// A row has the sequence of its last job and the lines of its jobs, in their order: the sequence, a space, the keys as
/// JSON, a line feed. A job without a line changed nothing, or too much.
struct FeedKeys {
    /// The facts about the table; restored when a transaction is rolled back.
    private struct Tally {
        var bytes: Int
        /// Rows before this sequence have been deleted with the lines of the ledger.
        var first: Int64 = 0
    }

    /// Bytes of the keys of one job: those of about a million objects.
    static let maximumBytesOfJob = 8 << 20
    /// Rows whose keys a job reads at its end for the feed.
    static let maximumLookups = 100_000
    /// Bytes of lines above which a transaction writes several rows.
    private static let rowBytes = 1 << 20
    /// Bytes of a row beside its lines.
    private static let bytesPerRow = 16
    /// How many bytes may exceed the limit before any are deleted, so that most transactions need not delete.
    private static let slackBytes = 256 << 10

    private let maximumBytes: Int
    private let connection: Connection
    private let insert: Statement
    private let oldest: Statement
    private let deleteOldest: Statement
    private let expired: Statement
    private var tally: Tally
    /// The tally as of the last transaction that became durable.
    private var durable: Tally
    /// The lines of the open transaction that are not written yet.
    private var lines: [UInt8] = []
    private var newest: Int64 = 0

    /// - Parameter maximumBytes: 0 stores nothing, and deletes what is there.
    init(on connection: Connection, maximumBytes: Int) throws(StoreError) {
        self.maximumBytes = maximumBytes
        self.connection = connection
        insert = try connection.prepare("INSERT INTO _broker_feed (sequence, keys) VALUES (?1, ?2)")
        oldest = try connection.prepare("SELECT sequence, length(keys) FROM _broker_feed ORDER BY sequence")
        deleteOldest = try connection.prepare("DELETE FROM _broker_feed WHERE sequence <= ?1")
        expired = try connection.prepare(
            "SELECT count(*), ifnull(sum(length(keys)), 0) FROM _broker_feed WHERE sequence < ?1")
        tally = Tally(bytes: 0)
        durable = tally
        if maximumBytes == 0 {
            let isEmpty = try connection.integer("SELECT 1 FROM _broker_feed LIMIT 1") == nil
            if !isEmpty { try connection.execute("DELETE FROM _broker_feed") }
        } else {
            let bytes = try connection.integer(
                "SELECT ifnull(sum(length(keys) + \(Self.bytesPerRow)), 0) FROM _broker_feed")
            tally.bytes = Int(bytes ?? 0)
            durable = tally
        }
    }

    /// Whether keys are stored at all.
    var isKept: Bool { maximumBytes > 0 }

    /// Adds a job of the open transaction. Jobs must be added in the order of their sequences.
    mutating func add(_ keys: [UInt8], of sequence: Int64) throws(StoreError) {
        guard isKept else { return }
        if lines.count + keys.count > Self.rowBytes { try write() }
        lines += String(sequence).utf8
        lines.append(UInt8(ascii: " "))
        lines += keys
        lines.append(UInt8(ascii: "\n"))
        newest = sequence
    }

    /// Must be called once in a transaction, before its COMMIT.
    ///
    /// - Parameter first: earlier lines of the ledger have expired.
    mutating func finish(first: Int64) throws(StoreError) {
        try write()
        if first > tally.first {
            try deleteRows(before: first)
            tally.first = first
        }
        if tally.bytes > maximumBytes + min(Self.slackBytes, maximumBytes / 16) { try deleteSurplus() }
    }

    mutating func transactionEnded(isDurable: Bool) {
        if isDurable { durable = tally } else { tally = durable }
        lines.removeAll(keepingCapacity: lines.capacity <= Self.rowBytes)
    }

    private mutating func write() throws(StoreError) {
        guard !lines.isEmpty else { return }
        insert.bind(newest, at: 1)
        insert.bind(blob: lines, at: 2)
        try insert.run()
        tally.bytes += lines.count + Self.bytesPerRow
        lines.removeAll(keepingCapacity: lines.capacity <= Self.rowBytes)
    }

    /// Deletes the oldest rows that exceed the limit.
    private mutating func deleteSurplus() throws(StoreError) {
        var (last, bytes): (Int64?, Int) = (nil, tally.bytes)
        while bytes > maximumBytes, try oldest.step() {
            last = oldest.integer(0)
            bytes -= Int(oldest.integer(1)) + Self.bytesPerRow
        }
        oldest.reset()
        guard let last else { return }
        deleteOldest.bind(last, at: 1)
        try deleteOldest.run()
        tally.bytes = bytes
    }

    private mutating func deleteRows(before sequence: Int64) throws(StoreError) {
        expired.bind(sequence, at: 1)
        defer { expired.reset() }
        guard try expired.step(), expired.integer(0) > 0 else { return }
        tally.bytes -= Int(expired.integer(1)) + Int(expired.integer(0)) * Self.bytesPerRow
        deleteOldest.bind(sequence - 1, at: 1)
        try deleteOldest.run()
    }
}
