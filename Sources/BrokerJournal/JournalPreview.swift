/// A journal as its first file shows it, without opening it: changes nothing, and reads no more than one entry.
package struct JournalPreview {
    package let identity: JournalIdentity
    /// No job was ever appended to it.
    package let isEmpty: Bool

    /// - Returns: nil when no journal is at the path, or its folder is empty.
    /// - Throws: ``JournalError`` when the folder or the file cannot be read and written, or the file is no journal's.
    package init?(path: String) throws(JournalError) {
        let folder = JournalFolder(path: path)
        guard folder.isThere else { return nil }
        try folder.checkAccess(to: path, isFolder: true)
        let numbers = try folder.segmentNumbers()
        guard let first = numbers.first else { return nil }
        let name = JournalSegment.path(first, in: path)
        try folder.checkAccess(to: name, isFolder: false)
        let file = try folder.map(name)
        defer { withExtendedLifetime(file) {} }
        do throws(JournalSegment.HeaderFault) {
            let head = try JournalSegment(file.bytes, number: first, path: name)
            var scan = SegmentScan(head, file.bytes)
            identity = head.identity
            isEmpty = numbers.count == 1 && scan.next() == nil
        } catch {
            throw folder.unreadable(name, error)
        }
    }

    /// The error of a journal that is not that of the store beside it.
    ///
    /// - Parameter isFed: the store was fed from another journal.
    package static func stranger(path: String, isFed: Bool) -> JournalError {
        JournalFolder(path: path).stranger(isFed: isFed)
    }
}
