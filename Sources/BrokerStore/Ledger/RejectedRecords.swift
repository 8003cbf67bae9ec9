internal import BrokerModel
internal import BrokerStaging

/// The records that jobs skipped, in the table `_broker_rejects`: written in the transactions of their jobs, and bounded by their
/// bytes.
struct RejectedRecords {
    /// What the table holds, and what was lost since the start; restored when a transaction is rolled back.
    private var tally = RejectTally()
    /// The tally as of the last transaction that became durable.
    private var durable = RejectTally()

    private let maximumBytes: Int
    private let insert: Statement
    private let oldest: Statement
    private let deleteThrough: Statement
    private let deleteOne: Statement

    /// - Parameter maximumBytes: 0 keeps nothing, and deletes what is there.
    init(on connection: Connection, maximumBytes: Int) throws(StoreError) {
        self.maximumBytes = maximumBytes
        insert = try connection.prepare(
            """
            INSERT OR REPLACE INTO _broker_rejects (id, bytes, time, job, owner, entity, errors, request)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            """)
        oldest = try connection.prepare("SELECT id, bytes FROM _broker_rejects ORDER BY id")
        let deletion = "DELETE FROM _broker_rejects WHERE (?2 IS NULL OR owner = ?2) AND id"
        deleteThrough = try connection.prepare("\(deletion) <= ?1 RETURNING bytes")
        deleteOne = try connection.prepare("\(deletion) = ?1 RETURNING bytes")
        if maximumBytes == 0 {
            let isEmpty = try connection.integer("SELECT 1 FROM _broker_rejects LIMIT 1") == nil
            if !isEmpty { try connection.execute("DELETE FROM _broker_rejects") }
        } else {
            while try oldest.step() { tally.add(Int(oldest.integer(1))) }
            oldest.reset()
            durable = tally
        }
    }

    var counts: RejectTally { durable }

    /// Adds those of a job of the open transaction.
    mutating func add(_ faults: [Fault], of job: StoreJob) throws(StoreError) {
        guard maximumBytes > 0, let rows = job.work.steps.lazy.compactMap(\.rows).first else { return }
        let (records, omitted) = rows.rejectedRecords(faults)
        tally.omitted += omitted
        for (number, record) in records.enumerated() {
            insert.bind(job.sequence * StoredReject.idsOfJob + Int64(number), at: 1)
            insert.bind(Int64(record.byteCount), at: 2)
            insert.bind(job.now, at: 3)
            insert.bind(job.id, at: 4)
            insert.bind(Int64(job.owner.user), at: 5)
            insert.bind(record.entity, at: 6)
            insert.bind(text: record.errors, at: 7)
            insert.bind(text: record.request, at: 8)
            try insert.run()
            tally.add(record.byteCount)
        }
    }

    /// Must be called once in a transaction, before its COMMIT.
    mutating func finish() throws(StoreError) {
        guard tally.bytes > maximumBytes else { return }
        var (last, rest) = (Int64(0), tally)
        while rest.bytes > maximumBytes, try oldest.step() {
            last = oldest.integer(0)
            rest.remove(Int(oldest.integer(1)))
        }
        oldest.reset()
        let before = tally.count
        try delete(deleteThrough, last, nil)
        tally.omitted += before - tally.count
    }

    mutating func transactionEnded(isDurable: Bool) {
        if isDurable { durable = tally } else { tally = durable }
    }

    /// Deletes in the open transaction.
    mutating func drop(_ selection: RejectSelection, as asker: JobOwner) throws(StoreError) {
        switch selection {
        case .ids(let ids): for id in ids { try delete(deleteOne, id, asker) }
        case .through(let id): try delete(deleteThrough, id, asker)
        }
    }

    /// - Parameter asker: only those that it may see; nil for all.
    private mutating func delete(_ statement: Statement, _ id: Int64, _ asker: JobOwner?) throws(StoreError) {
        statement.bind(id, at: 1)
        statement.bind(blob: nil, at: 2)
        if let asker, !asker.isPrivileged { statement.bind(Int64(asker.user), at: 2) }
        defer { statement.reset() }
        while try statement.step() { tally.remove(Int(statement.integer(0))) }
    }
}

