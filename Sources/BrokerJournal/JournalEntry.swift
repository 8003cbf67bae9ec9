/// What a journal keeps: a job as it was received, or that one was taken back.
public struct JournalEntry: Sendable, Equatable {
    public enum Kind: UInt8, Sendable {
        case job = 1
        /// The job of that position was taken back before its merge.
        case cancellation = 2
    }

    public var kind: Kind
    /// The job's place among all; of a cancellation the job's.
    public var position: Int64
    /// 1 to 128 bytes; empty of what has none.
    public var id: String
    /// The id was made by the server: nobody sends it again.
    public var isIDMade: Bool
    /// Who sent it.
    public var user: UInt32
    /// When it was accepted: milliseconds since 1970.
    public var time: Int64
    /// Of a job its frame without the length, as it was received.
    public var payload: [UInt8]

    public init(
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
public struct JournalError: Error, Sendable, CustomStringConvertible {
    public enum Code: Sendable {
        /// The disk is full: the entries are not in the journal, and may be appended again later.
        case full
        /// The system did not do what it was asked to. What is on the disk is not known any more, and nothing may be
        /// appended until the journal has been opened anew.
        case broken
        /// What is there is damaged, or another store's.
        case unusable
    }

    public let code: Code
    /// What happened, where, and the remedy, in one line.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
