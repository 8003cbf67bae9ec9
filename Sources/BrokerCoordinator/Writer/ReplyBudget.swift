/// The objects of jobs (`reply: objects`) between the writer, who reads them, and the thread that tells them: bounded, so
/// that one is never far ahead of the other.
final class ReplyBudget: Sendable {
    private let bytes = Monitor(0)

    /// Bytes of those of one transaction, and of those that are not told, beyond which no more are read.
    static let maximumBytes = 4 << 20

    /// Waits until most of them are told. What tells them never waits for the writer.
    func waitForRoom() { bytes.wait { $0 < Self.maximumBytes ? () : nil } }

    func add(_ count: Int) { bytes.withLock { $0 += count } }

    func remove(_ count: Int) {
        bytes.broadcast {
            $0 -= count
            return true
        }
    }
}
