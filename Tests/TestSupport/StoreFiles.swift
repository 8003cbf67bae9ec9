internal import BrokerJournal
import CSQLite
internal import FaultVFS
import Foundation
internal import Synchronization

/// The rows that a reader of a database sees.
public enum SQLRows {
    public struct Failure: Error {
        public let message: String

        public init(message: String) { self.message = message }
    }

    /// The rows of a query, their columns joined by `|`.
    public static func of(_ sql: String, in path: String) throws -> [String] {
        var database: OpaquePointer?
        defer { sqlite3_close_v2(database) }
        var statement: OpaquePointer?
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
            sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK
        else { throw Failure(message: String(cString: sqlite3_errmsg(database))) }
        defer { sqlite3_finalize(statement) }
        var rows: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            let columns = (0..<sqlite3_column_count(statement)).map { column in
                sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "NULL"
            }
            rows.append(columns.joined(separator: "|"))
        }
        return rows
    }
}

/// Another program that has locked the store.
public final class Locker {
    private var database: OpaquePointer?

    public init(_ path: String) throws {
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK else {
            throw SQLRows.Failure(message: "cannot open \(path)")
        }
        sqlite3_busy_timeout(database, Int32(Patience.seconds) * 1_000)
        try execute("BEGIN IMMEDIATE")
    }

    deinit { sqlite3_close_v2(database) }

    public func unlock() throws { try execute("ROLLBACK") }

    public func execute(_ sql: String) throws {
        guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else {
            throw SQLRows.Failure(message: String(cString: sqlite3_errmsg(database)))
        }
    }
}

/// A folder of the test's own, removed with this object.
public final class TemporaryFolder: Sendable {
    private let location = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")

    public init() {
        do {
            try FileManager.default.createDirectory(at: location, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("no folder for a test: \(error)")
        }
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: location)
        } catch {
            preconditionFailure("a test's folder cannot be deleted: \(error)")
        }
    }

    public func path(_ name: String) -> String { location.appending(path: name).path }
}

/// A disk between SQLite and the files that fails on request, and that can lose its power: a VFS of its own. Any
/// thread may call.
public final class FaultyDisk: @unchecked Sendable {
    /// The operations that SQLite requests.
    public struct Operations: OptionSet, Sendable, CustomStringConvertible {
        public let rawValue: UInt32

        public init(rawValue: UInt32) { self.rawValue = rawValue }

        public static let open = Operations(rawValue: UInt32(FAULT_OPEN))
        public static let read = Operations(rawValue: UInt32(FAULT_READ))
        public static let write = Operations(rawValue: UInt32(FAULT_WRITE))
        public static let truncate = Operations(rawValue: UInt32(FAULT_TRUNCATE))
        public static let sync = Operations(rawValue: UInt32(FAULT_SYNC))
        public static let size = Operations(rawValue: UInt32(FAULT_SIZE))
        public static let lock = Operations(rawValue: UInt32(FAULT_LOCK))
        public static let delete = Operations(rawValue: UInt32(FAULT_DELETE))
        public static let sharedMap = Operations(rawValue: UInt32(FAULT_SHARED_MAP))
        public static let sharedLock = Operations(rawValue: UInt32(FAULT_SHARED_LOCK))
        /// Operations that change files.
        public static let changes: Operations = [.open, .write, .truncate, .sync, .delete]

        public static let single: [(name: String, operation: Operations)] = [
            ("open", .open), ("read", .read), ("write", .write), ("truncate", .truncate), ("sync", .sync),
            ("size", .size), ("lock", .lock), ("delete", .delete), ("sharedMap", .sharedMap),
            ("sharedLock", .sharedLock),
        ]

        public var description: String {
            Self.single.filter { contains($0.operation) }.map(\.name).joined(separator: "+")
        }
    }

    public enum Fault: Int32, Sendable, CaseIterable {
        /// After a failed sync the contents of the disk are unknown, and a later sync does not help.
        case ioError
        case shortWrite
        case noSpace
        /// SQLite takes it for an I/O error.
        case quota
        /// Not reported: see ``FaultyDisk/losePower(at:_:into:seed:)``.
        case powerLoss

        fileprivate var code: Int32 {
            switch self {
            case .ioError: Int32(FAULT_IO_ERROR)
            case .shortWrite: Int32(FAULT_SHORT_WRITE)
            case .noSpace: Int32(FAULT_NO_SPACE)
            case .quota: Int32(FAULT_QUOTA)
            case .powerLoss: Int32(FAULT_POWER_LOSS)
            }
        }
    }

    /// For SQLite.
    public let name: String
    // The C part has a lock of its own.
    private let vfs: OpaquePointer

