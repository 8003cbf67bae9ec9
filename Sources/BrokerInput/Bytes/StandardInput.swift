import Glibc
import Synchronization

/// What was read of standard input ahead of whoever reads it.
package enum StandardInput {
    private static let pending = Mutex<[UInt8]>([])

    /// Reads on until there are so many bytes, or none any more; they come again for who reads standard input next.
    ///
    /// To be called while nobody reads.
    ///
    /// - Returns: the bytes, and whether they are all that there are.
    package static func readAhead(_ limit: Int) -> (bytes: [UInt8], isAll: Bool) {
        pending.withLock { pending in
            var isAll = false
            while pending.count < limit, !isAll {
                let chunk = [UInt8](unsafeUninitializedCapacity: limit - pending.count) { space, filled in
                    var count = -1
                    repeat {
                        count = read(STDIN_FILENO, space.baseAddress, space.count)
                    } while count < 0 && errno == EINTR
                    filled = max(0, count)
                }
                // What cannot be read is told to who reads on.
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
