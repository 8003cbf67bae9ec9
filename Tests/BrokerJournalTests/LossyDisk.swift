import Foundation
import Synchronization

@testable import BrokerJournal

/// A disk under a machine whose power is cut: of what was written and not synced nothing is left. A sync that fails does as
/// Linux does: what it could not write is taken for written by all later ones.
final class LossyDisk: JournalSystem {
    private struct File {
        var durable: [UInt8] = []
        var unwritten: [Range<Int>] = []
    }

    private struct State {
        /// By inode.
        var files: [UInt64: File] = [:]
        var failsSyncs = false
    }

    private let state = Mutex(State())

    var failsSyncs: Bool {
        get { state.withLock { $0.failsSyncs } }
        set { state.withLock { $0.failsSyncs = newValue } }
    }

    func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        let count = pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
        if count > 0 {
            let inode = status(of: file).st_ino
            state.withLock { $0.files[UInt64(inode), default: File()].unwritten.append(offset..<offset + count) }
        }
        return count
    }

    func truncate(_ file: Int32, _ size: Int) -> Int32 { ftruncate(file, off_t(size)) }

    func sync(_ file: Int32) -> Int32 {
        let status = status(of: file)
        let isFile = status.st_mode & S_IFMT == S_IFREG
        return state.withLock { state in
            var known = state.files[UInt64(status.st_ino)] ?? File()
            defer { state.files[UInt64(status.st_ino)] = isFile ? known : nil }
            let unwritten = known.unwritten
            known.unwritten = []
            guard !state.failsSyncs else {
                errno = EIO
                return -1
            }
            let size = Int(status.st_size)
            let missing = max(0, size - known.durable.count)
            known.durable = known.durable.prefix(size) + [UInt8](repeating: 0, count: missing)
            for range in unwritten where isFile && range.upperBound <= size {
                known.durable.withUnsafeMutableBytes { bytes in
                    _ = pread(file, bytes.baseAddress! + range.lowerBound, range.count, off_t(range.lowerBound))
                }
            }
            return 0
        }
    }

    /// The remaining contents of the files.
    func losePower(over files: [String]) throws {
        for path in files {
            var status = stat()
            stat(path, &status)
            let durable = state.withLock { $0.files[UInt64(status.st_ino)]?.durable ?? [] }
            try Data(durable).write(to: URL(filePath: path), options: [])
        }
    }

    private func status(of file: Int32) -> stat {
        var status = stat()
        fstat(file, &status)
        return status
    }
}
