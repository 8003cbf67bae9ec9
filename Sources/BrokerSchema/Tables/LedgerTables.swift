internal import BrokerModel
package import BrokerSQLite

/// The tables of the ledger and of single facts about a store, which Broker adds to every database.
package enum LedgerTables {
    private static let tables = [
        """
        CREATE TABLE IF NOT EXISTS "_broker_jobs" (
            "sequence" INTEGER PRIMARY KEY,
            "id" TEXT NOT NULL,
            "hash" BLOB,
            "failed" INTEGER NOT NULL,
            "ended" INTEGER NOT NULL,
            "outcome" TEXT NOT NULL,
            "owner" INTEGER
        )
        """,
        "CREATE TABLE IF NOT EXISTS \"_broker_meta\" (\"key\" TEXT PRIMARY KEY, \"value\" TEXT NOT NULL)",
        // One row for each COMMIT: its last job, and a line of keys for each of its jobs that changed objects.
        "CREATE TABLE IF NOT EXISTS \"_broker_feed\" (\"sequence\" INTEGER PRIMARY KEY, \"keys\" BLOB NOT NULL)",
        // One row for each migration: its changes, and the sequence of the last job before it.
        """
        CREATE TABLE IF NOT EXISTS "_broker_migrations" (
            "number" INTEGER PRIMARY KEY,
            "after" INTEGER NOT NULL,
            "time" TEXT NOT NULL,
            "changes" TEXT NOT NULL
        )
        """,
    ]

    /// Earlier ledgers had an index of the ids, which cost more than all other work of a small job.
    private static let slimming = [
        "ALTER TABLE \"_broker_jobs\" RENAME TO \"_broker_jobs_before\"", tables[0],
        """
        INSERT INTO "_broker_jobs" ("sequence", "id", "hash", "failed", "ended", "outcome")
            SELECT "sequence", "id", "hash", "failed", "ended", "outcome" FROM "_broker_jobs_before" ORDER BY "sequence"
        """,
        "DROP TABLE \"_broker_jobs_before\"",
    ]

    /// Creates the tables, or migrates those of an earlier version. Runs inside the caller's transaction.
    package static func prepare(_ connection: Connection) throws(StoreError) {
        for sql in tables { try connection.execute(sql) }
        let isIndexed = try connection.integer("SELECT 1 FROM pragma_index_list('_broker_jobs')") != nil
        if isIndexed { for sql in slimming { try connection.execute(sql) } }
        let hasOwners =
            try connection.integer("SELECT 1 FROM pragma_table_info('_broker_jobs') WHERE name = 'owner'") != nil
        if !hasOwners { try connection.execute("ALTER TABLE \"_broker_jobs\" ADD COLUMN \"owner\" INTEGER") }
    }
}
