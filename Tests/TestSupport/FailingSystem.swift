internal import BrokerJournal
internal import Foundation
internal import Synchronization

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
