internal import DequeModule
internal import NIOCore

/// Frames that are not handed to the channel yet, cut into pieces of a size that is worth a system call: many small
/// frames in one, a large one in many.
struct OutgoingFrames {
    private var frames = Deque<[UInt8]>()
    /// Bytes of the first frame that were taken.
    private var taken = 0

    var isEmpty: Bool { frames.isEmpty }

    mutating func append(contentsOf more: [[UInt8]]) { frames.append(contentsOf: more) }

    /// The next bytes, `count` at most.
    mutating func takeChunk(of count: Int, _ allocator: ByteBufferAllocator) -> ByteBuffer {
        var available = -taken
        for frame in frames {
            available += frame.count
            if available >= count { break }
        }
        var chunk = allocator.buffer(capacity: min(count, available))
        while let frame = frames.first, chunk.readableBytes < count {
            let piece = min(count - chunk.readableBytes, frame.count - taken)
            chunk.writeBytes(frame[taken..<taken + piece])
            taken += piece
            guard taken == frame.count else { break }
            frames.removeFirst()
            taken = 0
        }
        return chunk
    }
}
