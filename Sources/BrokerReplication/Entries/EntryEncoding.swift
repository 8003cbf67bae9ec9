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

/// The permanent identity of a stream: random, and in the stream's metadata from its creation on.
package struct StreamIdentity: Sendable, Hashable, CustomStringConvertible {
    /// 32 hexadecimal digits.
    package let description: String

    /// The initial value of the checksums of its entries.
    let seed: UInt32

    /// A new one.
    package init() {
        self.init(SessionID().description + SessionID().description)!
    }

    /// Parses ``description``; nil for any other text.
    package init?(_ text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Self.isHexadecimal($0) }) else { return nil }
        description = text
        var text = text
        seed = text.withUTF8 { UInt32(crc32_z(0, $0.baseAddress, $0.count)) }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}

/// An entry of the replicated log: a job as it was received, or a change of what decides outcomes.
package struct ReplicatedEntry: Sendable, Equatable {
    package enum Kind: UInt8, Sendable, CaseIterable {
        case job = 1
        /// The model of the entries after it.
        case model = 2
        /// The limits of the entries after it.
        case limits = 3
        /// A replica joined or left the log.
        case replica = 4
        /// A replica's digest at a position.
        case checkpoint = 5
        /// The end of a fingerprint.
        case upgrade = 6
    }

    package var kind: Kind
    package var session: SessionID
    /// At most 128 bytes; empty for an entry without an id.
    package var id: String
    /// The server made the id, so no client sends the job again.
    package var isIDMade: Bool
    /// Decided at admission: whether the sender can delete objects with the job.
    package var mayDelete: Bool
    /// Decided at admission: whether the sender can see the jobs of all users.
    package var isPrivileged: Bool
    /// The user id of the sender.
    package var user: UInt32
    /// Milliseconds since 1970, by the clock of the server that appends it. It may be below that of the entry before.
    package var time: Int64
    /// For a job its frame without the length, as it was received; else what its kind defines. At most ``largestPayload`` bytes.
    package var payload: [UInt8]

    package init(
        _ kind: Kind, session: SessionID, id: String = "", isIDMade: Bool = false, mayDelete: Bool = true,
        isPrivileged: Bool = false, user: UInt32 = 0, time: Int64 = 0, payload: [UInt8] = []
    ) {
        self.kind = kind
        self.session = session
        self.id = id
        self.isIDMade = isIDMade
        self.mayDelete = mayDelete
        self.isPrivileged = isPrivileged
        self.user = user
        self.time = time
        self.payload = payload
    }

    /// The largest frame, in bytes.
    package static let largestPayload = 16 << 20
    static let largestID = 128
    /// The largest encoded entry, in bytes.
    package static let largest = EntryEncoding.headerCount + largestID + largestPayload
}

/// A run of a server: its entries have a subject of their own in the stream. Random, so that no two runs share one.
package struct SessionID: Sendable, Hashable, CustomStringConvertible {
    let number: UInt64

    package init() { number = .random(in: .min ... .max) }

    init(number: UInt64) { self.number = number }

    /// 16 hexadecimal digits.
    package var description: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// A fault of the replicated log, of its servers, or of the connection to them.
package struct ReplicationError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, CaseIterable {
        /// The address names no servers or no stream.
        case invalidAddress
        /// The file of credentials or of certificate authorities cannot be used.
        case unusableFile
        /// The servers refuse the credentials, or a call that Broker needs; or this client refuses their certificates.
        case notAuthorized
        /// The servers did not answer in time.
        case unavailable
        /// ``ReplicatedStream/stop()``, or that of a session, ended the call. A group that was being appended may be in the stream
        /// or not.
        case stopped

        // Refusals of servers and streams.

        /// A server's version is not one of the proven ones.
        case unprovenVersion
        /// JetStream is not enabled.
        case noJetStream
        /// A server does not sync each write.
        case notSynced
        /// A message may not be as large as the largest entry.
        case payloadTooSmall
        /// Fewer than three servers have a copy.
        case tooFewPeers
        /// There is no stream of that name.
        case noStream
        /// A stream of that name exists.
        case streamExists
        /// The stream's configuration is not what Broker needs.
        case configuredOtherwise

        // Refusals of a group, which is not in the stream.

        /// The stream, or its servers' disks, have no room. The group may be appended again later.
        case full
        /// The entry, or the group, is larger than what is allowed.
        case tooLarge
        /// The servers refuse the group for another reason.
        case refused

        // Halts: the stream is not what this server has appended to or read from.

        /// Another stream is under the name.
        case anotherStream
        /// The stream ends before what was appended or read.
        case endsBefore
        /// Entries that were not read are no longer in the stream.
        case trimmed
        /// An entry is missing in the middle.
        case gap
        /// A position is not above the one before.
        case fallingPosition
        /// The checksum or the form of an entry is wrong.
        case damagedEntry
        /// A later version of Broker wrote the entry.
        case unknownKind
        /// A later version of Broker wrote the entry.
        case unknownFormat
        /// Another program publishes under the subject of the session.
        case sessionTaken
    }

    package let code: Code
    /// The fault, its place and the remedy, in one line.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}

extension ReplicationError {
    static func damagedEntry(at position: Int64, _ what: String) -> Self {
        Self(
            .damagedEntry,
            "The message at position \(position) of the log is no intact entry: \(what). Nothing from there on was applied. "
                + "Compare the stream's copies, and start this replica again from a backup.")
    }

    static func unknownKind(_ kind: UInt8, at position: Int64) -> Self {
        Self(
            .unknownKind,
            "The entry at position \(position) of the log has the kind \(kind), which this version of Broker does not know. "
                + "Nothing from there on was applied. Install the version that the other replicas have.")
    }

    /// The payload of an entry is none that this version knows.
    package static func unknownPayload(at position: Int64) -> Self { unknownFormat(EntryEncoding.format, at: position) }

    static func unknownFormat(_ format: UInt8, at position: Int64) -> Self {
        Self(
            .unknownFormat,
            "The entry at position \(position) of the log has a form of format \(format) that this version of Broker does not "
                + "know. Nothing from there on was applied. Install the version that the other replicas have.")
    }
}
#endif
