package import Glibc

extension Volume {
    /// Copies bytes of a file to the buffer.
    ///
    /// - Returns: their count.
    package func read(
        _ number: UInt64, into buffer: UnsafeMutableRawBufferPointer, from offset: Int
    ) throws(FileError) -> Int { try inode(number).content.read(into: buffer, from: offset) }

    /// Writes as many of the bytes as there is space for, and fails when there is none.
    ///
    /// - Parameter isSynchronous: syncs the file, too.
    /// - Returns: the count of bytes written.
    package func write(
        _ bytes: UnsafeRawBufferPointer, to number: UInt64, at offset: Int, isSynchronous: Bool
    ) throws(FileError) -> Int {
        let inode = try inode(number)
        guard offset >= 0, offset <= FileContent.maximumSize - bytes.count else { throw FileError(EFBIG) }
        let count = changeContent(of: inode) { $0.write(bytes, at: offset, space: freePages) }
        guard count > 0 || bytes.isEmpty else { throw FileError(ENOSPC) }
        inode.times.modified = timespec.now
        inode.times.changed = inode.times.modified
        if isSynchronous { try sync(number) }
        return count
    }

    /// Reserves space for a range of a file.
    ///
    /// - Parameter isGrowing: the file is at least as long as the range, then.
    package func allocate(_ number: UInt64, _ range: Range<Int>, isGrowing: Bool) throws(FileError) {
        let inode = try inode(number)
        guard range.lowerBound >= 0, range.upperBound <= FileContent.maximumSize else { throw FileError(EFBIG) }
        guard changeContent(of: inode, { $0.reserve(range, space: freePages) }) else { throw FileError(ENOSPC) }
        if isGrowing, range.upperBound > inode.content.size { resize(inode, to: range.upperBound) }
    }

    /// Makes the content of a file durable, and commits the journal.
    package func sync(_ number: UInt64) throws(FileError) {
        let inode = try inode(number)
        // In this order: an older truncation in the journal must not shorten what is synced now.
        commit()
        inode.content.sync()
    }

    /// Changes those attributes, times and the size that are not nil.
    package func change(
        _ number: UInt64, mode: UInt32?, owner: UInt32?, group: UInt32?, size: Int?
    ) throws(FileError) -> Inode {
        let inode = try inode(number)
        var attributes = inode.attributes
        if let mode { attributes.mode = attributes.mode & S_IFMT | mode & ~S_IFMT }
        if let owner { attributes.owner = owner }
        if let group { attributes.group = group }
        if attributes != inode.attributes {
            inode.attributes = attributes
            record(.attributes(number, attributes))
        }
        if let size {
            guard !inode.isDirectory else { throw FileError(EISDIR) }
            guard 0...FileContent.maximumSize ~= size else { throw FileError(EFBIG) }
            resize(inode, to: size)
        }
        inode.times.changed = timespec.now
        return inode
    }

    /// Sets those times that are not nil.
    package func setTimes(of inode: Inode, accessed: timespec?, modified: timespec?) {
        if let accessed { inode.times.accessed = accessed }
        if let modified { inode.times.modified = modified }
    }

    private func resize(_ inode: Inode, to size: Int) {
        changeContent(of: inode) { $0.resize(to: size) }
        inode.times.modified = timespec.now
        record(.resize(inode.number, size))
    }

    /// Counts the pages that a change adds or removes.
    private func changeContent<Result>(of inode: Inode, _ change: (inout FileContent) -> Result) -> Result {
        let before = inode.pageCount
        let result = change(&inode.content)
        usedPages += inode.pageCount - before
        return result
    }
}
