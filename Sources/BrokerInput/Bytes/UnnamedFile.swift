import Foundation

/// A temporary file without a name: it is gone with this object, however the process ends.
package final class UnnamedFile: Sendable {
    /// There is no room for the file.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        fileprivate init() {
            description =
                "A temporary file cannot be written in \(NSTemporaryDirectory()): \(String(cString: strerror(errno))); set "
                + "TMPDIR."
        }
    }

    private let descriptor: Int32

    package init() throws(Failure) {
        var template = Array((NSTemporaryDirectory() + "broker-XXXXXX").utf8CString)
        descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw Failure() }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    /// Each time it is opened, it is read from its beginning (proc(5), /proc/pid/fd).
    package var path: String { "/proc/self/fd/\(descriptor)" }

    package func append(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure() }
            rest = rest.dropFirst(count)
        }
    }
}
