internal import CLZ4
internal import Glibc

/// The frame of a small content, which it contains without compression: LZ4's format has such blocks.
///
/// ```
/// length (4) │ magic (4) │ FLG 68, BD 40 │ content size (8) │ header checksum │ block size (4, high bit set) │ content │ 0 (4)
/// ```
///
/// Source: LZ4 Frame Format Description, version 1.6.x.
package enum StoredFrame {
    /// Bytes of content up to which a frame is not compressed: some records. Compressing them takes half a microsecond
    /// and saves a fifth of their bytes, which makes no local socket faster.
    static let maximumContentCount = 512
    private static let headerCount = 15
    /// Bytes of the payload before the content, and after it.
    private static let headCount = headerCount + 4
    private static let tailCount = 4
    private static let isStored: UInt32 = 1 << 31

    /// The headers of the frames of 1, 2, … bytes, one after the other, as liblz4 writes them.
    private static let headers: [UInt8] = {
        let encoder = FrameEncoder()
        return (1...maximumContentCount).flatMap { encoder.header(ofContent: $0) }
    }()

    private static func header(_ count: Int, _ headers: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: headers[headerCount * (count - 1)..<headerCount * count])
    }

    /// Bytes that a frame adds to its content.
    static let addedCount = FrameScanner.prefixCount + headCount + tailCount

    /// Returns a whole frame; nil when the content is not small, or exceeds the limits.
    package static func encode(_ content: UnsafeRawBufferPointer, limits: FrameLimits = FrameLimits()) -> [UInt8]? {
        guard isStorable(content.count, limits) else { return nil }
        let count = content.count + addedCount
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            let frame = UnsafeMutableRawBufferPointer(buffer)
            UnsafeMutableRawBufferPointer(rebasing: frame[contentStart...]).copyMemory(from: content)
            enclose(frame)
            filled = count
        }
    }

    /// Makes the content a whole frame, in its own memory if that has room; does nothing when the content is not small, or
    /// exceeds the limits.
    ///
    /// - Returns: whether it is a frame.
    package static func enclose(_ content: inout [UInt8], limits: FrameLimits = FrameLimits()) -> Bool {
        let count = content.count
        guard isStorable(count, limits) else { return false }
        content.append(contentsOf: repeatElement(0, count: addedCount))
        content.withUnsafeMutableBytes { frame in
            UnsafeMutableRawBufferPointer(rebasing: frame[contentStart...])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: frame[..<count]))
            enclose(frame)
        }
        return true
    }

    /// Returns the payload of ``encode(_:limits:)``, the frame without its length, whatever the limits.
    package static func payload(_ content: UnsafeRawBufferPointer) -> [UInt8]? {
        encode(content, limits: .largest).map { Array($0.dropFirst(FrameScanner.prefixCount)) }
    }

    package static func payloadCount(_ contentCount: Int) -> Int { headCount + contentCount + tailCount }

    private static let contentStart = FrameScanner.prefixCount + headCount

    private static func isStorable(_ count: Int, _ limits: FrameLimits) -> Bool {
        count > 0 && count <= min(maximumContentCount, limits.maximumContentCount)
            && headCount + count + tailCount <= limits.maximumPayloadCount
    }

    /// Writes what comes before and after the content.
    private static func enclose(_ frame: UnsafeMutableRawBufferPointer) {
        let count = frame.count - addedCount
        frame.storeBytes(of: UInt32(frame.count - FrameScanner.prefixCount).bigEndian, as: UInt32.self)
        headers.withUnsafeBytes {
            UnsafeMutableRawBufferPointer(rebasing: frame[FrameScanner.prefixCount...]).copyMemory(
                from: header(count, $0))
        }
        frame.storeBytes(of: (UInt32(count) | isStored).littleEndian, toByteOffset: 19, as: UInt32.self)
        frame.storeBytes(of: 0, toByteOffset: frame.count - tailCount, as: UInt32.self)
    }

    /// Writes a block as it is, after its size.
    ///
    /// - Returns: the bytes that were written.
    static func writeBlock(_ block: UnsafeRawBufferPointer, to destination: UnsafeMutableRawBufferPointer) -> Int {
        destination.storeBytes(of: (UInt32(block.count) | isStored).littleEndian, as: UInt32.self)
        UnsafeMutableRawBufferPointer(rebasing: destination[4...]).copyMemory(from: block)
        return 4 + block.count
    }

    /// Returns the range of the content in a payload that ``encode(_:limits:)`` made. Nil for any other frame, which
    /// may be as valid.
    package static func content(of payload: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let count = payload.count - headCount - tailCount
        guard (1...maximumContentCount).contains(count),
            headers.withUnsafeBytes({ memcmp(payload.baseAddress!, header(count, $0).baseAddress!, headerCount) == 0 }),
            UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: 15, as: UInt32.self)) == UInt32(count)
                | isStored,
            payload.loadUnaligned(fromByteOffset: headCount + count, as: UInt32.self) == 0
        else { return nil }
        return UnsafeRawBufferPointer(rebasing: payload[headCount..<headCount + count])
    }
}

