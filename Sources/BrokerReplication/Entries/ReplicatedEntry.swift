#if Replication
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
#endif
