import Glibc
import Synchronization

/// The bytes of standard input that were read before its actual reader.
package enum StandardInput {
    private static let pending = Mutex<[UInt8]>([])

    /// Reads until there are `count` bytes, or the input ends; the next reader of standard input gets them again.
    ///
    /// Must not be called while another reader reads.
    ///
    /// - Returns: the bytes, and whether the input ends with them.
    package static func readAhead(_ limit: Int) -> (bytes: [UInt8], isAll: Bool) {
        pending.withLock { pending in
            var isAll = false
            while pending.count < limit, !isAll {
                let chunk = [UInt8](unsafeUninitializedCapacity: min(limit - pending.count, 1 << 20)) { space, filled in
                    var count = -1
                    repeat {
                        count = read(STDIN_FILENO, space.baseAddress, space.count)
                    } while count < 0 && errno == EINTR
                    filled = max(0, count)
                }
                // A read error is reported to the next reader.
                isAll = chunk.isEmpty
                pending += chunk
            }
            return (pending, isAll)
        }
    }

    /// The bytes that were read ahead, once.
    static func take() -> [UInt8]? {
        pending.withLock { pending in
            defer { pending = [] }
            return pending.isEmpty ? nil : pending
        }
    }
}
