/// What a journal keeps: a job as it was received, or that one was taken back.
package struct JournalEntry: Sendable, Equatable {
    package enum Kind: UInt8, Sendable {
        case job = 1
        /// The job of that position was taken back before its merge.
        case cancellation = 2
    }

    package var kind: Kind
    /// The job's place among all; of a cancellation the job's.
    package var position: Int64
    /// 1 to 128 bytes; empty of what has none.
    package var id: String
    /// The id was made by the server: nobody sends it again.
    package var isIDMade: Bool
    /// Who sent it.
    package var user: UInt32
    /// When it was accepted: milliseconds since 1970.
    package var time: Int64
    /// Of a job its frame without the length, as it was received.
    package var payload: [UInt8]

    package init(
        _ kind: Kind, position: Int64, id: String = "", isIDMade: Bool = false, user: UInt32 = 0, time: Int64,
        payload: [UInt8] = []
    ) {
        self.kind = kind
        self.position = position
        self.id = id
        self.isIDMade = isIDMade
        self.user = user
        self.time = time
        self.payload = payload
    }
}

/// Something is wrong with a journal, or with the disk that it is on.
package struct JournalError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The disk is full: the entries are not in the journal, and may be appended again later.
        case full
        /// The system did not do what it was asked to. What is on the disk is not known any more, and nothing may be
        /// appended until the journal has been opened anew.
        case broken
        /// What is there is damaged, or another store's.
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
