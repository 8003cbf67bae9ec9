internal import Glibc

/// Standard output for bytes that are not lines of text.
package enum StandardOutput {
    package static func write(_ bytes: [UInt8]) throws(CommandFailure) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(STDOUT_FILENO, $0.baseAddress! + written, $0.count - written)
            }
            guard count >= 0 else {
                throw CommandFailure(.failed, "Standard output cannot be written: \(String(cString: strerror(errno))).")
            }
            written += count
        }
    }
}
