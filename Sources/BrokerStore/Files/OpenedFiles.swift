/// The identities of the database and of SQLite's two files beside it when they were opened.
///
/// A file that is deleted or replaced continues to exist for the process that has it open: commits would still succeed,
/// but no other process would ever see them; and what is opened by the name is another database, or a new one. So the
/// names are looked up before each COMMIT, which costs three stat(2) a transaction, and before the store is opened again.
package struct OpenedFiles: Sendable {
    package let path: String
    private let files: [(name: String, identity: FileIdentity)]

    /// - Parameter store: open, and in use, so that the WAL exists. The path as it was given is checked, because
    ///   readers use that one, whatever symbolic links it has.
    init(_ store: StoreFile) throws(StoreError) {
        path = store.path
        var files: [(name: String, identity: FileIdentity)] = []
        for name in [store.path, store.location + "-wal", store.location + "-shm"] {
            guard let identity = FileIdentity(ofFileAt: name) else { throw Self.lost(path, name, isReplaced: false) }
            files.append((name, identity))
        }
        self.files = files
    }

    /// A database that another process has open, and that this one reads.
    package init(reading path: String) throws(StoreError) {
        self.path = path
        guard let identity = FileIdentity(ofFileAt: path) else { throw Self.lost(path, path, isReplaced: false) }
        files = [(path, identity)]
    }

    /// - Throws: ``StoreError`` `unavailable` when one of the names now leads to another file, or to none.
    package func check() throws(StoreError) {
        for (name, identity) in files {
            let now = FileIdentity(ofFileAt: name)
            if now != identity { throw Self.lost(path, name, isReplaced: now != nil) }
        }
    }

    /// The path leads to the database still, and no other WAL is beside it.
    var hasDatabase: Bool {
        let now = files.map { FileIdentity(ofFileAt: $0.name) }
        return now[0] == files[0].identity && (now[1] == nil || now[1] == files[1].identity)
    }

    private static func lost(_ path: String, _ name: String, isReplaced: Bool) -> StoreError {
        let what = isReplaced ? "was replaced by another file" : "was deleted or moved"
        return StoreError(
            .unavailable,
            "\(name) \(what) while the store \(path) was open. Nothing is stored any more, and nothing was deleted: stop the "
                + "server, put the files back (the database together with its -wal), or begin with a new store; then start again."
        )
    }
}
