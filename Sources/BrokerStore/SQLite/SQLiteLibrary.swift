internal import CSQLite

/// The SQLite library that the process has loaded.
enum SQLiteLibrary {
    /// `sqlite3_libversion_number` of the oldest library that works, 3.38.0: it has the JSON functions without a build option.
    /// `pragma_table_list` and `sqlite3_changes64` need 3.37.0, `RETURNING` 3.35.0 (sqlite.org/changes.html).
    static let oldestVersion: Int32 = 3_038_000
    /// Counting a job's changes needs the preupdate hook, which the library has with this build option only.
    static let neededOption = "ENABLE_PREUPDATE_HOOK"

    /// - Throws: ``StoreError`` `unavailable` when the library cannot be used.
    static func check(
        version: Int32 = sqlite3_libversion_number(), name: String = String(cString: sqlite3_libversion()),
        hasPreupdateHook: Bool = sqlite3_compileoption_used(neededOption) != 0
    ) throws(StoreError) {
        let fault: String
        if version < oldestVersion {
            fault = "has version \(name), and Broker needs 3.38.0 or later"
        } else if !hasPreupdateHook {
            fault = "(version \(name)) was built without SQLITE_\(neededOption), which Broker needs"
        } else {
            return
        }
        throw StoreError(
            .unavailable,
            "The SQLite library \(fault). Install another libsqlite3, as Debian 12 has it, and start again; nothing was "
                + "touched.")
    }
}
