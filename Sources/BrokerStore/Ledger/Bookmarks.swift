/// The bookmarks in the table `_broker_bookmarks`, written in the transactions of the jobs that carry them.
struct Bookmarks {
    private let write: Statement
    private let delete: Statement

    init(on connection: Connection) throws(StoreError) {
        write = try connection.prepare(
            "INSERT INTO _broker_bookmarks (name, value, sequence) VALUES (?1, ?2, ?3) "
                + "ON CONFLICT (name) DO UPDATE SET value = excluded.value, sequence = excluded.sequence")
        delete = try connection.prepare("DELETE FROM _broker_bookmarks WHERE name = ?1")
    }

    /// - Parameter sequence: that of the job.
    func set(_ bookmark: Bookmark, by sequence: Int64) throws(StoreError) {
        guard let value = bookmark.value else {
            delete.bind(bookmark.name, at: 1)
            return try delete.run()
        }
        write.bind(bookmark.name, at: 1)
        write.bind(value, at: 2)
        write.bind(sequence, at: 3)
        try write.run()
    }
}
