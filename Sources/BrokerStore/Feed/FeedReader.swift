internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import Foundation

/// Reads the feed concurrently with the writer, on a connection of its own that cannot write: the jobs from the ledger,
/// and the keys of their objects. Belongs to one thread.
///
/// Each read is a short transaction, so the WAL can be emptied between two.
package final class FeedReader {
    /// Bytes of commits from which a part ends.
    package static let partBytes = 256 << 10
    /// Jobs and bytes of their outcomes that one part reads.
    private static let scannedJobs = 10_000
    private static let scannedBytes = 4 << 20

    package struct Bounds: Sendable, Equatable {
        /// The ledger has all jobs after it.
        package let oldest: Int64
        package let newest: Int64
    }

    private let connection: Connection
    private let begin: Statement
    private let end: Statement
    private let forgotten: Statement
    private let newest: Statement
    private let jobs: Statement
    private let keys: Statement

    /// A reader of a store that is open: its files must be those that were opened.
    package convenience init(_ files: OpenedFiles) throws(StoreError) {
        try files.check()
        try self.init(path: files.path)
    }

    package init(path: String) throws(StoreError) {
        connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        try connection.execute("PRAGMA cache_size = -1024")
        begin = try connection.prepare("BEGIN")
        end = try connection.prepare("ROLLBACK")
        forgotten = try connection.prepare("SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'forgotten'")
        newest = try connection.prepare("SELECT ifnull(max(sequence), 0) FROM _broker_jobs")
        jobs = try connection.prepare(
            "SELECT sequence, failed, id, owner, outcome FROM _broker_jobs WHERE sequence > ?1 ORDER BY sequence")
        keys = try connection.prepare(
            "SELECT sequence, keys FROM _broker_feed WHERE sequence >= ?1 ORDER BY sequence LIMIT 1")
    }

    package func bounds() throws(StoreError) -> Bounds {
        try reading { () throws(StoreError) in try readBounds() }
    }

    /// The jobs after a sequence that changed the entities, in their order; as many as a part holds.
    ///
    /// - Returns: nil when the ledger does not have all jobs after that sequence, or none with it.
    package func part(
        after position: Int64, _ selection: FeedSelection, bytes: Int = partBytes
    ) throws(StoreError) -> FeedPart? {
        try reading { () throws(StoreError) in
            let bounds = try readBounds()
            guard (bounds.oldest...bounds.newest).contains(position) else { return nil }
            var part = FeedPart(position: position, newest: bounds.newest)
            var lines = KeyLines(keys)
            var (size, scanned, count) = (0, 0, 0)
            jobs.bind(position, at: 1)
            defer { jobs.reset() }
            while try jobs.step() {
                part.position = jobs.integer(0)
                count += 1
                scanned += jobs.bytes(4).count
                if jobs.integer(1) == 0, let commit = try commit(selection, &lines) {
                    part.commits.append(commit)
                    size += commit.byteCount
                }
                if size >= bytes || count >= Self.scannedJobs || scanned >= Self.scannedBytes { return part }
            }
            part.position = bounds.newest
            return part
        }
    }

    private func reading<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        try begin.run()
        // Nothing was written, so there is nothing that could fail to be committed.
        defer { try? end.run() }
        return try body()
    }

    private func readBounds() throws(StoreError) -> Bounds {
        let oldest = try forgotten.first { $0.integer(0) } ?? 0
        return Bounds(oldest: oldest, newest: max(oldest, try newest.first { $0.integer(0) } ?? 0))
    }

    /// - Returns: the present line of the ledger; nil when the job changed none of the entities.
    private func commit(_ selection: FeedSelection, _ lines: inout KeyLines) throws(StoreError) -> FeedCommit? {
        let outcome = try Self.document(Array(jobs.bytes(4)))
        var writer = JSONWriter(capacity: 96)
        var (wanted, others) = (0, 0)
        writer.object { writer in
            for (entity, counts) in outcome.root["changes"]?.members ?? outcome.root.members {
                let changed = ["inserted", "updated", "deleted"].compactMap { word in
                    counts[word]?.wholeNumber.flatMap { $0 > 0 ? (word, $0) : nil }
                }
                guard !changed.isEmpty else { continue }
                guard selection.entities.contains(Array(entity.bytes)) else {
                    others += 1
                    continue
                }
                wanted += 1
                writer.value(key: entity)
                writer.object { writer in
                    for (word, count) in changed {
                        writer.key(word)
                        writer.integer(count)
                    }
                }
            }
        }
        guard wanted > 0 else { return nil }
        var keys: [UInt8]?
        if selection.wantsKeys, let all = try lines.keys(of: jobs.integer(0)) {
            keys = others == 0 ? Array(all) : try Self.keys(in: Array(all), of: selection.entities)
        }
        let owner = jobs.isNull(3) ? nil : JobOwner(user: UInt32(truncatingIfNeeded: jobs.integer(3)))
        return FeedCommit(
            sequence: jobs.integer(0), id: selection.asker.maySee(jobOf: owner) ? jobs.text(2) : nil,
            changes: writer.bytes, keys: keys)
    }

    private static func document(_ json: [UInt8]) throws(StoreError) -> JSONDocument {
        do {
            return try JSONDocument(parsing: JSONText(copying: json))
        } catch {
            throw StoreError.unavailable(
                "The store is damaged: an outcome or its keys are no JSON (\(error)). Put a good copy in its place.")
        }
    }

    private static func keys(in all: [UInt8], of entities: Set<[UInt8]>) throws(StoreError) -> [UInt8] {
        let document = try document(all)
        var writer = JSONWriter(capacity: all.count)
        writer.object { writer in
            for (entity, keys) in document.root.members where entities.contains(Array(entity.bytes)) {
                writer.value(key: entity)
                writer.value(keys)
            }
        }
        return writer.bytes
    }
}

