internal import BrokerSchema
internal import CSQLite

extension Store {
    /// Copies a database, as it is at this moment, to a file that does not exist. Unlike a ``StoreBackup`` it may be of
    /// another program, and the copy is not synced: it is for a moment.
    package static func copy(_ path: String, to copy: String) throws(StoreError) {
        let source = try look(at: StoreFile(path: path))
        let target = try Connection(store: copy)
        guard let backup = sqlite3_backup_init(target.handle, "main", source.handle, "main") else {
            throw target.error(sqlite3_errcode(target.handle))
        }
        let result = sqlite3_backup_step(backup, -1)
        sqlite3_backup_finish(backup)
        guard result == SQLITE_DONE else { throw target.error(result) }
    }
}
