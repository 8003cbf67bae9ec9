internal import Broker
internal import BrokerRequests
internal import BrokerWire
internal import Synchronization

/// Frame encoders for callers on any thread: as many as are used at the same time, and used again.
final class FrameEncoders: Sendable {
    // In the pool or with one caller, never both, so no two threads touch it at once.
    private final class Slot: @unchecked Sendable {
        var encoder = FrameEncoder()
    }

    private let free = Mutex<[Slot]>([])

    func encode(_ content: [UInt8]) throws(BrokerError) -> [UInt8] {
        if let frame = content.withUnsafeBytes({ StoredFrame.encode($0) }) { return frame }
        let slot = free.withLock { $0.popLast() } ?? Slot()
        defer { free.withLock { $0.append(slot) } }
        do {
            return try slot.encoder.encode(content)
        } catch {
            throw .tooLarge(error.description)
        }
    }
}
