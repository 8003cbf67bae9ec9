internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// What the parts of syncs have named that are not complete: kept in the store, so that parts may come from any connection
/// and after a restart.
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
        // Each part looks for the syncs that are to be forgotten.
        """
        CREATE INDEX IF NOT EXISTS "_broker_open_syncs_changed" ON "_broker_open_syncs" ("changed")
        """,
    ]

    fileprivate let connection: Connection
    private let keptMilliseconds: Int64

    /// - Parameter keptSeconds: an unfinished sync that nothing is added to is forgotten after that.
    init(on connection: Connection, keptSeconds: Int) throws(StoreError) {
        self.connection = connection
        let (milliseconds, isBeyondCounting) = Int64(keptSeconds).multipliedReportingOverflow(by: 1_000)
        keptMilliseconds = isBeyondCounting ? .max : milliseconds
        try StoredKey.installFunction(on: connection)
    }

    /// Begins a part inside the job's savepoint.
    ///
    /// - Throws: `idConflict` when an earlier part of that id was about something else.
    func begin(_ part: SyncPart, at pointer: String, now: Int64) throws(MergeFailure) -> OpenSyncPart {
        var number: Int64?
        var isSame = true
        do throws(StoreError) {
            for table in Self.tables { try connection.execute(table) }
            try forget(before: now)
            let find = try connection.prepare("SELECT number, definition FROM _broker_open_syncs WHERE id = ?1")
            find.bind(part.id, at: 1)
            if try find.step() {
                number = find.integer(0)
                isSame = find.bytes(1).elementsEqual(part.definition)
            }
            find.reset()
            if number == nil {
                let insert = try connection.prepare(
                    "INSERT INTO _broker_open_syncs (id, definition, rejected, changed) VALUES (?1, ?2, 0, ?3) "
                        + "RETURNING number")
                insert.bind(part.id, at: 1)
                insert.bind(blob: part.definition, at: 2)
                insert.bind(now, at: 3)
                while try insert.step() { number = insert.integer(0) }
            }
        } catch {
            throw .store(error)
        }
        guard isSame else {
            throw .fault(
                Fault(
                    .idConflict,
                    "The parts of the sync \(part.id.quotedBriefly) that came before have another `entity`, `where` or "
                        + "`arguments`. Give every sync an id of its own, and say the same in all of its parts.",
                    path: "\(pointer)/part"))
        }
        return OpenSyncPart(parts: self, number: number!, isLast: part.isLast, now: now)
    }

    private func forget(before now: Int64) throws(StoreError) {
        guard keptMilliseconds < now else { return }
        let old = "changed < \(now - keptMilliseconds)"
        try connection.execute(
            "DELETE FROM _broker_open_sync_keys WHERE sync IN (SELECT number FROM _broker_open_syncs WHERE \(old))")
        try connection.execute("DELETE FROM _broker_open_syncs WHERE \(old)")
    }
}

/// A part that is being applied.
struct OpenSyncPart {
    let parts: SyncParts
    /// The sync's, in the store.
    let number: Int64
    let isLast: Bool
    let now: Int64

    /// Keeps what the part's rows name.
    ///
    /// - Returns: whether nothing was rejected, in any part.
    func note(
        _ rows: StagedRows, _ merged: MergedRows, _ entity: Int, _ merger: Merger, isComplete: Bool
    ) throws(MergeFailure) -> Bool {
        do throws(StoreError) {
            try note(rows, merged, entity, merger)
            let update = try parts.connection.prepare(
                "UPDATE _broker_open_syncs SET rejected = rejected OR ?2, changed = ?3 WHERE number = ?1 "
                    + "RETURNING rejected")
            update.bind(number, at: 1)
            update.bind(isComplete ? 0 : 1, at: 2)
            update.bind(now, at: 3)
            var isRejected = false
            while try update.step() { isRejected = update.integer(0) != 0 }
            return !isRejected
        } catch {
            throw .store(error)
        }
    }

    private func note(
        _ rows: StagedRows, _ merged: MergedRows, _ entity: Int, _ merger: Merger
    ) throws(StoreError) {
        let statements = merger.entities[entity]
        let insert = try parts.connection.prepare("INSERT OR IGNORE INTO _broker_open_sync_keys VALUES (?1, ?2)")
        insert.bind(number, at: 1)
        func keep(_ key: StoredKey) throws(StoreError) {
            insert.bind(blob: key.bytes, at: 2)
            try insert.run()
        }
        for case let table? in rows.tables where statements.isAbout(table) {
            for position in 0..<table.rowCount {
                let row = table.order[position]
                try keep(merger.key(of: row, table, merged))
                guard statements.entity.hasRowKey, table.hasIdentity(row) else { continue }
                try keep(.naming(merger.forms.stored(table.identity(ofRow: row), of: entity)))
            }
        }
        // Another job may make them before the last part comes.
        for identity in rows.namedAlone(entity) {
            let identity = try merger.forms.stored(identity, of: entity)
            try keep(statements.entity.hasRowKey ? .naming(identity) : StoredKey(identity))
        }
    }

    /// The condition that no part named an object `o`.
    ///
    /// A search for each of its keys: SQLite would make a table of the list of an `IN`, anew for each object.
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

    /// The id is free again.
    func end() throws(MergeFailure) {
        do throws(StoreError) {
            let end = try parts.connection.prepare("DELETE FROM _broker_open_syncs WHERE number = ?1")
            end.bind(number, at: 1)
            try end.run()
            // As a rule no other sync is open, and SQLite empties a table at once.
            let others = try parts.connection.prepare("SELECT 1 FROM _broker_open_syncs LIMIT 1")
            let isOnly = try !others.step()
            others.reset()
            let delete = try parts.connection.prepare(
                "DELETE FROM _broker_open_sync_keys" + (isOnly ? "" : " WHERE sync = ?1"))
            if !isOnly { delete.bind(number, at: 1) }
            try delete.run()
        } catch {
            throw .store(error)
        }
    }
}

extension StoredKey {
    /// Of an object whose key is the store's own, what names it beside that: an identity, which no key is taken for.
    fileprivate static func naming(_ identity: [Cell]) -> StoredKey { StoredKey([.null] + identity) }

    /// The function of SQL that makes a key's bytes of columns.
    static let function = "_broker_key"

    static func installFunction(on connection: Connection) throws(StoreError) {
        let result = sqlite3_create_function_v2(
            connection.handle, function, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nil,
            { context, count, values in
                let key = StoredKey((0..<Int(count)).map { Cell(values![$0]) })
                key.bytes.withUnsafeBytes {
                    sqlite3_result_blob(
                        context, $0.baseAddress, Int32($0.count), unsafeBitCast(-1, to: sqlite3_destructor_type.self))
                }
            }, nil, nil, nil)
        guard result == SQLITE_OK else { throw connection.error(result) }
    }
}