/// How many rejected records are kept.
package struct RejectTally: Sendable, Equatable {
    package private(set) var count = 0
    package private(set) var bytes = 0
    /// Those that were not kept since the start, or not for long: their job had too many, or later ones took their place.
    package fileprivate(set) var omitted = 0

    package init() {}

    fileprivate mutating func add(_ bytes: Int) { (count, self.bytes) = (count + 1, self.bytes + bytes) }
    fileprivate mutating func remove(_ bytes: Int) { (count, self.bytes) = (count - 1, self.bytes - bytes) }
}

/// A rejected record in the store.
package struct StoredReject: Sendable {
    /// An id is the sequence of the job times this, and the number of the record in the job.
    package static let idsOfJob = Int64(RejectedRecord.mostOfJob)

    package let id: Int64
    /// When its job was accepted, in milliseconds since 1970.
    package let time: Int64
    package let job: String
    package let owner: JobOwner
    package let entity: String
    /// As in `RejectedRecord`.
    package let errors: [UInt8]
    /// As in `RejectedRecord`; nil when it is not asked for.
    package let request: [UInt8]?

    package var sequence: Int64 { id / Self.idsOfJob }
}

package enum RejectSelection: Sendable, Equatable {
    case ids([Int64])
    /// All up to that one.
    case through(Int64)
}

/// Which rejected records to read: the newest first.
package struct RejectQuery: Sendable, Equatable {
    /// Nil for all.
    package var ids: [Int64]?
    /// Only older ones.
    package var before: Int64?
    package var entity: String?
    package var job: String?
    package var limit: Int
    package var wantsRequests = false

    package init(limit: Int) { self.limit = limit }
}

/// Reads rejected records on a connection that cannot write.
struct RejectReader {
    /// Bytes after which an answer has no more.
    private static let answerBytes = 4 << 20
    private static let columns =
        "id, time, job, owner, entity, errors, CASE WHEN ?1 THEN request END FROM _broker_rejects"

    private let one: Statement
    private let newest: Statement

    init(on connection: Connection) throws(StoreError) {
        one = try connection.prepare("SELECT \(Self.columns) WHERE id = ?2 AND (?3 IS NULL OR owner = ?3)")
        newest = try connection.prepare(
            """
            SELECT \(Self.columns) WHERE id < ?2 AND (?3 IS NULL OR owner = ?3) AND (?4 IS NULL OR entity = ?4)
                AND (?5 IS NULL OR job = ?5) ORDER BY id DESC
            """)
    }

    /// - Returns: those that the asker may see, and whether the answer lacks some.
    func rejects(
        _ query: RejectQuery, as asker: JobOwner
    ) throws(StoreError) -> (rejects: [StoredReject], hasMore: Bool) {
        var (found, bytes): ([StoredReject], Int) = ([], 0)
        func read(_ statement: Statement, from id: Int64) throws(StoreError) -> Bool {
            statement.bind(query.wantsRequests ? 1 : 0, at: 1)
            statement.bind(id, at: 2)
            if asker.isPrivileged { statement.bind(blob: nil, at: 3) } else { statement.bind(Int64(asker.user), at: 3) }
            defer { statement.reset() }
            while try statement.step() {
                guard found.count < query.limit, bytes < Self.answerBytes else { return true }
                let reject = StoredReject(statement)
                bytes += reject.errors.count + (reject.request?.count ?? 0)
                found.append(reject)
            }
            return false
        }
        if let ids = query.ids {
            for id in ids { if try read(one, from: id) { return (found, true) } }
            return (found, false)
        }
        for (text, index) in [(query.entity, 4), (query.job, 5)] {
            if let text { newest.bind(text, at: index) } else { newest.bind(blob: nil, at: index) }
        }
        let hasMore = try read(newest, from: query.before ?? .max)
        return (found, hasMore)
    }
}

extension StoredReject {
    fileprivate init(_ row: Statement) {
        self.init(
            id: row.integer(0), time: row.integer(1), job: row.text(2),
            owner: JobOwner(user: UInt32(truncatingIfNeeded: row.integer(3))), entity: row.text(4),
            errors: Array(row.text(5).utf8), request: row.isNull(6) ? nil : Array(row.text(6).utf8))
    }
}
