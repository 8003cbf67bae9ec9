internal import BrokerSchema
internal import Glibc

/// The jobs that have ended, written in the transactions of their data, at the end of a table; ``JobIndex`` finds them.
///
/// An id has at most one line.
///
/// A class: as a value it would be copied, with all its statements, for each call of the store's.
final class Ledger {
    /// Facts about the table that need no query; restored when a transaction is rolled back.
    private struct Tally {
        var rows: Int
        /// The time of the last job in it; nil while it is empty.
        var newestTime: Int64?
        /// That of the first job in it.
        var oldestTime: Int64?
        /// Lines before this sequence have expired.
        var first: Int64 = 0
        var history: StateDigest?
    }

    /// The maximum number of rows deleted at a time: after a change of the limits, the ledger shrinks in short steps.
    private static let pruneStep = 1_000
    /// The interval between searches for expired outcomes, which read the oldest rows.
    private static let agingMilliseconds: Int64 = 1_000

    /// Set while a journal's jobs are applied to the store; written with each transaction.
    var history: StateDigest? {
        get { tally.history }
        set { tally.history = newValue }
    }

    let index = JobIndex()
    private let connection: Connection
    private let lines: LedgerLines
    private let inserts: LedgerInserts
    private var pending = PendingLines()
    private let deleteLine: Statement
    private let deleteFirst: Statement
    private let findFirst: Statement
    private let writeReservation: Statement
    private let writeHistory: Statement
    private let writeForgotten: Statement
    private let findSequence: Statement
    private let retention: LedgerRetention
    private var tally: Tally
    /// The tally as of the last transaction that became durable.
    private var durable: Tally

    init(on connection: Connection, _ retention: LedgerRetention) throws(StoreError) {
        self.connection = connection
        self.retention = retention
        lines = try LedgerLines(on: connection, index)
        deleteLine = try connection.prepare("DELETE FROM _broker_jobs WHERE sequence = ?1")
        inserts = try LedgerInserts(on: connection)
        findFirst = try connection.prepare("SELECT sequence, ended FROM _broker_jobs ORDER BY sequence LIMIT 1")
        func write(_ key: String, _ value: String = "excluded.value") throws(StoreError) -> Statement {
            try connection.prepare(
                "INSERT INTO _broker_meta (key, value) VALUES ('\(key)', ?1) "
                    + "ON CONFLICT (key) DO UPDATE SET value = \(value)")
        }
        writeReservation = try write("reservedSequence")
        writeHistory = try write("logApplied")
        // A restored store has a higher number, so that followers of the replaced one begin again.
        writeForgotten = try write("forgotten", "max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))")
        findSequence = try connection.prepare(
            "SELECT max((SELECT ifnull(max(sequence), 0) FROM _broker_jobs), "
                + "ifnull((SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'reservedSequence'), 0))")
        // Sequences rise with time, so the rows to delete are at the beginning.
        deleteFirst = try connection.prepare(
            "DELETE FROM _broker_jobs WHERE sequence IN (SELECT sequence FROM _broker_jobs ORDER BY sequence LIMIT ?1) "
                + "AND ended < ?2")
        tally = Tally(rows: 0)
        let all = try connection.prepare("SELECT id, sequence FROM _broker_jobs ORDER BY sequence")
        while try all.step() {
            index.load(all.text(0), all.integer(1))
            tally.rows += 1
        }
        tally.history = try StoreMeta(connection: connection).value(of: .logApplied).flatMap { StateDigest($0) }
        (tally.first, tally.oldestTime) = try findFirst.first { ($0.integer(0), $0.integer(1)) } ?? (0, nil)
        tally.newestTime = try connection.integer("SELECT ended FROM _broker_jobs ORDER BY sequence DESC LIMIT 1")
        durable = tally
    }

    // MARK: - Sequences

    func id(ofJobAt sequence: Int64) throws(StoreError) -> String? {
        try connection.prepare("SELECT id FROM _broker_jobs WHERE sequence = ?1").first(sequence) { $0.text(0) }
    }

