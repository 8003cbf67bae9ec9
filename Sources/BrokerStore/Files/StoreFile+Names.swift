internal import BrokerModel
internal import Glibc

/// Names that belong to a store, whether or not there is a file of that name.
extension StoreFile {
    /// Files beside a database that SQLite reads as parts of it.
    static let companions = ["-wal", "-shm", "-journal"]

    /// The names of the database, SQLite's files beside it, its lock, and everything in its journal. Folders are compared by
    /// identity, so neither a symbolic link nor a mount circumvents this.
    ///
    /// - Returns: "belongs to …"; nil for a name that is not the store's.
    func owner(of name: String, in folder: String) -> String? {
        guard let identity = FileIdentity(ofFileAt: folder) else { return nil }
        let slash = location.utf8.lastIndex(of: UInt8(ascii: "/"))!
        let storeName = String(location[location.utf8.index(after: slash)...])
        let own = Self.companions + ["", ".lock", ".journal"]
        if identity == FileIdentity(ofFileAt: Self.folder(of: location)),
            own.contains(where: { name.hasSameBytes(as: storeName + $0) })
        {
            return "belongs to the store itself"
        }
        return identity == FileIdentity(ofFileAt: location + ".journal") ? "belongs to the store's journal" : nil
    }
}
