package import BrokerJSON
internal import CLZ4

/// Decompresses frames, one after the other. Use one per thread: it reuses its memory.
///
/// Invariants:
/// 1. The content in memory never exceeds the limit, whatever size the frame declares.
/// 2. A payload is exactly one LZ4 frame: no bytes before it, and none after its end mark.
/// 3. After an error the decoder can be used again.
// It is the only owner of its context and has only mutating methods, so it may move between threads.
package struct FrameDecoder: ~Copyable, @unchecked Sendable {
    package let limits: FrameLimits
    private let context: OpaquePointer

    package init(limits: FrameLimits = FrameLimits()) {
        var context: OpaquePointer?
        let status = LZ4F_createDecompressionContext(&context, UInt32(LZ4F_VERSION))
        guard LZ4F_isError(status) == 0, let context else {
            preconditionFailure("out of memory for an LZ4 decompression context")
        }
        self.limits = limits
        self.context = context
    }

    deinit { LZ4F_freeDecompressionContext(context) }

    /// Returns the content of a frame. `payload` is the frame without the length. Blocking work: not for an event loop,
    /// unless the frame is small.
    ///
    /// - Parameter allowance: asked for the memory of the content. The granted bytes stay taken: `JSONText.count`. Nil
    ///   takes memory without asking.
    /// - Throws: ``WireError``: `malformedLZ4` or `contentTooLarge`; ``JSONRefusal/noRoom`` when the allowance was refused.
    package mutating func decode(
        _ payload: UnsafeRawBufferPointer, allowance: (any MemoryAllowance)?
    ) throws -> JSONText {
        var frame = try Decompression(payload, limits, context)
        // One byte more than the limit, so that a content that exceeds it is detected.
        var content = JSONTextBuilder(
            maximumCount: frame.bound + 1, capacity: Self.capacity(for: payload.count, declared: frame.declared),
            allowance: allowance)
        while !frame.isWhole {
            guard content.reserve(1) else { throw JSONRefusal.noRoom }
            try content.withFreeSpace(atLeast: 1) { free throws(WireError) in try frame.fill(free) }
        }
        return content.finish()
    }

    /// As the other, without an allowance.
    package mutating func decode(_ payload: UnsafeRawBufferPointer) throws(WireError) -> JSONText {
        do {
            return try decode(payload, allowance: nil)
        } catch {
            guard let error = error as? WireError else {
                preconditionFailure("out of memory for the content of a frame")
            }
            throw error
        }
    }

    /// Calls `body` with the content of a frame, piece by piece, in constant memory. Blocking work.
    ///
    /// - Throws: `malformedLZ4` or `contentTooLarge`.
    package mutating func forEachPiece(
        _ payload: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(WireError) {
        var frame = try Decompression(payload, limits, context)
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceCount, alignment: 1)
        defer { piece.deallocate() }
        while !frame.isWhole { body(UnsafeRawBufferPointer(rebasing: piece.prefix(try frame.fill(piece)))) }
    }

    /// Bytes of a content that `body` gets at a time.
    private static let pieceCount = 256 << 10

    /// The bytes of the first allocation. A declared size is only a hint, trusted as far as LZ4 can compress.
    private static func capacity(for payloadCount: Int, declared: UInt64?) -> Int {
        let possible = payloadCount * mostCompression
        guard let declared else { return min(possible, max(1024, payloadCount * 4)) + 1 }
        return min(possible, Int(declared)) + 1
    }

    /// An upper bound of the bytes of content in a payload, from its header and its length alone.
    package static func contentBytesAtMost(_ payload: UnsafeRawBufferPointer, _ limits: FrameLimits) -> Int {
        // The decoder will refuse a payload without a header.
        guard let header = try? FrameHeader(inspecting: payload) else { return 0 }
        let possible = min(payload.count * mostCompression, limits.maximumContentCount)
        return header.contentCount.map { Int(min($0, UInt64(possible))) } ?? possible
    }

    /// LZ4 block format: one more byte of length for every 255 bytes of match.
    private static let mostCompression = 255
}

/// A payload on its way through a decompression context.
private struct Decompression {
    /// The bytes of content that the frame declares; nil when it declares none.
    let declared: UInt64?
    /// The most bytes that its content may have.
    let bound: Int
    /// All of the content has been produced.
    private(set) var isWhole = false

    private let payload: UnsafeRawBufferPointer
    private let context: OpaquePointer
    private var (consumed, produced) = (0, 0)

    init(_ payload: UnsafeRawBufferPointer, _ limits: FrameLimits, _ context: OpaquePointer) throws(WireError) {
        declared = try FrameHeader(inspecting: payload).contentCount
        if let declared, declared > UInt64(limits.maximumContentCount) {
            throw Self.tooLarge("declares \(declared.grouped) bytes of content", limits.maximumContentCount)
        }
        bound = declared.map { Int($0) } ?? limits.maximumContentCount
        (self.payload, self.context) = (payload, context)
        LZ4F_resetDecompressionContext(context)
    }

