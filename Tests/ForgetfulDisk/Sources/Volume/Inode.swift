package import Glibc

/// A file, directory, symbolic link or socket of a volume.
package final class Inode {
    package let number: UInt64
    /// The rights and the owner now, and on the disk.
    package internal(set) var attributes: Attributes
    var syncedAttributes: Attributes
    package internal(set) var times = Times()
    /// The target of a symbolic link.
    package let target: [UInt8]
    /// The device of a device file.
    package let device: dev_t

    package internal(set) var links = 0
    /// The names that the kernel has looked up and not forgotten.
    var lookups: UInt64 = 0

    var content = FileContent()
    /// The names in a directory now, and on the disk.
    var entries: [[UInt8]: UInt64] = [:]
    var syncedEntries: [[UInt8]: UInt64] = [:]

    init(_ number: UInt64, _ attributes: Attributes, target: [UInt8] = [], device: dev_t = 0) {
        self.number = number
        self.attributes = attributes
        self.target = target
        self.device = device
        syncedAttributes = attributes
    }

    package var isDirectory: Bool { attributes.mode & S_IFMT == S_IFDIR }

    package var size: Int { target.isEmpty ? content.size : target.count }

    package var pageCount: Int { content.pageCount }

    /// Neither a name nor a process has it.
    var isUnused: Bool { links == 0 && lookups == 0 }
}

package struct Attributes: Equatable {
    /// With the type of the file.
    package var mode: mode_t
    package var owner: uid_t
    package var group: gid_t

    package init(mode: mode_t, owner: uid_t, group: gid_t) {
        self.mode = mode
        self.owner = owner
        self.group = group
    }
}

package struct Times {
    package var accessed = timespec.now
    package var modified = timespec.now
    package var changed = timespec.now
}

extension timespec {
    package static var now: timespec {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return time
    }
}

/// The bytes of a file, and those that a power cut leaves of them.
///
/// Both are pages of 4 KiB. The disk has each page as it is now, except those in `syncedPages`, which were written since the last
/// sync. A page that is absent, or empty in `syncedPages`, is a hole. Bytes after the size are zero.
struct FileContent {
    static let pageSize = 4096
    /// The largest size of a file; page numbers and offsets never overflow.
    static let maximumSize = 1 << 50

    private(set) var size = 0
    private var pages: [Int: [UInt8]] = [:]
    private(set) var syncedSize = 0
    private var syncedPages: [Int: [UInt8]] = [:]

    var pageCount: Int { pages.count }

    // MARK: - Reading

