import Glibc

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
