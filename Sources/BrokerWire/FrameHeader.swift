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
        let flags = payload[4]
        let version = flags >> 6
        guard version == 1 else {
            throw Self.malformed("The LZ4 frame is of version \(version); only version 1 is known")
        }
        guard flags & 0b10 == 0 else { throw Self.malformed("A reserved bit is set in the LZ4 frame's flags") }
        guard flags & 0b1 == 0 else {
            throw Self.malformed("The LZ4 frame needs a dictionary, and none is agreed on")
        }
        let descriptor = payload[5]
        guard descriptor & 0b1000_1111 == 0 else {
            throw Self.malformed("A reserved bit is set in the LZ4 frame's block descriptor")
        }
        let blockSize = descriptor >> 4
        guard blockSize >= 4 else {
            throw Self.malformed("The LZ4 frame has the block size code \(blockSize); the codes are 4 to 7")
        }
        guard flags & 0b1000 != 0 else {
            contentCount = nil
            return
        }
        guard payload.count >= 15 else { throw Self.truncated(payload.count) }
        contentCount = UInt64(littleEndian: payload.loadUnaligned(fromByteOffset: 6, as: UInt64.self))
    }

    static let magic: UInt32 = 0x184D_2204
    private static let legacyMagic: UInt32 = 0x184C_2102
    private static let skippableMagics: ClosedRange<UInt32> = 0x184D_2A50...0x184D_2A5F
    private static let zstandardMagic: UInt32 = 0xFD2F_B528

    private static func checkMagic(_ payload: UnsafeRawBufferPointer) throws(WireError) {
        switch payload.first {
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), 0x09, 0x0A, 0x0D, 0x20:
            throw malformed("The frame holds plain JSON after its length; it must be compressed")
        case 0x1F where payload.count > 1 && payload[1] == 0x8B:
            throw malformed("The frame holds a gzip stream, not an LZ4 frame")
        default: break
        }
        guard payload.count >= 4 else { throw truncated(payload.count) }
        let magic = UInt32(littleEndian: payload.loadUnaligned(as: UInt32.self))
        switch magic {
        case Self.magic: return
        case legacyMagic: throw malformed("The frame holds an LZ4 frame of the legacy format (`lz4 -l`)")
        case skippableMagics: throw malformed("The frame holds a skippable LZ4 frame, which bears no message")
        case zstandardMagic: throw malformed("The frame holds a Zstandard frame, not an LZ4 frame")
        default:
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
