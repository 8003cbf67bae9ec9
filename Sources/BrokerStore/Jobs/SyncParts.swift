internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite

/// The objects that parts of open syncs have named: stored, so that parts may come from any connection, after a restart, too.
final class SyncParts {
    private static let tables = [
        """
        CREATE TABLE IF NOT EXISTS "_broker_open_syncs" (
            "number" INTEGER PRIMARY KEY, "id" TEXT NOT NULL UNIQUE, "definition" BLOB NOT NULL,
            "rejected" INTEGER NOT NULL, "changed" INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE IF NOT EXISTS "_broker_open_sync_keys" (
            "sync" INTEGER NOT NULL, "key" BLOB NOT NULL, PRIMARY KEY ("sync", "key")
        ) WITHOUT ROWID
        """,
        // Each part looks for a sync that is due to be deleted.
        """
        CREATE INDEX IF NOT EXISTS "_broker_open_syncs_changed" ON "_broker_open_syncs" ("changed")
        """,
    ]

    /// The maximum number of keys of expired syncs that one part deletes: some 10 ms.
    static let keysDeletedAtOnce = 10_000

    fileprivate let connection: Connection
    private let expirationMilliseconds: Int64
    /// The maximum number of syncs that are open at the same time, of all clients; tests lower it.
    var maximum = 10_000

    /// An unfinished sync expires when no part was added for so long.
    init(on connection: Connection, expirationSeconds: Int) throws(StoreError) {
        self.connection = connection
        let (milliseconds, isBeyondCounting) = Int64(expirationSeconds).multipliedReportingOverflow(by: 1_000)
        expirationMilliseconds = isBeyondCounting ? .max : milliseconds
        try StoredKey.installFunction(on: connection)
    }

    /// Begins a part inside the job's savepoint.
    ///
    /// - Throws: `idConflict` when an earlier part with that id has another definition; `busy` when it is the first
    ///   one, and ``maximum`` syncs are open.
    func begin(_ part: SyncPart, at pointer: String, now: Int64) throws -> OpenSyncPart {
        let oldest = expirationMilliseconds < now ? now - expirationMilliseconds : .min
        let number = try open(part, at: "\(pointer)/part", activeSince: oldest, now)
        return OpenSyncPart(parts: self, number: number, isLast: part.isLast, now: now)
    }

    /// The sync's number. Syncs to which no part was added since `oldest` have expired.
    private func open(
        _ part: SyncPart, at path: String, activeSince oldest: Int64, _ now: Int64
    ) throws -> Int64 {
        for table in Self.tables { try connection.execute(table) }
        if let old = try integer("SELECT number FROM _broker_open_syncs WHERE changed < ?1 LIMIT 1", oldest) {
            _ = try delete(old)
        }
        let find = try connection.prepare("SELECT number, definition, changed FROM _broker_open_syncs WHERE id = ?1")
        find.bind(part.id, at: 1)
        if try find.step() {
            let number = find.integer(0)
            let isSame = find.bytes(1).elementsEqual(part.definition)
            let isOld = find.integer(2) < oldest
            find.reset()
            guard isOld else {
                guard isSame else { throw MergeFailure.fault(Self.idConflict(part.id).at(path)) }
                return number
            }
            while try !delete(number) {}
        }
        let count = try integer("SELECT count(*) FROM _broker_open_syncs WHERE changed >= ?1", oldest)
        if let count, count >= maximum { throw MergeFailure.fault(tooMany.at(path)) }
        let insert = try connection.prepare(
            "INSERT INTO _broker_open_syncs (id, definition, rejected, changed) VALUES (?1, ?2, 0, ?3)")
        insert.bind(part.id, at: 1)
        insert.bind(blob: part.definition, at: 2)
        insert.bind(now, at: 3)
        try insert.run()
        return sqlite3_last_insert_rowid(connection.handle)
    }

    /// Deletes a sync, or ``keysDeletedAtOnce`` of its keys, because the part that pays for it may be another client's. Returns
    /// whether the whole sync is deleted.
    private func delete(_ number: Int64) throws(StoreError) -> Bool {
        let keys = try connection.prepare(
            "DELETE FROM _broker_open_sync_keys WHERE sync = ?1 AND key IN "
                + "(SELECT key FROM _broker_open_sync_keys WHERE sync = ?1 LIMIT \(Self.keysDeletedAtOnce))")
        try keys.run(number)
        guard connection.changes < Self.keysDeletedAtOnce else { return false }
        try connection.prepare("DELETE FROM _broker_open_syncs WHERE number = ?1").run(number)
        return true
    }

    private func integer(_ sql: String, _ parameter: Int64) throws(StoreError) -> Int64? {
        try connection.prepare(sql).first(parameter) { $0.integer(0) }
    }

