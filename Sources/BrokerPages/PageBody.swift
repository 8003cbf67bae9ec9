internal import Foundation

/// The body of a page, in a file without a name: it is gone with this object, however the process ends.
package final class PageBody: Sendable {
    private let descriptor: Int32

    /// - Throws: when there is no room for a file.
    init() throws(PageError) {
        var template = Array((NSTemporaryDirectory() + "broker-XXXXXX").utf8CString)
        descriptor = mkstemp(&template)
        guard descriptor >= 0 else {
            throw PageError(
                "No file for a page can be made in \(NSTemporaryDirectory()): \(String(cString: strerror(errno))).")
        }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    /// Each time it is opened, it is read from its beginning (proc(5), /proc/pid/fd).
    package var path: String { "/proc/self/fd/\(descriptor)" }

    func append(_ data: Data) throws(PageError) {
        var rest = data[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else {
                if errno == EINTR { continue }
                throw PageError(
                    "A page cannot be stored in \(NSTemporaryDirectory()): \(String(cString: strerror(errno))).")
            }
            rest = rest.dropFirst(count)
        }
    }
}