private struct KeyLines {
    private let rows: Statement
    private var row: (sequence: Int64, lines: ArraySlice<UInt8>)?

    init(_ rows: Statement) { self.rows = rows }

    /// The keys of the job's objects; nil when none are stored. Jobs must be asked for in their order.
    mutating func keys(of sequence: Int64) throws(StoreError) -> ArraySlice<UInt8>? {
        if row.map({ $0.sequence < sequence }) ?? true {
            row = try rows.first(sequence) { ($0.integer(0), Array($0.bytes(1))[...]) } ?? (.max, [])
        }
        while let line = row?.lines, let end = line.firstIndex(of: UInt8(ascii: "\n")),
            let space = line.firstIndex(of: UInt8(ascii: " ")),
            let found = Int64(String(decoding: line[..<space], as: UTF8.self)), found <= sequence
        {
            row?.lines = line[(end + 1)...]
            if found == sequence { return line[(space + 1)..<end] }
        }
        return nil
    }
}

extension JSONWriter {
    fileprivate mutating func value(key: JSONValue) { self.key(String(decoding: key.bytes, as: UTF8.self)) }
}

/// One job of the feed: the changes of the entities that a follower asked for.
package struct FeedCommit: Sendable, Equatable {
    package let sequence: Int64
    /// Nil for a follower that may not see whose job it is, and where no job is meant.
    package let id: String?
    /// The contract's `changes` as JSON; an empty object where no job up to the sequence changed those entities.
    package let changes: [UInt8]
    /// The contract's `keys` as JSON; nil when none were asked for, or they are not stored.
    package let keys: [UInt8]?

    /// Nothing up to this sequence concerns the follower.
    package init(nothingThrough sequence: Int64) {
        (self.sequence, id, changes, keys) = (sequence, nil, Array("{}".utf8), nil)
    }

    package init(sequence: Int64, id: String?, changes: [UInt8], keys: [UInt8]?) {
        (self.sequence, self.id, self.changes, self.keys) = (sequence, id, changes, keys)
    }

    var byteCount: Int { 128 + changes.count + (keys?.count ?? 0) }
}

package struct FeedSelection: Sendable {
    /// The names of the entities, with those below them.
    let entities: Set<[UInt8]>
    let wantsKeys: Bool
    /// Ids of jobs that it may not see are omitted.
    let asker: JobOwner

    package init(entities: some Sequence<String>, wantsKeys: Bool, asker: JobOwner) {
        self.entities = Set(entities.map { Array($0.utf8) })
        self.wantsKeys = wantsKeys
        self.asker = asker
    }
}

package struct FeedPart: Sendable {
    package var commits: [FeedCommit] = []
    /// No other job up to this sequence concerns the follower.
    package var position: Int64
    let newest: Int64

    package var isLast: Bool { position >= newest }
}

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

    /// Must be called once in a transaction, before its COMMIT. Lines of the ledger before `first` have expired.
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

    private mutating func deleteSurplus() throws(StoreError) {
        var (last, bytes): (Int64?, Int) = (nil, tally.bytes)
        while bytes > maximumBytes, try oldest.step() {
            last = oldest.integer(0)
            bytes -= Int(oldest.integer(1)) + Self.bytesPerRow
        }
        oldest.reset()
        guard let last else { return }
        try deleteOldest.run(last)
        tally.bytes = bytes
    }

    private mutating func deleteRows(before sequence: Int64) throws(StoreError) {
        let (rows, bytes) = try expired.first(sequence) { (Int($0.integer(0)), Int($0.integer(1))) } ?? (0, 0)
        guard rows > 0 else { return }
        tally.bytes -= bytes + rows * Self.bytesPerRow
        try deleteOldest.run(sequence - 1)
    }
}

extension JSONWriter {
    /// A key in the contract's form: the identity's value, or an object of attribute names and values, or the row key.
    mutating func key(_ cells: [Cell], of entity: Entity) {
        if entity.isNamedByRowKey { return integer(cells[0].integer) }
        let attributes = entity.identity.map { entity.attributes[$0] }
        guard cells.count > 1 else { return cell(cells[0], of: attributes[0]) }
        object { writer in
            for (cell, attribute) in zip(cells, attributes) {
                writer.key(attribute.name)
                writer.cell(cell, of: attribute)
            }
        }
    }

    /// A column's value as JSON: booleans as `true` and `false`, bytes in base64.
    mutating func cell(_ cell: Cell, of attribute: Attribute) {
        switch cell.kind {
        case .integer where attribute.type == .boolean: bool(cell.integer != 0)
        case .integer: integer(cell.integer)
        case .real: double(cell.real)
        case .text: string(cell.bytes)
        case .blob: string(Data(cell.bytes).base64EncodedString())
        case .absent, .null, .object: null()
        }
    }
}
