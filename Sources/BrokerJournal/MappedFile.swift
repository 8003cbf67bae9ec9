internal import Glibc

/// A file mapped into memory, readable as long as this object.
final class MappedFile: @unchecked Sendable {
    // No thread writes to them: mapped bytes never change; a file is only truncated after the bytes that were read.
    let bytes: UnsafeRawBufferPointer

    /// Nil when it cannot be read, with the cause in `errno`.
    init?(_ file: Int32) {
        var status = stat()
        guard fstat(file, &status) == 0 else { return nil }
        guard status.st_size > 0 else {
            bytes = UnsafeRawBufferPointer(start: nil, count: 0)
            return
        }
        let memory = mmap(nil, Int(status.st_size), PROT_READ, MAP_PRIVATE, file, 0)
        guard let memory, memory != MAP_FAILED else { return nil }
        bytes = UnsafeRawBufferPointer(start: memory, count: Int(status.st_size))
    }

    deinit {
        if let start = bytes.baseAddress { munmap(UnsafeMutableRawPointer(mutating: start), bytes.count) }
    }
}
