import CSQLite
import Synchronization

/// Counts how often SQLite waits for the disk, file by file: the default VFS, with `xSync` seen on its way.
enum SyncCounter {
    private struct Counts {
        var names: [UInt: String] = [:]
        var syncs: [String: Int] = [:]
    }

    private static let counts = Mutex(Counts())

    /// Every database that is opened afterwards is counted.
    static func install() { _ = isInstalled }

    static func syncs(ofFile name: String) -> Int { counts.withLock { $0.syncs[name] ?? 0 } }

    private static let isInstalled: Bool = {
        counting.pointee = original.pointee
        counting.pointee.pNext = nil
        counting.pointee.zName = UnsafePointer(name)
        counting.pointee.xOpen = { _, name, file, flags, outFlags in
            let result = original.pointee.xOpen(original, name, file, flags, outFlags)
            guard result == SQLITE_OK, let file, let found = file.pointee.pMethods else { return result }
            SyncCounter.watch(file, found, name.map { String(cString: $0) } ?? "")
            return result
        }
        return sqlite3_vfs_register(counting, 1) == SQLITE_OK
    }()

    private static func watch(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ found: UnsafePointer<sqlite3_io_methods>, _ name: String
    ) {
        counts.withLock { $0.names[UInt(bitPattern: file)] = name }
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: found.pointee)
        methods.pointee.xSync = { file, flags in
            let name = SyncCounter.counts.withLock { $0.names[UInt(bitPattern: file)] ?? "" }
            SyncCounter.counts.withLock { $0.syncs[name, default: 0] += 1 }
            return SyncCounter.originalSync.withLock { $0 }?(file, flags) ?? SQLITE_IOERR
        }
        originalSync.withLock { $0 = $0 ?? found.pointee.xSync }
        file.pointee.pMethods = UnsafePointer(methods)
    }

    private static let originalSync = Mutex<(@convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32)?>(
        nil)

    // SQLite's own, immutable once it is registered, and never taken away.
    nonisolated(unsafe) private static let original = sqlite3_vfs_find(nil)!
    // Written before it is registered, then read alone.
    nonisolated(unsafe) private static let counting = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    // Immutable, for the life of the process.
    nonisolated(unsafe) private static let name: UnsafeMutablePointer<CChar> = {
        let text = "counting".utf8CString
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.count)
        for (index, character) in text.enumerated() { copy[index] = character }
        return copy
    }()
}
