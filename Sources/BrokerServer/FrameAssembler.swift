internal import BrokerWire
internal import NIOCore

/// Cuts the bytes of a connection into frames, and holds those that are not handed on yet. A pure machine.
///
/// Invariants:
/// 1. A frame is handed on in memory of its own, so that it retains no other bytes and no other bytes retain it.
/// 2. An empty assembler takes no memory.
/// 3. Of a frame longer than ``freeByteCount``, only the bytes before ``beginLarge()`` are held until then; after it,
///    the frame's own bytes and no more.
struct FrameAssembler {
    enum Step: Equatable {
        /// A whole frame is there, to be taken with ``take()``; its content has that many bytes at most.
        case frame(contentBytesAtMost: Int)
        /// A large frame, length included, has begun: it goes on with ``beginLarge()``, once there is memory for it.
        case large(totalCount: Int)
        /// More bytes are needed: that many in all, or nil while the length itself is incomplete.
        case incomplete(totalCount: Int?)
    }

    /// Bytes of a frame that are read without asking: those of all connections at a time are a few tens of megabytes.
    static let freeByteCount = 16 << 10

    private let limits: FrameLimits
    private var unread = ByteBuffer()
    /// A large frame without its length; nil when none has begun.
    private var large: (payload: [UInt8], payloadCount: Int)?

    init(limits: FrameLimits) { self.limits = limits }

    /// Bytes that are not handed on, without those of a large frame.
    var backlog: Int { unread.readableBytes }

    /// Whether a large frame is being read and is incomplete.
    var isAssembling: Bool { large.map { $0.payload.count < $0.payloadCount } ?? false }

    /// Bytes of the incomplete frame so far, its length included.
    var unfinishedCount: Int { large.map { $0.payload.count + FrameScanner.prefixCount } ?? unread.readableBytes }

    mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        if let missing = large.map({ $0.payloadCount - $0.payload.count }), missing > 0 {
            let piece = bytes.readSlice(length: min(missing, bytes.readableBytes))
            large?.payload.append(contentsOf: piece?.readableBytesView ?? ByteBufferView())
        }
        guard bytes.readableBytes > 0 else { return }
        unread.discardReadBytes()
        unread.writeBuffer(&bytes)
    }

    /// The step at the front.
    ///
    /// - Throws: `malformedFrame` or `frameTooLarge`; nothing more can be read then.
    mutating func next() throws(WireError) -> Step {
        let limits = limits
        if let large {
            guard !isAssembling else {
                return .incomplete(totalCount: FrameScanner.prefixCount + large.payloadCount)
            }
            return .frame(
                contentBytesAtMost: large.payload.withUnsafeBytes { FrameDecoder.contentBytesAtMost($0, limits) })
        }
        let scan = try unread.readableBytesView.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try FrameScanner.scan(bytes, limits: limits) }
        }.get()
        switch scan {
        case .frame(let payload):
            let most = unread.readableBytesView.withUnsafeBytes {
                FrameDecoder.contentBytesAtMost(UnsafeRawBufferPointer(rebasing: $0[payload]), limits)
            }
            return .frame(contentBytesAtMost: most)
        case .incomplete(let totalCount?) where totalCount > Self.freeByteCount:
            return .large(totalCount: totalCount)
        case .incomplete(let totalCount):
            if unread.readableBytes == 0 { unread = ByteBuffer() }
            return .incomplete(totalCount: totalCount)
        }
    }

    /// After ``Step/large(totalCount:)``: takes the memory of the whole frame, so that the rest of it may be read.
    mutating func beginLarge() {
        guard let length = unread.readInteger(as: UInt32.self) else { return }
        var payload: [UInt8] = []
        payload.reserveCapacity(Int(length))
        payload.append(contentsOf: unread.readableBytesView)
        large = (payload, Int(length))
        unread = ByteBuffer()
    }

    /// After ``Step/frame(contentBytesAtMost:)``: the frame without its length.
    mutating func take() -> FrameBytes {
        if let large {
            self.large = nil
            return .payload(large.payload)
        }
        let length = Int(unread.readInteger(as: UInt32.self) ?? 0)
        let limits = limits
        defer { unread.moveReaderIndex(forwardBy: length) }
        return unread.readableBytesView.withUnsafeBytes {
            FrameBytes(UnsafeRawBufferPointer(rebasing: $0[..<length]), limits: limits)
        }
    }

    /// Forgets everything.
    mutating func clear() {
        unread = ByteBuffer()
        large = nil
    }
}