/// The maximum sizes of a frame, compressed and decompressed. Both are checked before memory is allocated.
package struct FrameLimits: Sendable, Equatable {
    /// The largest length whose first byte is 0, so that any other protocol on the socket is recognised by its first
    /// byte (protocol: framing).
    package static let largestPayloadCount = 16_777_215

    /// 256 MiB: the contract's default limit of a frame's content.
    package static let defaultMaximumContentCount = 256 << 20

    /// 1 GiB: the largest limit that a server may be configured to. SQLite's own limit of a value is a little less
    /// (sqlite.org/limits.html).
    package static let largestContentCount = 1 << 30

    /// The limits that no server exceeds: those of a frame in the journal, which a server with other limits may have
    /// accepted.
    package static let largest = FrameLimits(maximumContentCount: largestContentCount)

    /// Bytes of one LZ4 frame, 1...``largestPayloadCount``.
    package let maximumPayloadCount: Int
    /// Bytes of a frame's content, decompressed.
    package let maximumContentCount: Int
    /// Blocks of frames are compressed.
    let compresses: Bool

    /// Between two ends in one process: nothing is compressed, and what one record may have fits into one frame.
    package static let inProcess = FrameLimits(Int(Int32.max), defaultMaximumContentCount, compresses: false)

    private init(_ payload: Int, _ content: Int, compresses: Bool) {
        (maximumPayloadCount, maximumContentCount, self.compresses) = (payload, content, compresses)
    }

    package init(
        maximumPayloadCount: Int = FrameLimits.largestPayloadCount,
        maximumContentCount: Int = FrameLimits.defaultMaximumContentCount
    ) {
        precondition(
            (1...Self.largestPayloadCount).contains(maximumPayloadCount), "a payload limit out of the format's range")
        precondition(maximumContentCount > 0, "a content limit that allows no content")
        self.init(maximumPayloadCount, maximumContentCount, compresses: true)
    }
}

