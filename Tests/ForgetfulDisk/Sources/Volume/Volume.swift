package import Glibc

/// A file system in memory that loses at a power cut what was not synced.
///
/// The model is ext4 with `data=ordered,noauto_da_alloc`. ext4 writes data to the disk before it commits metadata that refers to it,
/// but delays the allocation, so that a name may be committed and the content not: the "zero-length" problem
/// (Linux, Documentation/admin-guide/ext4.rst, options `data=ordered` and `auto_da_alloc`).
///
/// 1. A sync of a file (fsync, fdatasync, a write with `O_SYNC` or `O_DSYNC`) makes its content and its size durable.
/// 2. It also commits the journal: all operations on names, sizes by truncation or allocation, rights and owners made before
///    it, of all files. A sync of a directory does only this.
/// 3. The content that another file gained by writes is not durable. After a cut the file has the content of its last sync, or is
///    empty. A committed truncation applies to that content, too.
/// 4. Of the writes since the last sync of a file, any whole pages of 4 KiB may have reached the disk nevertheless, and the size
///    may be the old or the new one. Pages that did not reach it read as before, or as zeros after the old size.
/// 5. Of the operations since the last commit, either none, or a prefix of them, or all were committed.
///
/// `Survival.none` excludes 4 and 5. Stricter than ext4: there is no commit every five seconds, and none by sync(2) or syncfs(2),
/// which FUSE does not pass to a file system. Times are never lost. More lenient: a page has its old or its latest content,
/// never one in between, nor a torn one.
///
/// One thread at a time may use it.
package final class Volume {
    package static let rootNumber: UInt64 = 1
    package static let nameLimit = 255

    /// The count of pages of all files.
    package let pageLimit: Int
    package internal(set) var usedPages = 0
    /// The pages of files without a name that the journal may still restore. They use no space.
    var unusedPages = 0

    var inodes: [UInt64: Inode] = [:]
    /// The files that are no longer used. They are deleted with the next commit.
    var unused: Set<UInt64> = []
    /// The operations since the last commit.
    var journal: [Operation] = []
    var generator: SeededGenerator
    private let survival: Survival
    private var nextNumber = rootNumber + 1

    /// - Parameter size: bytes of all contents.
    package init(size: Int, seed: UInt64, survival: Survival) {
        pageLimit = size / FileContent.pageSize
        generator = SeededGenerator(seed: seed)
        self.survival = survival
        let root = Inode(Self.rootNumber, Attributes(mode: S_IFDIR | 0o755, owner: getuid(), group: getgid()))
        root.links = 1
        inodes[root.number] = root
    }

    var freePages: Int { max(0, pageLimit - usedPages) }

    package var inodeCount: Int { inodes.count }

    package func inode(_ number: UInt64) throws(FileError) -> Inode {
        guard let inode = inodes[number] else { throw FileError(ENOENT) }
        return inode
    }

    func directory(_ number: UInt64) throws(FileError) -> Inode {
        let inode = try inode(number)
        guard inode.isDirectory else { throw FileError(ENOTDIR) }
        return inode
    }

    func newInode(_ attributes: Attributes, target: [UInt8] = [], device: dev_t = 0) -> Inode {
        let inode = Inode(nextNumber, attributes, target: target, device: device)
        nextNumber += 1
        inodes[inode.number] = inode
        return inode
    }

    // MARK: - References of the kernel

    /// The kernel has been sent this file once more.
    package func retain(_ inode: Inode) { inode.lookups += 1 }

    /// The kernel no longer refers to a file that it was sent so many times.
    package func forget(_ number: UInt64, count: UInt64) {
        guard let inode = inodes[number] else { return }
        inode.lookups -= min(count, inode.lookups)
        releaseIfUnused(inode)
    }

    func releaseIfUnused(_ inode: Inode) {
        guard inode.isUnused, unused.insert(inode.number).inserted else { return }
        usedPages -= inode.pageCount
        unusedPages += inode.pageCount
    }

    // MARK: - Power cut

    /// Reverts to the state that the disk has. The kernel must have forgotten all files.
    package func cut() {
        let count = survival == .none ? 0 : committedCount()
        for operation in journal.prefix(count) { apply(operation) }
        var resized: [UInt64: Int] = [:]
        for case .resize(let number, let size) in journal.dropFirst(count) {
            resized[number] = min(size, resized[number] ?? .max)
        }
        journal = []
        unused = []
        unusedPages = 0
        for (number, inode) in inodes.sorted(by: { $0.key < $1.key }) {
            inode.content.cut(survival, resized: resized[number], using: &generator)
            inode.attributes = inode.syncedAttributes
            inode.entries = inode.syncedEntries
            inode.links = 0
            inode.lookups = 0
        }
        countLinks()
        inodes = inodes.filter { $0.value.links > 0 }
        usedPages = inodes.values.reduce(0) { $0 + $1.pageCount }
    }

    /// The count of the journal's operations that were committed without a sync.
    private func committedCount() -> Int {
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: 0
        case 1: journal.count
        default: Int.random(in: 0...journal.count, using: &generator)
        }
    }

    /// Counts the names of each file that the root leads to.
    private func countLinks() {
        inodes[Self.rootNumber]?.links = 1
        var pending = [Self.rootNumber]
        while let number = pending.popLast() {
            for target in inodes[number]?.entries.values.map({ $0 }) ?? [] {
                guard let inode = inodes[target] else { continue }
                inode.links += 1
                if inode.isDirectory { pending.append(target) }
            }
        }
    }
}

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

/// A change that the journal commits or loses as a whole.
enum Operation {
    case names([NameChange])
    case resize(UInt64, Int)
    case attributes(UInt64, Attributes)
}

/// A name in a directory that now means another file, or none.
struct NameChange {
    let directory: UInt64
    let name: [UInt8]
    let target: UInt64?
}

/// The part of the changes since the last sync that a power cut leaves.
package enum Survival: String, CaseIterable {
    /// Nothing.
    case none
    /// Any part that the disk may have received; the seed decides.
    case some
}

extension Volume {
    /// The count of operations at which the journal is full.
    private static let journalCapacity = 1 << 16

    /// Adds an operation to the journal, which commits by itself when it is full, as ext4's does.
    func record(_ operation: Operation) {
        journal.append(operation)
        if journal.count >= Self.journalCapacity || unusedPages > pageLimit { commit() }
    }

    /// Commits all operations: a power cut no longer reverts them.
    package func commit() {
        guard !journal.isEmpty || !unused.isEmpty else { return }
        for operation in journal { apply(operation) }
        journal.removeAll(keepingCapacity: true)
        for number in unused { inodes[number] = nil }
        unused.removeAll()
        unusedPages = 0
    }

    /// Makes the change on the disk.
    func apply(_ operation: Operation) {
        switch operation {
        case .names(let changes):
            for change in changes { inodes[change.directory]?.syncedEntries[change.name] = change.target }
        case .resize(let number, let size): inodes[number]?.content.resizeSynced(to: size)
        case .attributes(let number, let attributes): inodes[number]?.syncedAttributes = attributes
        }
    }
}

/// SplitMix64: the same seed gives the same numbers.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

/// A number of `errno`, with which an operation of the file system fails.
package struct FileError: Error, Equatable {
    package let number: Int32

    package init(_ number: Int32) { self.number = number }
}
