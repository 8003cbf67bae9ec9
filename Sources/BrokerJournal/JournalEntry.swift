/// An entry of a journal: a job as it was received, the cancellation of one, or a change of what decides outcomes.
package struct JournalEntry: Sendable, Equatable {
    package enum Kind: UInt8, Sendable {
        case job = 1
        /// The job at that position was cancelled before its merge.
        case cancellation = 2
        /// The model of the entries after it.
        case model = 3
        /// The limits of the entries after it.
        case limits = 4

        /// Whether the entry has a position of its own.
        package var hasPosition: Bool { self != .cancellation }
    }

    package var kind: Kind
    /// The position of the entry; for a cancellation, of the cancelled job.
    package var position: Int64
    /// 1 to 128 bytes; empty for an entry without an id.
    package var id: String
    /// The server made the id, so no client sends the job again.
    package var isIDMade: Bool
    /// Whether the sender could delete objects with the job.
    package var mayDelete: Bool
    /// Whether the sender could see the jobs of all users.
    package var isPrivileged: Bool
    /// The user id of the sender.
    package var user: UInt32
    /// The time of acceptance: milliseconds since 1970.
    package var time: Int64
    /// For a job: its frame without the length, as it was received. For a model, or limits: JSON.
    package var payload: [UInt8]

    package init(
        _ kind: Kind, position: Int64, id: String = "", isIDMade: Bool = false, mayDelete: Bool = true,
        isPrivileged: Bool = false, user: UInt32 = 0, time: Int64, payload: [UInt8] = []
    ) {
        self.kind = kind
        self.position = position
        self.id = id
        self.isIDMade = isIDMade
        self.mayDelete = mayDelete
        self.isPrivileged = isPrivileged
        self.user = user
        self.time = time
        self.payload = payload
    }
}

/// A fault of a journal, or of its disk.
package struct JournalError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The disk is full: the entries are not in the journal, and may be appended again later.
        case full
        /// A system call failed. The contents of the disk are not known any more, and no entry may be appended until
        /// the journal has been opened again.
        case broken
        /// Its file or folder was deleted, moved or replaced while it was open: the entries are not in the journal.
        case lost
        /// The journal is damaged, or another store's.
        case unusable
    }

    package let code: Code
    /// What happened, where, and the remedy, in one line.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
