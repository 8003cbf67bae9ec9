/// An entry of a log, which alone decides the order of jobs: that of one server, on its disk, or one that several servers share.
package struct LogEntry: Sendable, Equatable {
    package enum Kind: Sendable, CaseIterable {
        case job
        /// The job at that position was cancelled before its merge; in a journal only.
        case cancellation
        /// The model of the entries after it.
        case model
        /// The limits of the entries after it.
        case limits

        // In a shared log only.

        /// A server joined or left the log.
        case replica
        /// A server's digest at a position.
        case checkpoint
        /// The end of a fingerprint.
        case upgrade

        /// Whether the entry has a position of its own.
        package var hasPosition: Bool { self != .cancellation }
    }

    package var kind: Kind
    /// The position of the entry, 0 before the log has given it one; for a cancellation, of the cancelled job.
    package var position: Int64
    /// The run of the server that appended it; 0 in a journal.
    package var session: UInt64
    /// 1 to 128 bytes; empty for an entry without an id.
    package var id: String
    /// The server made the id, so no client sends the job again.
    package var isIDMade: Bool
    /// Decided at admission: whether the sender can delete objects with the job.
    package var mayDelete: Bool
    /// Decided at admission: whether the sender can see the jobs of all users.
    package var isPrivileged: Bool
    /// The user id of the sender.
    package var user: UInt32
    /// When it was accepted: milliseconds since 1970. Those of a shared log are from the clocks of several servers, and may fall.
    package var time: Int64
    /// For a job its frame without the length, as it was received; else what its kind defines.
    package var payload: [UInt8]

    package init(
        _ kind: Kind, position: Int64 = 0, session: UInt64 = 0, id: String = "", isIDMade: Bool = false,
        mayDelete: Bool = true, isPrivileged: Bool = false, user: UInt32 = 0, time: Int64 = 0, payload: [UInt8] = []
    ) {
        self.kind = kind
        self.position = position
        self.session = session
        self.id = id
        self.isIDMade = isIDMade
        self.mayDelete = mayDelete
        self.isPrivileged = isPrivileged
        self.user = user
        self.time = time
        self.payload = payload
    }
}

extension LogEntry {
    /// As both logs store them: 1 the id is made, 2 the job may not delete, 4 the sender is privileged.
    package var flags: UInt8 { (isIDMade ? 1 : 0) | (mayDelete ? 0 : 2) | (isPrivileged ? 4 : 0) }

    /// Nil for flags that a later version wrote.
    package init?(
        _ kind: Kind, position: Int64, session: UInt64 = 0, id: String, flags: UInt8, user: UInt32, time: Int64,
        payload: [UInt8]
    ) {
        guard flags & ~7 == 0 else { return nil }
        self.init(
            kind, position: position, session: session, id: id, isIDMade: flags & 1 != 0, mayDelete: flags & 2 == 0,
            isPrivileged: flags & 4 != 0, user: user, time: time, payload: payload)
    }
}
