internal import Glibc

/// The system calls by which a journal writes; tests replace them to inject faults.
package protocol JournalSystem: Sendable {
    /// As pwrite(2).
    func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int
    /// As fdatasync(2).
    func sync(_ file: Int32) -> Int32
    /// As ftruncate(2).
    func truncate(_ file: Int32, _ size: Int) -> Int32
}

package struct PosixSystem: JournalSystem {
    package init() {}

    package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
    }

    package func sync(_ file: Int32) -> Int32 { fdatasync(file) }

    package func truncate(_ file: Int32, _ size: Int) -> Int32 { ftruncate(file, off_t(size)) }
}
