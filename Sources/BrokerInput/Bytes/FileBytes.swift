import Glibc

/// A file, or standard input, from its beginning to its end.
final class FileBytes: ByteSource {
    private static let chunkBytes = 256 << 10

    private let descriptor: Int32
    private(set) var bytesRead = 0

    /// - Parameter path: `-` is standard input.
    init(_ path: String) throws(ByteFault) {
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable() }
    }

    deinit {
        if descriptor != STDIN_FILENO { close(descriptor) }
    }

    func next() throws(ByteFault) -> [UInt8] {
        if descriptor == STDIN_FILENO, let ahead = StandardInput.take() {
            bytesRead += ahead.count
            return ahead
        }
        while true {
            var count = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: Self.chunkBytes) { space, filled in
                count = Glibc.read(descriptor, space.baseAddress, space.count)
                filled = max(0, count)
            }
            bytesRead += chunk.count
            if count >= 0 { return chunk }
            if errno != EINTR { throw Self.unreadable() }
        }
    }

    private static func unreadable() -> ByteFault {
        .unreadable("cannot be read: \(String(cString: strerror(errno)))")
    }
}
