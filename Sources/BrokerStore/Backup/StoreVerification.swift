internal import BrokerSchema

/// Checks a file that is no store in use: a backup.
package enum StoreVerification {
    /// The maximum number of faults that are listed.
    private static let listedFaults = 10

    /// Reads the whole file: that its structure is sound (SQLite's `integrity_check`), that each link leads to a row
    /// (`foreign_key_check`), and that it is a store. Blocks; changes nothing.
    ///
    /// - Returns: the faults, a line each; none for a sound store.
    /// - Throws: ``StoreError`` when the file cannot be read, or is no store.
    package static func faults(of path: String) throws(StoreError) -> [String] {
        let connection = try openBackup(path)
        var faults: [String] = []
        let integrity = try connection.prepare("PRAGMA integrity_check(\(listedFaults))")
        while try integrity.step() {
            if integrity.text(0) != "ok" { faults.append(integrity.text(0)) }
        }
        let links = try connection.prepare(
            "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT \(listedFaults)")
        while try links.step() {
            faults.append("row \(links.text(1)) of \(links.text(0)) has a link to no row of \(links.text(2))")
        }
        return faults
    }

    /// - Throws: ``StoreError`` when there is no store.
    static func open(_ path: String) throws(StoreError) -> Connection {
        let file = try StoreFile(path: path)
        guard file.exists else { throw StoreError(.unavailable, "There is no store \(path). Check the path.") }
        let connection = try Store.look(at: file)
        switch try StoreFormat.kind(of: connection, path: path) {
        case .store, .foreign(isMarked: true): return connection
        case .new, .foreign(isMarked: false):
            throw noStore(path)
        }
    }

    /// The same for a file that the user has named as a backup.
    static func openBackup(_ path: String) throws(StoreError) -> Connection {
        do throws(StoreError) {
            return try open(path)
        } catch {
            throw error.isNoDatabase ? noStore(path) : error
        }
    }

    private static func noStore(_ path: String) -> StoreError {
        StoreError(.incompatible, "\(path) is no store of Broker's. Name a backup that `broker backup` made.")
    }
}
