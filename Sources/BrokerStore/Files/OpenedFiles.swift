/// The identities of the database and of SQLite's two files beside it when they were opened.
///
/// A file that is deleted or replaced continues to exist for the process that has it open: commits would still succeed,
/// but no other process would ever see them. So before each COMMIT the names are looked up again, which costs three
/// stat(2) a transaction.
struct OpenedFiles {
    private let path: String
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

    /// - Throws: ``StoreError`` `unavailable` when one of the names now leads to another file, or to none.
    func check() throws(StoreError) {
        for (name, identity) in files {
            let now = FileIdentity(ofFileAt: name)
            if now != identity { throw Self.lost(path, name, isReplaced: now != nil) }
        }
    }

    private static func lost(_ path: String, _ name: String, isReplaced: Bool) -> StoreError {
        let what = isReplaced ? "was replaced by another file" : "was deleted or moved"
        return StoreError(
            .unavailable,
            "\(name) \(what) while the store \(path) was open. Nothing of this job is stored, and nothing will be until the "
                + "server is started again: stop it, put the files back, or begin with a new store.")
    }
}
