internal import BrokerModel
package import BrokerSQLite

/// The tables of the ledger and of single facts about a store, which Broker adds to every database.
package enum LedgerTables {
    private static let tables = [
        """
        CREATE TABLE IF NOT EXISTS "_broker_jobs" (
            /* Broker's: the jobs that ended */
            "sequence" INTEGER PRIMARY KEY /* position in the order of commits */,
            "id" TEXT NOT NULL /* given by the client */,
            "hash" BLOB /* of the job's content */,
            "failed" INTEGER NOT NULL /* boolean: 0 or 1 */,
            "ended" INTEGER NOT NULL /* time in milliseconds since 1970-01-01 UTC; see _broker_jobs_readable */,
            "outcome" TEXT NOT NULL /* JSON */,
            "owner" INTEGER /* number of the user who sent it */
        )
        """,
        // It contains only failed jobs, so that completed ones cost nothing.
        """
        CREATE INDEX IF NOT EXISTS "_broker_failures" ON "_broker_jobs" ("sequence", "owner", "ended") WHERE "failed" = 1
        """,
        """
        CREATE TABLE IF NOT EXISTS "_broker_meta" (
            /* Broker's: facts about the store, as the model in force */
            "key" TEXT PRIMARY KEY,
            "value" TEXT NOT NULL
        )
        """,
        // One row for each COMMIT: its last job, and a line of keys for each of its jobs that changed objects.
        """
        CREATE TABLE IF NOT EXISTS "_broker_feed" (
            /* Broker's: the keys of the objects that each transaction changed */
            "sequence" INTEGER PRIMARY KEY /* of its last job */,
            "keys" BLOB NOT NULL
        )
        """,
        // One row for each migration: its changes, and the sequence of the last job before it.
        """
        CREATE TABLE IF NOT EXISTS "_broker_migrations" (
            /* Broker's: the changes of the model */
            "number" INTEGER PRIMARY KEY,
            "after" INTEGER NOT NULL /* sequence of the last job before */,
            "time" TEXT NOT NULL /* in UTC like 2011-12-22T02:24:51.000Z */,
            "changes" TEXT NOT NULL /* JSON: an array of lines */
        )
        """,
        """
        CREATE TABLE IF NOT EXISTS "_broker_bookmarks" (
            /* Broker's: texts that jobs wrote with their changes */
            "name" TEXT PRIMARY KEY /* given by the client */,
            "value" TEXT NOT NULL,
            "sequence" INTEGER NOT NULL /* of the job */
        ) WITHOUT ROWID
        """,
    ]

    /// Creates those that are not there. Runs inside the caller's transaction.
    package static func prepare(_ connection: Connection) throws(StoreError) {
        for sql in tables { try connection.execute(sql) }
    }
}
