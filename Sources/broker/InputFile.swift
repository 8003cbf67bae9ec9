import Dispatch
import Glibc

/// A file, or standard input, read from its beginning to its end on a thread that may wait for it.
final class InputFile: Sendable {
    private static let chunkBytes = 256 << 10

    private let descriptor: Int32
    private let queue = DispatchQueue(label: "input")

    /// - Parameter path: `-` is standard input.
    init(_ path: String) throws(InputFault) {
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable() }
    }

    deinit {
        if descriptor != STDIN_FILENO { close(descriptor) }
    }

    /// The next bytes, as soon as there are some; none at the end.
    func read() async throws(InputFault) -> [UInt8] {
        try await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.readNow()) }
        }.get()
    }

    private func readNow() -> Result<[UInt8], InputFault> {
        while true {
            var count = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: Self.chunkBytes) { space, filled in
                count = Glibc.read(descriptor, space.baseAddress, space.count)
                filled = max(0, count)
            }
            if count >= 0 { return .success(chunk) }
            if errno != EINTR { return .failure(Self.unreadable()) }
        }
    }

    private static func unreadable() -> InputFault {
        InputFault(reason: "cannot be read: \(String(cString: strerror(errno)))", place: nil)
    }
}