    /// Copies bytes from that offset to the buffer.
    ///
    /// - Returns: their count, which ends at the size.
    func read(into buffer: UnsafeMutableRawBufferPointer, from offset: Int) -> Int {
        let count = max(0, min(buffer.count, size - offset))
        var done = 0
        while done < count {
            let (index, start) = (offset + done).quotientAndRemainder(dividingBy: Self.pageSize)
            let length = min(Self.pageSize - start, count - done)
            let target = UnsafeMutableRawBufferPointer(rebasing: buffer[done..<done + length])
            if let page = pages[index] {
                page.withUnsafeBytes {
                    target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + length]))
                }
            } else {
                target.initializeMemory(as: UInt8.self, repeating: 0)
            }
            done += length
        }
        return count
    }

    // MARK: - Changing

    /// Writes those of the bytes for which there is space.
    ///
    /// - Parameter space: the count of pages that the file may gain.
    /// - Returns: the count of bytes written.
    mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int, space: Int) -> Int {
        let limit = pages.count + space
        var done = 0
        while done < bytes.count {
            let (index, start) = (offset + done).quotientAndRemainder(dividingBy: Self.pageSize)
            let length = min(Self.pageSize - start, bytes.count - done)
            if pages.count >= limit, pages[index] == nil { break }
            let source = UnsafeRawBufferPointer(rebasing: bytes[done..<done + length])
            retainSynced(index)
            if length == Self.pageSize {
                pages[index] = [UInt8](source)
            } else {
                pages[index, default: [UInt8](repeating: 0, count: Self.pageSize)].withUnsafeMutableBytes {
                    UnsafeMutableRawBufferPointer(rebasing: $0[start..<start + length]).copyMemory(from: source)
                }
            }
            done += length
        }
        if done > 0 { size = max(size, offset + done) }
        return done
    }

    mutating func resize(to newSize: Int) {
        if newSize < size {
            let (last, start) = newSize.quotientAndRemainder(dividingBy: Self.pageSize)
            for index in pages.keys where index > last || index == last && start == 0 {
                retainSynced(index)
                pages[index] = nil
            }
            if start > 0, pages[last] != nil {
                retainSynced(last)
                pages[last]?.zero(from: start)
            }
        }
        size = newSize
    }

    /// Reserves the pages of a range. The size stays.
    ///
    /// - Returns: whether there was space.
    mutating func reserve(_ range: Range<Int>, space: Int) -> Bool {
        guard !range.isEmpty else { return true }
        let wanted = range.lowerBound / Self.pageSize...(range.upperBound - 1) / Self.pageSize
        guard wanted.count <= pages.count + space else { return false }
        let missing = wanted.filter { pages[$0] == nil }
        guard missing.count <= space else { return false }
        for index in missing {
            retainSynced(index)
            pages[index] = [UInt8](repeating: 0, count: Self.pageSize)
        }
        return true
    }

    // MARK: - Syncing

    mutating func sync() {
        syncedSize = size
        // Emptying a large table takes as long as its capacity, at each sync.
        syncedPages.removeAll(keepingCapacity: syncedPages.capacity <= 64)
    }

    /// Resizes what the disk has, as the journal does with an operation that it commits.
    ///
    /// The pages that `resize` discarded are all in `syncedPages`: a sync would have committed the operation.
    mutating func resizeSynced(to newSize: Int) {
        if newSize < syncedSize {
            let (last, start) = newSize.quotientAndRemainder(dividingBy: Self.pageSize)
            for index in syncedPages.keys where index > last || index == last && start == 0 { syncedPages[index] = [] }
            if start > 0, syncedPages[last]?.isEmpty == false { syncedPages[last]?.zero(from: start) }
        }
        syncedSize = newSize
    }

    // MARK: - Cutting

    /// Reverts to what the disk has.
    ///
    /// - Parameters:
    ///   - survival: which of the pages written since the last sync the disk has nevertheless.
    ///   - resized: the smallest size of an operation that the journal lost. No page after it survives: the disk has them in
    ///     other blocks, which the file never got.
    mutating func cut(_ survival: Survival, resized: Int?, using generator: inout SeededGenerator) {
        let share = survival == .none ? Share.none : Share.allCases.randomElement(using: &generator) ?? .none
        let hasGrown =
            resized == nil && size > syncedSize
            && (share == .all || share == .some && Bool.random(using: &generator))
        let newSize = hasGrown ? size : syncedSize
        let end = min(newSize, resized ?? .max)
        for index in syncedPages.keys.sorted() {
            let reachedDisk = share == .all || share == .some && Bool.random(using: &generator)
            if reachedDisk, index * Self.pageSize < end { continue }
            let page = syncedPages[index] ?? []
            pages[index] = page.isEmpty ? nil : page
        }
        syncedPages = [:]
        resize(to: newSize)
        for index in pages.keys where index * Self.pageSize >= newSize { pages[index] = nil }
        let (last, start) = newSize.quotientAndRemainder(dividingBy: Self.pageSize)
        if start > 0 { pages[last]?.zero(from: start) }
        sync()
    }

    private enum Share: CaseIterable { case none, some, all }

    private mutating func retainSynced(_ index: Int) {
        if syncedPages[index] == nil { syncedPages[index] = pages[index] ?? [] }
    }
}

extension [UInt8] {
    fileprivate mutating func zero(from start: Int) {
        for index in start..<count { self[index] = 0 }
    }
}
