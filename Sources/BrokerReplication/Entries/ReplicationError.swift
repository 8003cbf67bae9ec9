#if Replication
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
