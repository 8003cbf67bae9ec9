internal import Glibc

/// The file to which entries are appended, and where its name leads.
package struct JournalFile: Sendable {
    package let path: String
    private let device: dev_t
    private let inode: ino_t

    init(_ descriptor: Int32, at path: String) {
        var status = stat()
        fstat(descriptor, &status)
        (self.path, device, inode) = (path, status.st_dev, status.st_ino)
    }

    /// - Throws: ``JournalError`` `lost` when the file or its folder was deleted, moved or replaced: no later start would find
    ///   what is written to it.
    package func check() throws(JournalError) {
        var status = stat()
        let isThere = lstat(path, &status) == 0
        guard isThere, status.st_dev == device, status.st_ino == inode else {
            throw JournalError(
                .lost,
                "The journal's file \(path) was \(isThere ? "replaced" : "deleted or moved") while the journal was open. No more "
                    + "jobs are accepted, and nothing was deleted: stop the server, and put the files back; or move away the rest "
                    + "of the journal, to give up the jobs that the store has not applied. Then start it again.")
        }
    }
}
