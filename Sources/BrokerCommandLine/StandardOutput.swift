internal import Dispatch
internal import Glibc
internal import Synchronization

/// Standard output for bytes that are not lines of text.
package enum StandardOutput {
    private static let isUnread = Atomic(false)

    /// False once a write found that the reader is gone, as of `broker fetch … | head -1`. What is written then is lost
    /// without an error, as it is not missed; a command that goes on writing for long ends.
    package static var hasReader: Bool { !isUnread.load(ordering: .relaxed) }

    /// Ends the process with status 0 when the reader goes, also while nothing is written. For a command that may wait for
    /// long, and has nothing to finish.
    package static func endWithoutReader() {
        // A queue of its own: its thread waits for as long as there is a reader.
        DispatchQueue(label: "reader").async {
            var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&output, 1, -1) < 0, errno == EINTR {}
            // A pipe has POLLERR then, a socket POLLHUP. What is closed from the start (POLLNVAL) fails when it is written.
            guard Int32(output.revents) & (POLLERR | POLLHUP) != 0 else { return }
            _exit(ExitStatus.success.rawValue)
        }
    }

    package static func write(_ bytes: [UInt8]) throws(CommandFailure) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(STDOUT_FILENO, $0.baseAddress! + written, $0.count - written)
            }
            guard count >= 0 else {
                if errno == EINTR { continue }
                if errno == EPIPE { return isUnread.store(true, ordering: .relaxed) }
                throw CommandFailure(.failed, "Standard output cannot be written: \(String(cString: strerror(errno))).")
            }
            written += count
        }
    }
}