    private static func idConflict(_ id: String) -> Fault {
        Fault(
            .idConflict,
            "The parts of the sync \(id.quotedBriefly) that came before have another `entity`, `where` or "
                + "`arguments`. Give every sync an id of its own, and say the same in all of its parts.")
    }

    private var tooMany: Fault {
        .busy(
            "\(maximum) syncs in parts are open, and no other can begin. Send the part with `last` true of those that are "
                + "complete. A sync that nothing is added to is forgotten with the outcomes of its time.")
    }
}

struct OpenSyncPart {
    let parts: SyncParts
    let number: Int64
    let isLast: Bool
    let now: Int64

    /// Stores the keys that the part's records name. Returns whether no record was rejected, in any part.
    func note(isComplete: Bool, _ forEachName: ((StoredKey) throws -> Void) throws -> Void) throws -> Bool {
        let insert = try parts.connection.prepare("INSERT OR IGNORE INTO _broker_open_sync_keys VALUES (?1, ?2)")
        insert.bind(number, at: 1)
        try forEachName { key in
            insert.bind(blob: key.bytes, at: 2)
            try insert.run()
        }
        return try end(isComplete: isComplete)
    }

    /// Stores the keys of the merged rows by one statement. Returns false when their objects' keys are not what was staged.
    func note(_ merged: SetMerge, _ entity: Int) throws(StoreError) -> Bool {
        let statements = merged.merger.entities[entity]
        guard !statements.hasRowKey, !merged.merger.forms.changesKey(of: entity) else { return false }
        let columns = statements.identity.map { "c\($0)" }.joined(separator: ", ")
        let insert = try parts.connection.prepare(
            "INSERT OR IGNORE INTO _broker_open_sync_keys SELECT \(number), \(StoredKey.function)(\(columns)) "
                + "FROM \(merged.merger.scans.tableName(entity: entity))")
        try merged.scan(entity) { () throws(StoreError) in try insert.run() }
        return true
    }

    private func end(isComplete: Bool) throws(StoreError) -> Bool {
        let update = try parts.connection.prepare(
            "UPDATE _broker_open_syncs SET rejected = rejected OR ?2, changed = ?3 WHERE number = ?1 "
                + "RETURNING rejected")
        update.bind(number, at: 1)
        update.bind(isComplete ? 0 : 1, at: 2)
        update.bind(now, at: 3)
        var isRejected = false
        while try update.step() { isRejected = update.integer(0) != 0 }
        return !isRejected
    }

    /// The condition that no part named an object `o`.
    ///
    /// It is a search for each of its keys: for the list of an `IN`, SQLite would build a new table for each object.
    func isUnnamed(_ statements: EntityStatements) -> String {
        func key(_ values: [String]) -> String { "\(StoredKey.function)(\(values.joined(separator: ", ")))" }
        func columns(_ names: [String]) -> [String] { names.map { "o.\(quoted($0))" } }
        var keys = [key(columns(statements.keyNames))]
        let entity = statements.entity
        if entity.hasRowKey, statements.hasIdentity {
            keys.append(key(["NULL"] + columns(entity.identity.map { entity.attributes[$0].column })))
        }
        return keys.map {
            "NOT EXISTS (SELECT 1 FROM _broker_open_sync_keys WHERE sync = \(number) AND key = \($0))"
        }.joined(separator: " AND ")
    }

    func end() throws(StoreError) {
        try parts.connection.prepare("DELETE FROM _broker_open_syncs WHERE number = ?1").run(number)
        // Usually no other sync is open, and SQLite empties a whole table at once.
        let others = try parts.connection.integer("SELECT 1 FROM _broker_open_syncs LIMIT 1")
        try parts.connection.prepare(
            "DELETE FROM _broker_open_sync_keys" + (others == nil ? "" : " WHERE sync = \(number)")
        ).run()
    }
}

extension StoredKey {
    /// The SQL function that converts columns into a key's bytes.
    static let function = "_broker_key"

    static func installFunction(on connection: Connection) throws(StoreError) {
        let meter = Unmanaged.passUnretained(connection.work).toOpaque()
        try connection.addFunction(function, -1, SQLITE_DETERMINISTIC, meter) { context, count, values in
            let values = UnsafeBufferPointer(start: values, count: Int(count))
            let meter = WorkMeter.of(sqlite3_user_data(context))
            guard PredicateFunctions.charge(context, meter, forKeyOf: values) else { return }
            StoredKey(values.map { Cell($0) }).bytes.withUnsafeBytes {
                sqlite3_result_blob(
                    context, $0.baseAddress, Int32($0.count), unsafeBitCast(-1, to: sqlite3_destructor_type.self))
            }
        }
    }
}