    /// The highest sequence, of a line in the ledger or reserved.
    func newestSequence() throws(StoreError) -> Int64 { try findSequence.first { $0.integer(0) } ?? 0 }

    /// Reserves the sequences up to this one: they may be sent to clients after the COMMIT.
    func reserve(through sequence: Int64) throws(StoreError) { try writeReservation.run(sequence) }

    // MARK: - Outcomes

    func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? { try lines.outcome(ofJob: id) }

    /// Records a job's line, which ``write()`` writes at the latest.
    ///
    /// - Parameter failure: the line of a failed job with the same id, which the new line replaces.
    func record(
        _ outcome: StoredOutcome, ofJob id: String, replacing failure: StoredOutcome?, now: Int64
    ) throws(StoreError) {
        if let failure {
            try deleteLine.run(failure.sequence)
            tally.rows -= connection.changes
            tally.oldestTime = try findFirst.first { $0.integer(1) }
        }
        index.set(id, to: outcome.sequence, replacing: failure?.sequence)
        pending.add(outcome, ofJob: id, now: now)
        if pending.count == LedgerInserts.most { try write() }
        tally.rows += 1
        tally.oldestTime = tally.oldestTime ?? now
        try prune(now)
    }

    /// Writes the lines that are not written yet. Must be called before the transaction goes on with anything else.
    func write() throws(StoreError) {
        guard !pending.isEmpty else { return }
        try inserts.write(pending)
        pending.removeAll()
    }

    // MARK: - Expiration

    /// How many outcomes may exceed the count before any is deleted, so that most transactions need not delete.
    private var slack: Int { min(Self.pruneStep, retention.count / 16) }

    /// Deletes the oldest rows that exceed the count or the age. The count is that of existing rows, whatever their
    /// sequences are.
    ///
    /// The result depends on the jobs and their times alone, and not on how many share a transaction: a store to which
    /// the same jobs are applied deletes the same rows.
    private func prune(_ now: Int64) throws(StoreError) {
        let surplus = tally.rows - retention.count
        if surplus > slack { try deleteOldest(min(surplus, Self.pruneStep), endedBefore: .max) }
        defer { tally.newestTime = now }
        if let newest = tally.newestTime, newest / Self.agingMilliseconds == now / Self.agingMilliseconds { return }
        let (age, isBeyondCounting) = Int64(retention.seconds).multipliedReportingOverflow(by: 1_000)
        if !isBeyondCounting { try deleteOldest(Self.pruneStep, endedBefore: now - age) }
    }

    /// Must be called once in a transaction, before its COMMIT.
    func finish() throws(StoreError) {
        try write()
        guard let history = tally.history, history != durable.history else { return }
        writeHistory.bind(history.text, at: 1)
        try writeHistory.run()
    }

    var count: Int { durable.rows }
    var oldestTime: Int64? { durable.oldestTime }

    /// The highest sequence whose outcome may have been deleted; 0 for none.
    var forgottenThrough: Int64 { max(0, durable.first - 1) }

    private func deleteOldest(_ count: Int, endedBefore time: Int64) throws(StoreError) {
        try write()
        try deleteFirst.run(Int64(count), time)
        guard connection.changes > 0 else { return }
        tally.rows -= connection.changes
        guard let (first, time) = try findFirst.first(read: { ($0.integer(0), $0.integer(1)) }) else {
            tally.oldestTime = nil
            return
        }
        (tally.first, tally.oldestTime) = (first, time)
        try writeForgotten.run(first - 1)
    }

    /// Lines before this sequence have expired, also in the open transaction.
    var firstSequence: Int64 { tally.first }

    func transactionEnded(isDurable: Bool) {
        if isDurable { durable = tally } else { tally = durable }
        pending.removeAll()
        index.transactionEnded(isDurable: isDurable)
        index.expire(before: durable.first)
    }
}