/// Compresses messages into frames, one after the other. Use one per thread or event loop: it reuses its memory.
///
/// A small content is not compressed (``StoredFrame``). Blocks are independent (linking them costs time and saves
/// almost nothing), of 64 KiB for content that fits in one and of 256 KiB for more. The frame declares the content's
/// size, so that the reader allocates memory once. There is no content checksum: it doubles the time to write a large
/// frame and multiplies the time to read it, while a Unix socket does not corrupt data, and the receiver checks the
/// JSON as a whole.
// It is the only owner of its context and has only mutating methods, so it may move between threads.
package struct FrameEncoder: ~Copyable, @unchecked Sendable {
    package let limits: FrameLimits
    private let context: OpaquePointer

    package init(limits: FrameLimits = FrameLimits()) {
        var context: OpaquePointer?
        let status = LZ4F_createCompressionContext(&context, UInt32(LZ4F_VERSION))
        guard LZ4F_isError(status) == 0, let context else {
            preconditionFailure("out of memory for an LZ4 compression context")
        }
        self.limits = limits
        self.context = context
    }

    deinit { LZ4F_freeCompressionContext(context) }

    /// Returns the whole frame of `content`: the length and the LZ4 frame.
    ///
    /// - Throws: `contentTooLarge`, or `frameTooLarge` when it does not compress below the limit.
    package mutating func encode(_ content: [UInt8]) throws(WireError) -> [UInt8] {
        // A closure of the standard library cannot throw a typed error, so the result carries it.
        try content.withUnsafeBytes { bytes in Result { () throws(WireError) in try encode(bytes) } }.get()
    }

    package mutating func encode(_ content: UnsafeRawBufferPointer) throws(WireError) -> [UInt8] {
        guard content.count <= limits.maximumContentCount else {
            throw WireError(
                .contentTooLarge,
                """
                The message is \(content.count.grouped) bytes long; the limit is \
                \(limits.maximumContentCount.grouped). Split it into several.
                """)
        }
        if let frame = StoredFrame.encode(content, limits: limits) { return frame }
        let prefixCount = FrameScanner.prefixCount
        var preferences = Self.preferences(for: content.count)
        if !limits.compresses { preferences.frameInfo.blockSizeID = LZ4F_max4MB }
        let capacity = prefixCount + LZ4F_compressFrameBound(content.count, &preferences)
        let frame = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            let destination = UnsafeMutableRawBufferPointer(buffer)
            let payloadCount = compress(
                content, into: UnsafeMutableRawBufferPointer(rebasing: destination.dropFirst(prefixCount)), &preferences
            )
            destination.storeBytes(of: UInt32(truncatingIfNeeded: payloadCount).bigEndian, as: UInt32.self)
            count = prefixCount + payloadCount
        }
        guard frame.count - prefixCount <= limits.maximumPayloadCount else {
            throw WireError(
                .frameTooLarge,
                """
                The message is \((frame.count - prefixCount).grouped) bytes long even when compressed; the limit is \
                \(limits.maximumPayloadCount.grouped). Split it into several.
                """)
        }
        // Frames wait in queues, so they take no more memory than they need.
        return frame.count < capacity / 2 ? frame.withUnsafeBytes { Array($0) } : frame
    }

    /// Returns the number of bytes written. The destination has the size that liblz4 requires, so nothing can fail.
    private func compress(
        _ content: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer,
        _ preferences: inout LZ4F_preferences_t
    ) -> Int {
        var options = LZ4F_compressOptions_t()
        options.stableSrc = 1
        let start = destination.baseAddress!
        var count = 0
        func take(_ written: Int) {
            precondition(LZ4F_isError(written) == 0, "liblz4: \(String(cString: LZ4F_getErrorName(written)))")
            count += written
        }
        take(LZ4F_compressBegin(context, start, destination.count, &preferences))
        if !limits.compresses {
            for block in stride(from: 0, to: content.count, by: Self.storedBlockCount) {
                let end = min(block + Self.storedBlockCount, content.count)
                let bytes = UnsafeRawBufferPointer(rebasing: content[block..<end])
                count += StoredFrame.writeBlock(
                    bytes, to: UnsafeMutableRawBufferPointer(rebasing: destination[count...]))
            }
            // The end mark.
            destination.storeBytes(of: 0, toByteOffset: count, as: UInt32.self)
            return count + 4
        }
        if let source = content.baseAddress, !content.isEmpty {
            take(
                LZ4F_compressUpdate(context, start + count, destination.count - count, source, content.count, &options))
        }
        take(LZ4F_compressEnd(context, start + count, destination.count - count, &options))
        return count
    }

    /// Returns the header of the frame of a content of that size.
    fileprivate func header(ofContent count: Int) -> [UInt8] {
        var preferences = Self.preferences(for: count)
        return [UInt8](unsafeUninitializedCapacity: Int(LZ4F_HEADER_SIZE_MAX)) { buffer, filled in
            filled = LZ4F_compressBegin(context, buffer.baseAddress, buffer.count, &preferences)
        }
    }

    /// Bytes of a block that is not compressed: the format's largest.
    private static let storedBlockCount = 4 << 20

    private static func preferences(for count: Int) -> LZ4F_preferences_t {
        var preferences = LZ4F_preferences_t()
        preferences.frameInfo.blockSizeID = count <= 64 << 10 ? LZ4F_max64KB : LZ4F_max256KB
        preferences.frameInfo.blockMode = LZ4F_blockIndependent
        preferences.frameInfo.contentSize = UInt64(count)
        preferences.autoFlush = 1
        return preferences
    }
}

/// The result of scanning the bytes at the beginning of a stream.
package enum FrameScan: Sendable, Equatable {
    /// More bytes are needed: `totalCount` with the length prefix, or nil while the prefix itself is not whole.
    case incomplete(totalCount: Int?)
    /// One whole frame: `payload` is the range of its LZ4 frame, and the next frame begins at its end.
    case frame(payload: Range<Int>)
}