    /// Fills the memory with the next bytes of the content, as far as there are any. Returns their number.
    mutating func fill(_ free: UnsafeMutableRawBufferPointer) throws(WireError) -> Int {
        var (written, taken) = (free.count, payload.count - consumed)
        let wanted = LZ4F_decompress(
            context, free.baseAddress, &written, payload.baseAddress! + consumed, &taken, nil)
        guard LZ4F_isError(wanted) == 0 else {
            let name = String(cString: LZ4F_getErrorName(wanted))
            throw FrameHeader.malformed("The LZ4 frame was damaged on the way and cannot be decompressed (\(name))")
        }
        consumed += taken
        produced += written
        guard produced <= bound else {
            guard declared == nil else {
                throw FrameHeader.malformed("The content is longer than the \(bound.grouped) bytes the frame declares")
            }
            throw Self.tooLarge("holds more than \(bound.grouped) bytes of content", bound)
        }
        isWhole = wanted == 0
        // While there is space left, the decompressor stops only when it needs more bytes.
        guard isWhole || written == free.count else { throw FrameHeader.truncated(payload.count) }
        guard !isWhole || consumed == payload.count else {
            throw FrameHeader.malformed("\((payload.count - consumed).grouped) bytes follow the end of the LZ4 frame")
        }
        return written
    }

    private static func tooLarge(_ fact: String, _ limit: Int) -> WireError {
        WireError(
            .contentTooLarge,
            """
            The frame \(fact); the limit is \(limit.grouped). Split the job into several, or raise \
            the server's limit.
            """)
    }
}

/// The header of an LZ4 frame, checked before any of the frame is decompressed.
///
/// ```
/// magic 04 22 4D 18 │ FLG │ BD │ content size (8, little-endian, if FLG bit 3) │ header checksum │ blocks … end mark
/// FLG: version (7-6) = 01 · independent blocks (5) · block checksums (4) · content size (3) · content checksum (2)
///      reserved (1) = 0 · dictionary id (0) = 0            BD: reserved (7) = 0 · block size 4...7 (6-4) · reserved = 0
/// ```
///
/// Source: LZ4 Frame Format Description, version 1.6.x. liblz4 checks the checksums.
struct FrameHeader {
    /// The declared bytes of the content; nil when the frame does not declare them.
    let contentCount: UInt64?

    /// - Throws: `malformedLZ4`, with a description of what the payload is instead.
    init(inspecting payload: UnsafeRawBufferPointer) throws(WireError) {
        try Self.checkMagic(payload)
        // Magic, FLG, BD and the header checksum: the shortest possible header.
        guard payload.count >= 7 else { throw Self.truncated(payload.count) }
        let (flags, descriptor) = (payload[4], payload[5])
        guard flags & 0b1100_0011 == 0b0100_0000, descriptor & 0b1000_1111 == 0, descriptor >> 4 >= 4 else {
            throw Self.malformed(
                "The LZ4 frame's header (\(flags.hexadecimal) \(descriptor.hexadecimal)) is not of version 1, or has a "
                    + "dictionary, a reserved bit or another block size than 4 to 7")
        }
        guard flags & 0b1000 != 0 else {
            contentCount = nil
            return
        }
        guard payload.count >= 15 else { throw Self.truncated(payload.count) }
        contentCount = UInt64(littleEndian: payload.loadUnaligned(fromByteOffset: 6, as: UInt64.self))
    }

    static let magic: UInt32 = 0x184D_2204

    private static func checkMagic(_ payload: UnsafeRawBufferPointer) throws(WireError) {
        if let first = payload.first, "{[\"\t\n\r ".utf8.contains(first) {
            throw malformed("The frame holds plain JSON after its length; it must be compressed")
        }
        guard payload.count >= 4 else { throw truncated(payload.count) }
        guard UInt32(littleEndian: payload.loadUnaligned(as: UInt32.self)) == magic else {
            let bytes = payload.prefix(4).map(\.hexadecimal).joined(separator: " ")
            throw malformed(
                "The frame does not hold an LZ4 frame: its bytes begin with \(bytes), not 0x04 0x22 0x4D 0x18")
        }
    }

    static func truncated(_ count: Int) -> WireError {
        malformed("The LZ4 frame is cut off after \(count.grouped) bytes, before its end mark")
    }

    static func malformed(_ fact: String) -> WireError {
        WireError(.malformedLZ4, "\(fact). Compress each message as one LZ4 frame, as `lz4 -c` makes it.")
    }
}
