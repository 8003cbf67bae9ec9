package import BrokerSchema
package import BrokerStaging

extension Store {
    /// The changes that opening an existing store with that model would make, and what is lost by them. Changes nothing, and
    /// reads one state, also while a server has the store open.
    ///
    /// - Parameter vfs: see ``StoreOptions/vfs``.
    /// - Throws: ``StoreError`` when no store is there, or it cannot be read.
    package static func changes(
        path: String, plan: StagingPlan, removal: RemovalPolicy = .refuse, vfs: String? = nil
    ) throws(StoreError) -> [StoreChange] {
        let file = try StoreFile(path: path)
        guard file.exists else {
            throw StoreError(.unavailable, "There is no store \(path). Check the path.")
        }
        let connection = try look(at: file, vfs: vfs)
        try connection.execute("PRAGMA foreign_keys = ON")
        try connection.execute("BEGIN")
        return try opening(connection, file.path, plan, removal).changesWithLosses(on: connection)
    }

    /// The same; nil when the store would be made.
    ///
    /// - Throws: ``StoreError`` when it could not be opened for another reason than a refused change.
    package static func changesOfOpening(
        path: String, plan: StagingPlan, removal: RemovalPolicy
    ) throws(StoreError) -> [StoreChange]? {
        let file = try StoreFile(path: path)
        try SQLiteLibrary.check()
        try file.checkAccess()
        try file.checkWAL()
        return file.exists ? try changes(path: path, plan: plan, removal: removal) : nil
    }

    /// The store's path without symbolic links, and the identity of the journal that it was fed from; nil without one.
    /// Changes nothing.
    package static func journal(path: String) throws(StoreError) -> (location: String, identity: String?) {
        let file = try StoreFile(path: path)
        guard file.exists else { return (file.location, nil) }
        let connection = try look(at: file)
        guard try StoreFormat.modelInForce(of: connection, path: path) != nil else { return (file.location, nil) }
        return (file.location, try StoreMeta(connection: connection).value(of: .log))
    }

    /// Whether a name belongs to a store, whether or not there is a file of that name.
    ///
    /// - Returns: "belongs to …"; nil for a name that is not the store's.
    /// - Throws: ``StoreError`` when no store can be at its path.
    package static func owner(ofFile path: String, besideStore store: String) throws(StoreError) -> String? {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        return try StoreFile(path: store).owner(of: name, in: StoreFile.folder(of: path))
    }
}
