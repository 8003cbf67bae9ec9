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
        guard first == 0 else { throw strangeStart(first, readable) }
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
        switch first {
        case 0x04 where startsAsMagic(readable, [0x04, 0x22, 0x4D, 0x18]):
            return WireError(
                .malformedFrame,
                "A bare LZ4 frame was sent, without a length before it. \(recipe).")
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), 0x09, 0x0A, 0x0D, 0x20:
            return WireError(
                .malformedFrame,
                "Bare JSON was sent (the first byte is \(seen(first))), neither compressed nor framed. \(recipe).")
        case 0xEF where startsAsMagic(readable, [0xEF, 0xBB, 0xBF]), 0x21...0x7E:
            return WireError(
                .malformedFrame,
                "Plain text was sent (the first byte is \(seen(first))), not a frame, whose first byte is 0. \(recipe)."
            )
        default:
            let limit = FrameLimits.largestPayloadCount
            guard readable.count >= prefixCount else {
                return tooLarge("at least \((Int(first) << 24).grouped)", limit: limit)
            }
            return tooLarge(length(readable).grouped, limit: limit)
        }
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
