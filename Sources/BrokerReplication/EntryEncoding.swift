#if Replication
internal import BrokerJSON
package import BrokerJournal

/// An entry as bytes, little-endian:
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 4 | `BrE` and the format: 1 |
/// | 4 | 4 | checksum of all bytes after it |
/// | 8 | 1, 1, 2 | kind; ``LogEntry/flags``; bytes of the id |
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
    /// The numbers of the kinds, from 1.
    private static let kinds: [LogEntry.Kind] = [.job, .model, .limits, .replica, .checkpoint, .upgrade]
    static let largestID = 128
    /// The largest frame, in bytes.
    package static let largestPayload = 16 << 20
    /// The largest encoded entry, in bytes.
    package static let largest = headerCount + largestID + largestPayload

    /// Throws for an id or a payload beyond its limit.
    package static func encode(
        _ entry: LogEntry, for stream: StreamIdentity
    ) throws(ReplicationError) -> [UInt8] {
        let id = Array(entry.id.utf8)
        guard id.count <= largestID, entry.payload.count <= largestPayload else {
            throw ReplicationError(
                .tooLarge,
                "An entry with an id of \(id.count) bytes and a payload of \(entry.payload.count) bytes was not appended: "
                    + "at most \(largestID) and \(largestPayload) are allowed. Send a smaller job.")
        }
        guard let kind = kinds.firstIndex(of: entry.kind) else {
            preconditionFailure("a shared log has no \(entry.kind)")
        }
        return encode(
            kind: UInt8(kind + 1), flags: entry.flags, user: entry.user, session: entry.session, time: entry.time,
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
        let checksum = bytes.withUnsafeBytes {
            JournalRecord.checksum(UnsafeRawBufferPointer(rebasing: $0.dropFirst(checksumEnd)), seed: seed)
        }
        for byte in 0..<4 { bytes[4 + byte] = UInt8(truncatingIfNeeded: checksum >> (8 * UInt32(byte))) }
        return bytes
    }

    /// Reads an entry, and checks every byte of it. The position is that of the message, for the error.
    package static func decode(
        _ bytes: UnsafeRawBufferPointer, at position: Int64, of stream: StreamIdentity
    ) throws(ReplicationError) -> LogEntry {
        guard bytes.count >= 4, bytes.prefix(3).elementsEqual(magic) else {
            throw .damagedEntry(at: position, "it does not begin as an entry; another program may have published it")
        }
        guard bytes[3] == format else { throw .unknownFormat(bytes[3], at: position) }
        guard bytes.count >= headerCount else { throw .damagedEntry(at: position, "it is too short") }
        let checksum = JournalRecord.checksum(
            UnsafeRawBufferPointer(rebasing: bytes.dropFirst(checksumEnd)), seed: stream.seed)
        guard bytes.number(4, UInt32.self) == checksum else {
            throw .damagedEntry(at: position, "its checksum is wrong, or it was written for another stream")
        }
        let idCount = Int(bytes.number(10, UInt16.self))
        let payloadCount = Int(bytes.number(24, UInt32.self))
        let number = Int(bytes[8])
        guard (1...kinds.count).contains(number) else { throw .unknownKind(bytes[8], at: position) }
        guard bytes.count == headerCount + idCount + payloadCount,
            let id = String(validating: bytes[headerCount..<headerCount + idCount], as: UTF8.self)
        else { throw .damagedEntry(at: position, "its lengths are not those of the message") }
        let entry = LogEntry(
            kinds[number - 1], position: position, session: bytes.number(16, UInt64.self), id: id, flags: bytes[9],
            user: bytes.number(12, UInt32.self), time: bytes.number(32, Int64.self),
            payload: Array(bytes[(headerCount + idCount)...]))
        guard let entry, bytes.number(28, UInt32.self) == 0 else { throw .unknownFormat(format, at: position) }
        return entry
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
        self.init(JournalIdentity().description)!
    }

    /// Parses ``description``; nil for any other text.
    package init?(_ text: String) {
        guard JournalIdentity(text)?.description == text else { return nil }
        description = text
        var text = text
        seed = text.withUTF8 { JournalRecord.checksum(UnsafeRawBufferPointer($0), seed: 0) }
    }
}

/// A run of a server: its entries have a subject of their own in the stream. Random, so that no two runs share one.
package struct SessionID: Sendable, Hashable, CustomStringConvertible {
    package let number: UInt64

    package init() { number = .random(in: .min ... .max) }

    init(number: UInt64) { self.number = number }

    /// 16 hexadecimal digits.
    package var description: String { number.hexadecimalText }
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
        case noJetStream
        /// A server does not sync each write.
        case notSynced
        /// A message may not be as large as the largest entry.
        case payloadTooSmall
        /// Fewer than three servers have a copy.
        case tooFewPeers
        case noStream
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
