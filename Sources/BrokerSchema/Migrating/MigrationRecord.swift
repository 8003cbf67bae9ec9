internal import BrokerJSON
internal import BrokerSQLite

/// The record of a store's migrations: which changes of the model came after which job.
enum MigrationRecord {
    /// Adds the changes, if there are any. Runs inside the transaction that makes them.
    ///
    /// - Parameter time: in milliseconds since 1970; nil for the clock's.
    static func add(_ changes: [StoreChange], at time: Int64?, on connection: Connection) throws(StoreError) {
        let made = changes.filter { $0.verdict == .migrated || $0.verdict == .dropped }
        guard !made.isEmpty else { return }
        var writer = JSONWriter()
        writer.array { writer in
            for change in made { writer.string("\(change.verdict.rawValue): \(change.line)") }
        }
        let insert = try connection.prepare(
            """
            INSERT INTO "_broker_migrations" ("after", "time", "changes")
                SELECT coalesce(max("sequence"), 0),
                    coalesce(
                        strftime('%Y-%m-%dT%H:%M:%fZ', ?2 / 1000.0, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
                    ?1
                FROM "_broker_jobs"
            """, String(decoding: writer.bytes, as: UTF8.self))
        if let time { insert.bind(time, at: 2) }
        try insert.run()
    }
}