    private init() {
        name = "faulty-\(UInt64.random(in: .min ... .max))"
        guard let vfs = fault_vfs_make(name) else { preconditionFailure("SQLite does not take the VFS") }
        self.vfs = vfs
    }

    deinit { fault_vfs_free(vfs) }

    /// Makes a disk for what is done in `body`: afterwards no file may be open on it.
    public static func with<Result>(_ body: (FaultyDisk) throws -> Result) rethrows -> Result {
        let disk = FaultyDisk()
        defer { withExtendedLifetime(disk) {} }
        return try body(disk)
    }

    /// The same, for what waits without blocking.
    public static func with<Result>(_ body: (FaultyDisk) async throws -> Result) async rethrows -> Result {
        let disk = FaultyDisk()
        defer { withExtendedLifetime(disk) {} }
        return try await body(disk)
    }

    /// From now on the `number`th of the operations, from 1, fails, and with `always` every later one.
    public func fail(_ operations: Operations, number: Int, with fault: Fault, always: Bool = false) {
        fault_vfs_arm(vfs, operations.rawValue, number, fault.code, always)
    }

    /// From now on there is no room for what would make a file longer than so many bytes; nil is no limit.
    public func limitFiles(to bytes: Int?) { fault_vfs_limit(vfs, Int64(bytes ?? 0)) }

    /// The machine is sound again.
    public func mend() { fault_vfs_disarm(vfs) }

    /// The last request has happened.
    public var isStruck: Bool { fault_vfs_is_struck(vfs) }

    // MARK: - Losses of power

    /// From now on it is known which bytes are on the disk for certain. What files hold when they are first seen is.
    public func recordsLosses(seed: UInt64, into folder: TemporaryFolder) {
        fault_vfs_set_loss(vfs, folder.path(""), seed, seed % 2 == 0 ? 512 : 4096)
        fault_vfs_record(vfs)
    }

    /// The power will fail in the middle of the `number`th of the operations; what SQLite does goes on as if it had not, and the
    /// files as they might be found are in the folder.
    public func losePower(at number: Int, of operations: Operations = .changes) {
        fail(operations, number: number, with: .powerLoss)
    }

    /// The power fails now.
    public func losePower() { precondition(fault_vfs_lose_power(vfs), "the files could not be written") }
}

/// A disk that becomes full, or fails.
package final class FailingSystem: JournalSystem {
    private struct Faults {
        var writesLeft = Int.max
        var writeFault: Int32 = 0
        var syncFault: Int32 = 0
    }

    private let faults = Mutex(Faults())

    package init() {}

    /// So many more parts of what is appended are written, and then none.
    package func failWrites(after count: Int, with fault: Int32) {
        faults.withLock { ($0.writesLeft, $0.writeFault) = (count, fault) }
    }

    /// - Parameter fault: 0 for none.
    package func failSyncs(with fault: Int32) { faults.withLock { $0.syncFault = fault } }

    package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        let fault = faults.withLock { faults -> Int32 in
            guard faults.writeFault != 0 else { return 0 }
            faults.writesLeft -= 1
            return faults.writesLeft < 0 ? faults.writeFault : -1
        }
        guard fault <= 0 else {
            errno = fault
            return -1
        }
        // A short write, as before a full disk.
        return pwrite(file, bytes.baseAddress, fault == 0 ? bytes.count : min(bytes.count, 4_096), off_t(offset))
    }

    package func sync(_ file: Int32) -> Int32 {
        let fault = faults.withLock { $0.syncFault }
        guard fault != 0 else { return fdatasync(file) }
        errno = fault
        return -1
    }

    package func truncate(_ file: Int32, _ size: Int) -> Int32 { ftruncate(file, off_t(size)) }
}

/// A disk on which writes wait while the gate is closed.
// The condition guards the two variables.
package final class GatedSystem: JournalSystem, @unchecked Sendable {
    private let condition = NSCondition()
    private var isClosed = false
    private var isAwaited = false
    private let system = PosixSystem()

    package init() {}

    package func close() { condition.withLock { isClosed = true } }

    package func open() {
        condition.withLock {
            isClosed = false
            condition.broadcast()
        }
    }

    /// Waits until a write waits for the gate.
    package func waitForWriter() {
        condition.withLock {
            while !isAwaited { condition.wait() }
        }
    }

    package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        condition.withLock {
            while isClosed {
                isAwaited = true
                condition.broadcast()
                condition.wait()
            }
        }
        return system.write(file, bytes, offset)
    }

    package func sync(_ file: Int32) -> Int32 { system.sync(file) }

    package func truncate(_ file: Int32, _ size: Int) -> Int32 { system.truncate(file, size) }
}
