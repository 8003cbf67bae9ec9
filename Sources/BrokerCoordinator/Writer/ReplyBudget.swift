/// A bound for the objects of jobs (`reply: objects`) between the writer, which reads them, and the thread that sends
/// them.
final class ReplyBudget: Sendable {
    private let bytes = Monitor(0)

    /// Bytes of objects, of one transaction and not yet sent, above which the writer reads no more.
    static let maximumBytes = 4 << 20

    /// Waits until most of the objects are sent. The sending thread never waits for the writer.
    func waitForRoom() { bytes.wait { $0 < Self.maximumBytes ? () : nil } }

    func add(_ count: Int) { bytes.withLock { $0 += count } }

    func remove(_ count: Int) {
        bytes.update { $0 -= count }
    }
}
