#if Replication
internal import CZlib

/// An entry as bytes, little-endian:
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 4 | `BrE` and the format: 1 |
/// | 4 | 4 | checksum of all bytes after it |
/// | 8 | 1, 1, 2 | kind; flags (1 the id is made, 2 the job may not delete, 4 the sender is privileged); bytes of the id |
/// | 12 | 4 | user |
/// | 16 | 8 | session |
/// | 24 | 4 | bytes of the payload |
/// | 28 | 4 | zero |
/// | 32 | 8 | time |
/// | 40 | | id, payload |
///
/// The checksum is a CRC-32 that begins with the identity of the stream, so that no message that was published for another
/// stream, or by another program, is taken for an entry.
package enum EntryEncoding {
    static let format: UInt8 = 1
    static let headerCount = 40
    private static let magic: [UInt8] = [0x42, 0x72, 0x45]
    private static let checksumEnd = 8
    private static let isIDMadeFlag: UInt8 = 1
    private static let mayNotDeleteFlag: UInt8 = 2
    private static let isPrivilegedFlag: UInt8 = 4

    /// - Throws: ``ReplicationError/Code/tooLarge`` for an id or a payload beyond its limit.
    package static func encode(
        _ entry: ReplicatedEntry, for stream: StreamIdentity
    ) throws(ReplicationError) -> [UInt8] {
        let id = Array(entry.id.utf8)
        guard id.count <= ReplicatedEntry.largestID, entry.payload.count <= ReplicatedEntry.largestPayload else {
            throw ReplicationError(
                .tooLarge,
                "An entry with an id of \(id.count) bytes and a payload of \(entry.payload.count) bytes was not appended: "
                    + "at most \(ReplicatedEntry.largestID) and \(ReplicatedEntry.largestPayload) are allowed. "
                    + "Send a smaller job.")
        }
        var flags = entry.isIDMade ? isIDMadeFlag : 0
        if !entry.mayDelete { flags |= mayNotDeleteFlag }
        if entry.isPrivileged { flags |= isPrivilegedFlag }
        return encode(
            kind: entry.kind.rawValue, flags: flags, user: entry.user, session: entry.session.number, time: entry.time,
            id: id, payload: entry.payload, seed: stream.seed)
    }

    /// As the other one, of any kind and flags.
    static func encode(
        kind: UInt8, flags: UInt8, user: UInt32, session: UInt64, time: Int64 = 0, id: [UInt8], payload: [UInt8],
        seed: UInt32
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(headerCount + id.count + payload.count)
        bytes += magic
        bytes.append(format)
        bytes.append(number: UInt32(0))
        bytes.append(kind)
        bytes.append(flags)
        bytes.append(number: UInt16(id.count))
        bytes.append(number: user)
        bytes.append(number: session)
        bytes.append(number: UInt32(payload.count))
        bytes.append(number: UInt32(0))
        bytes.append(number: time)
        bytes += id
        bytes += payload
        let checksum = bytes.withUnsafeBytes { Self.checksum($0.dropFirst(checksumEnd), seed: seed) }
        for byte in 0..<4 { bytes[4 + byte] = UInt8(truncatingIfNeeded: checksum >> (8 * UInt32(byte))) }
        return bytes
    }

    /// Reads an entry, and checks every byte of it.
    ///
    /// - Parameter position: of the message, for the error.
    /// - Throws: ``ReplicationError/Code/unknownFormat``, ``ReplicationError/Code/unknownKind`` or
    ///   ``ReplicationError/Code/damagedEntry``.
    package static func decode(
        _ bytes: UnsafeRawBufferPointer, at position: Int64, of stream: StreamIdentity
    ) throws(ReplicationError) -> ReplicatedEntry {
        guard bytes.count >= 4, bytes.prefix(3).elementsEqual(magic) else {
            throw .damagedEntry(at: position, "it does not begin as an entry; another program may have published it")
        }
        guard bytes[3] == format else { throw .unknownFormat(bytes[3], at: position) }
        guard bytes.count >= headerCount else { throw .damagedEntry(at: position, "it is too short") }
        let checksum = checksum(bytes.dropFirst(checksumEnd), seed: stream.seed)
        guard bytes.number(4, UInt32.self) == checksum else {
            throw .damagedEntry(at: position, "its checksum is wrong, or it was written for another stream")
        }
        let idCount = Int(bytes.number(10, UInt16.self))
        let payloadCount = Int(bytes.number(24, UInt32.self))
        let flags = bytes[9]
        guard let kind = ReplicatedEntry.Kind(rawValue: bytes[8]) else { throw .unknownKind(bytes[8], at: position) }
        guard flags & ~(isIDMadeFlag | mayNotDeleteFlag | isPrivilegedFlag) == 0, bytes.number(28, UInt32.self) == 0
        else { throw .unknownFormat(format, at: position) }
        guard bytes.count == headerCount + idCount + payloadCount,
            let id = String(validating: bytes[headerCount..<headerCount + idCount], as: UTF8.self)
        else { throw .damagedEntry(at: position, "its lengths are not those of the message") }
        return ReplicatedEntry(
            kind, session: SessionID(number: bytes.number(16, UInt64.self)), id: id,
            isIDMade: flags & isIDMadeFlag != 0, mayDelete: flags & mayNotDeleteFlag == 0,
            isPrivileged: flags & isPrivilegedFlag != 0, user: bytes.number(12, UInt32.self),
            time: bytes.number(32, Int64.self),
            payload: Array(bytes[(headerCount + idCount)...]))
    }

    private static func checksum(_ bytes: Slice<UnsafeRawBufferPointer>, seed: UInt32) -> UInt32 {
        let bytes = UnsafeRawBufferPointer(rebasing: bytes)
        return UInt32(crc32_z(UInt(seed), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count))
    }
}

extension [UInt8] {
    fileprivate mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func number<Number: FixedWidthInteger>(_ offset: Int, _: Number.Type) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}
#endif