/// Divides a stream of bytes into frames: a 4-byte big-endian length N, then N bytes of one LZ4 frame.
///
/// A length's first byte is always 0. Another first byte is refused at once, without waiting for more: as
/// `malformedFrame` when it looks like text or like an LZ4 frame without a length, and as `frameTooLarge` otherwise,
/// because it then begins a length of 16 MiB or more.
package enum FrameScanner {
    /// Bytes of the length before every frame.
    package static let prefixCount = 4

    static let recipe = """
        Send each message as a 4-byte big-endian length followed by one LZ4 frame of the JSON, as `broker frame` and \
        `lz4 -c` make it
        """

    /// - Throws: `malformedFrame` or `frameTooLarge`; the stream cannot be read any further after either.
    package static func scan(
        _ readable: UnsafeRawBufferPointer, limits: FrameLimits = FrameLimits()
    ) throws(WireError) -> FrameScan {
        guard let first = readable.first else { return .incomplete(totalCount: nil) }
        guard first == 0 || !limits.compresses else { throw strangeStart(first, readable) }
        guard readable.count >= prefixCount else { return .incomplete(totalCount: nil) }
        let count = length(readable)
        guard count > 0 else {
            throw WireError(.malformedFrame, "A frame of length 0 was sent, which holds no message. \(recipe).")
        }
        guard count <= limits.maximumPayloadCount else {
            throw tooLarge(count.grouped, limit: limits.maximumPayloadCount)
        }
        let end = prefixCount + count
        return readable.count < end ? .incomplete(totalCount: end) : .frame(payload: prefixCount..<end)
    }

    /// Returns the error when the stream ends with `leftoverCount` bytes that are no whole frame; nil when there are
    /// none.
    ///
    /// - Parameter totalCount: the value in ``FrameScan/incomplete(totalCount:)`` for those bytes.
    package static func endOfStream(_ leftoverCount: Int, totalCount: Int?) -> WireError? {
        guard leftoverCount > 0 else { return nil }
        guard let totalCount else {
            return WireError(
                .malformedFrame,
                """
                The stream ended inside a frame's 4-byte length: \(leftoverCount) of its bytes came, \
                \(prefixCount - leftoverCount) are missing. \(recipe).
                """)
        }
        return WireError(
            .malformedFrame,
            """
            The stream ended inside a frame: its length says \((totalCount - prefixCount).grouped) bytes, \
            \((totalCount - leftoverCount).grouped) of them are missing. Send the whole frame before closing, and \
            check that the length counts the compressed bytes.
            """)
    }

    private static func length(_ bytes: UnsafeRawBufferPointer) -> Int {
        Int(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
    }

    private static func tooLarge(_ length: String, limit: Int) -> WireError {
        WireError(
            .frameTooLarge,
            """
            The frame's length is \(length) bytes; the limit is \(limit.grouped). Split the job into several frames, \
            or check that the stream begins with a 4-byte big-endian length.
            """)
    }

    /// The error for a stream whose first byte is not 0.
    private static func strangeStart(_ first: UInt8, _ readable: UnsafeRawBufferPointer) -> WireError {
        let sent: String
        switch first {
        case 0x04 where startsAsMagic(readable, [0x04, 0x22, 0x4D, 0x18]):
            sent = "A bare LZ4 frame was sent, without a length before it"
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), 0x09, 0x0A, 0x0D, 0x20:
            sent = "Bare JSON was sent (the first byte is \(seen(first))), neither compressed nor framed"
        case 0xEF where startsAsMagic(readable, [0xEF, 0xBB, 0xBF]), 0x21...0x7E:
            sent = "Plain text was sent (the first byte is \(seen(first))), not a frame, whose first byte is 0"
        default:
            let limit = FrameLimits.largestPayloadCount
            guard readable.count >= prefixCount else {
                return tooLarge("at least \((Int(first) << 24).grouped)", limit: limit)
            }
            return tooLarge(length(readable).grouped, limit: limit)
        }
        return WireError(.malformedFrame, "\(sent). \(recipe).")
    }

    /// The bytes, as far as present, equal `magic`.
    private static func startsAsMagic(_ bytes: UnsafeRawBufferPointer, _ magic: [UInt8]) -> Bool {
        zip(bytes, magic).allSatisfy { $0 == $1 }
    }

    private static func seen(_ byte: UInt8) -> String {
        (0x21...0x7E).contains(byte) ? "'\(Character(UnicodeScalar(byte)))'" : byte.hexadecimal
    }
}

extension UInt8 {
    /// Two digits, as in 0x0A.
    var hexadecimal: String { "0x\(self < 16 ? "0" : "")\(String(self, radix: 16, uppercase: true))" }
}
