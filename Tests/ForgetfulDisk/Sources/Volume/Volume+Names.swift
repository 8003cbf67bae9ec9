package import Glibc

extension Volume {
    /// The file of that name; nil when there is none.
    package func lookup(_ name: [UInt8], in number: UInt64) throws(FileError) -> Inode? {
        guard name.count <= Self.nameLimit else { throw FileError(ENAMETOOLONG) }
        return try directory(number).entries[name].flatMap { inodes[$0] }
    }

    /// The names in a directory, in a fixed order.
    package func entries(of number: UInt64) throws(FileError) -> [(name: [UInt8], inode: Inode)] {
        try directory(number).entries.sorted { $0.value < $1.value }
            .compactMap { entry in inodes[entry.value].map { (entry.key, $0) } }
    }

    /// Makes a file of any type, which the mode has.
    ///
    /// - Parameter target: of a symbolic link.
    package func create(
        _ name: [UInt8], in number: UInt64, _ attributes: Attributes, target: [UInt8] = [], device: dev_t = 0
    ) throws(FileError) -> Inode {
        let directory = try directory(number)
        try requireAbsence(of: name, in: directory)
        guard target.count < Int(PATH_MAX) else { throw FileError(ENAMETOOLONG) }
        let inode = newInode(attributes, target: target, device: device)
        set([(directory, name, inode)])
        return inode
    }

    package func link(_ number: UInt64, to name: [UInt8], in directoryNumber: UInt64) throws(FileError) -> Inode {
        let (inode, directory) = (try inode(number), try directory(directoryNumber))
        try requireAbsence(of: name, in: directory)
        guard !inode.isDirectory else { throw FileError(EPERM) }
        set([(directory, name, inode)])
        return inode
    }

    /// Removes the name of a directory, which must be empty, or of any other file.
    package func remove(_ name: [UInt8], in number: UInt64, isDirectory: Bool) throws(FileError) {
        let directory = try directory(number)
        guard let inode = try lookup(name, in: number) else { throw FileError(ENOENT) }
        guard inode.isDirectory == isDirectory else { throw FileError(isDirectory ? ENOTDIR : EISDIR) }
        guard inode.entries.isEmpty else { throw FileError(ENOTEMPTY) }
        set([(directory, name, nil)])
    }

    /// Gives a file another name, which may have been that of another file.
    package func rename(
        _ name: [UInt8], in number: UInt64, to newName: [UInt8], in newNumber: UInt64, mayReplace: Bool
    ) throws(FileError) {
        let (directory, newDirectory) = (try directory(number), try directory(newNumber))
        guard let inode = try lookup(name, in: number) else { throw FileError(ENOENT) }
        if let replaced = try lookup(newName, in: newNumber) {
            guard mayReplace else { throw FileError(EEXIST) }
            guard replaced !== inode else { return }
            guard replaced.isDirectory == inode.isDirectory else {
                throw FileError(inode.isDirectory ? ENOTDIR : EISDIR)
            }
            guard replaced.entries.isEmpty else { throw FileError(ENOTEMPTY) }
        }
        set([(newDirectory, newName, inode), (directory, name, nil)])
    }

    private func requireAbsence(of name: [UInt8], in directory: Inode) throws(FileError) {
        guard name.count <= Self.nameLimit else { throw FileError(ENAMETOOLONG) }
        guard directory.entries[name] == nil else { throw FileError(EEXIST) }
        guard directory.links > 0 else { throw FileError(ENOENT) }
    }

    /// Changes names in one operation of the journal.
    private func set(_ changes: [(directory: Inode, name: [UInt8], inode: Inode?)]) {
        let time = timespec.now
        var losers: [Inode] = []
        for (directory, name, inode) in changes {
            let old = directory.entries.updateOrRemove(name, inode?.number).flatMap { inodes[$0] }
            inode?.links += 1
            inode?.times.changed = time
            old?.links -= 1
            old?.times.changed = time
            directory.times.modified = time
            directory.times.changed = time
            if let old { losers.append(old) }
        }
        record(
            .names(changes.map { NameChange(directory: $0.directory.number, name: $0.name, target: $0.inode?.number) }))
        for loser in losers { releaseIfUnused(loser) }
    }
}

extension Dictionary {
    /// - Returns: the value before.
    fileprivate mutating func updateOrRemove(_ key: Key, _ value: Value?) -> Value? {
        guard let value else { return removeValue(forKey: key) }
        return updateValue(value, forKey: key)
    }
}
