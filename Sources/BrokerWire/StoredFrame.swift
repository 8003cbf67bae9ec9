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
    /// Bytes of the payload before the content, and after it.
    private static let headCount = 19
    private static let tailCount = 4
    /// Version 1, independent blocks, content size; blocks of 64 KiB.
    private static let flags: UInt8 = 0b0110_1000
    private static let descriptor: UInt8 = 0x40
    private static let isStored: UInt32 = 1 << 31

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

    /// Bytes of the payload of a content.
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
        frame.storeBytes(of: FrameHeader.magic.littleEndian, toByteOffset: 4, as: UInt32.self)
        frame[8] = flags
        frame[9] = descriptor
        frame.storeBytes(of: UInt64(count).littleEndian, toByteOffset: 10, as: UInt64.self)
        frame[18] = checksum(contentCount: count)
        frame.storeBytes(of: (UInt32(count) | isStored).littleEndian, toByteOffset: 19, as: UInt32.self)
        frame.storeBytes(of: 0, toByteOffset: frame.count - tailCount, as: UInt32.self)
    }

    /// Returns the range of the content in a payload that ``encode(_:limits:)`` made. Nil for any other frame, which
    /// may be as valid.
    package static func content(of payload: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let count = payload.count - headCount - tailCount
        guard (1...maximumContentCount).contains(count),
            UInt32(littleEndian: payload.loadUnaligned(as: UInt32.self)) == FrameHeader.magic, payload[4] == flags,
            payload[5] == descriptor,
            UInt64(littleEndian: payload.loadUnaligned(fromByteOffset: 6, as: UInt64.self)) == UInt64(count),
            payload[14] == checksum(contentCount: count),
            UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: 15, as: UInt32.self)) == UInt32(count)
                | isStored,
            payload.loadUnaligned(fromByteOffset: headCount + count, as: UInt32.self) == 0
        else { return nil }
        return UnsafeRawBufferPointer(rebasing: payload[headCount..<headCount + count])
    }

    /// The second byte of the header's XXH32 with seed 0: of the flags, the descriptor and the content's size.
    ///
    /// Source: xxHash fast digest algorithm, version 0.1.1, for less than 16 bytes.
    private static func checksum(contentCount: Int) -> UInt8 {
        let size = UInt64(contentCount)
        let bytes = UInt64(flags) | UInt64(descriptor) << 8 | size << 16
        var hash = prime5 &+ 10
        for lane in [UInt32(truncatingIfNeeded: bytes), UInt32(truncatingIfNeeded: bytes >> 32)] {
            hash = rotated(hash &+ lane &* prime3, by: 17) &* prime4
        }
        for byte in [UInt32(truncatingIfNeeded: size >> 48 & 0xFF), UInt32(truncatingIfNeeded: size >> 56)] {
            hash = rotated(hash &+ byte &* prime5, by: 11) &* prime1
        }
        hash = (hash ^ hash >> 15) &* prime2
        hash = (hash ^ hash >> 13) &* prime3
        hash ^= hash >> 16
        return UInt8(truncatingIfNeeded: hash >> 8)
    }

    private static let prime1: UInt32 = 0x9E37_79B1
    private static let prime2: UInt32 = 0x85EB_CA77
    private static let prime3: UInt32 = 0xC2B2_AE3D
    private static let prime4: UInt32 = 0x27D4_EB2F
    private static let prime5: UInt32 = 0x1656_67B1

    private static func rotated(_ value: UInt32, by bits: UInt32) -> UInt32 { value << bits | value >> (32 - bits) }
}