/// How many outcomes are stored, with their ids, and for how long.
package struct LedgerRetention: Sendable, Equatable {
    /// A job a minute for two years, or a minute at full speed; some 300 bytes each.
    package static let defaultCount = 1_000_000
    package static let defaultSeconds = 7 * 24 * 3600

    package var count: Int
    package var seconds: Int

    package init(count: Int = defaultCount, seconds: Int = defaultSeconds) {
        self.count = count
        self.seconds = seconds
    }
}

/// Writes lines of the ledger, several with one statement: each execution of one has costs of its own.
struct LedgerInserts {
    static let most = 16

    private static let counts = [most, 4, 1]
    private static let columnCount = 7

    private let statements: [(count: Int, statement: Statement)]

    init(on connection: Connection) throws(StoreError) {
        var statements: [(count: Int, statement: Statement)] = []
        for count in Self.counts {
            let rows = (0..<count).map { row in
                "(" + (1...Self.columnCount).map { "?\(row * Self.columnCount + $0)" }.joined(separator: ", ") + ")"
            }
            // After FAIL, lines before the one at fault stay, and the caller rolls the transaction back. For ABORT SQLite would
            // copy each page before it changes it.
            let sql =
                "INSERT OR FAIL INTO _broker_jobs (sequence, id, hash, failed, ended, outcome, owner) VALUES "
                + rows.joined(separator: ", ")
            statements.append((count, try connection.prepare(sql)))
        }
        self.statements = statements
    }

    func write(_ pending: PendingLines) throws(StoreError) {
        try pending.bytes.withUnsafeBufferPointer { bytes throws(StoreError) in
            var lines = pending.lines[...]
            for (count, statement) in statements {
                while lines.count >= count {
                    for (row, line) in lines.prefix(count).enumerated() { bind(line, bytes, to: statement, row) }
                    lines = lines.dropFirst(count)
                    try statement.run()
                }
            }
        }
    }

    private func bind(
        _ line: PendingLines.Line, _ bytes: UnsafeBufferPointer<UInt8>, to statement: Statement, _ row: Int
    ) {
        let first = row * Self.columnCount
        statement.bind(line.sequence, at: first + 1)
        statement.bind(borrowed: UnsafeBufferPointer(rebasing: bytes[line.id]), at: first + 2)
        statement.bind(
            borrowed: line.hash.map { UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[$0])) }, at: first + 3)
        statement.bind(line.isFailure ? 1 : 0, at: first + 4)
        statement.bind(line.ended, at: first + 5)
        statement.bind(borrowed: UnsafeBufferPointer(rebasing: bytes[line.body]), at: first + 6)
        if let owner = line.owner {
            statement.bind(owner, at: first + 7)
        } else {
            statement.bind(blob: nil, at: first + 7)
        }
    }
}

/// Lines of the ledger that are not written yet, in memory that is used again.
struct PendingLines {
    struct Line {
        let sequence: Int64
        let isFailure: Bool
        let ended: Int64
        let owner: Int64?
        let id: Range<Int>
        let hash: Range<Int>?
        let body: Range<Int>
    }

    private(set) var lines: [Line] = []
    private(set) var bytes: [UInt8] = []

    var isEmpty: Bool { lines.isEmpty }
    var count: Int { lines.count }

    /// More bytes than usual are not retained.
    private static let usualBytes = 64 << 10

    mutating func removeAll() {
        lines.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: bytes.count <= Self.usualBytes)
    }

    mutating func add(_ outcome: StoredOutcome, ofJob id: String, now: Int64) {
        var id = id
        let idRange = id.withUTF8 { append($0) }
        let hashRange = outcome.contentHash?.withBytes { append($0.bindMemory(to: UInt8.self)) }
        lines.append(
            Line(
                sequence: outcome.sequence, isFailure: outcome.isFailure, ended: now,
                owner: outcome.owner.map { Int64($0.user) }, id: idRange, hash: hashRange,
                body: outcome.body.withUnsafeBufferPointer { append($0) }))
    }

    private mutating func append(_ added: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        bytes.append(contentsOf: added)
        return bytes.count - added.count..<bytes.count
    }
}
