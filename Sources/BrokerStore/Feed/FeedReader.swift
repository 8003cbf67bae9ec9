internal import BrokerJSON
internal import BrokerSchema

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

    /// The sequences after which the feed may be read.
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

    /// - Parameter path: the path of a store that the writer has opened before.
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
        defer {
            forgotten.reset()
            newest.reset()
        }
        let oldest = try forgotten.step() ? forgotten.integer(0) : 0
        let last = try newest.step() ? newest.integer(0) : 0
        return Bounds(oldest: oldest, newest: max(oldest, last))
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

    /// A text that the writer stored.
    private static func document(_ json: [UInt8]) throws(StoreError) -> JSONDocument {
        do {
            return try JSONDocument(parsing: JSONText(copying: json))
        } catch {
            throw StoreError(
                .unavailable,
                "The store is damaged: an outcome or its keys are no JSON (\(error)). Put a good copy in its place.")
        }
    }

    /// The keys of these entities alone.
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

/// The lines of keys in the table `_broker_feed`, read in the order of the jobs.
private struct KeyLines {
    private let rows: Statement
    private var row: (sequence: Int64, lines: ArraySlice<UInt8>)?

    init(_ rows: Statement) { self.rows = rows }

    /// The keys of the job's objects; nil when none are stored. Jobs must be asked for in their order.
    mutating func keys(of sequence: Int64) throws(StoreError) -> ArraySlice<UInt8>? {
        if row.map({ $0.sequence < sequence }) ?? true {
            rows.bind(sequence, at: 1)
            defer { rows.reset() }
            row = try rows.step() ? (rows.integer(0), Array(rows.bytes(1))[...]) : (.max, [])
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
    /// Writes the key of a member of another document.
    fileprivate mutating func value(key: JSONValue) { self.key(String(decoding: key.bytes, as: UTF8.self)) }
}
