public import BrokerJSON

/// What a server answers.
public enum ServerMessage: Sendable {
    case welcome(Welcome)
    /// Its fields are in the envelope's document.
    case pong
    case accepted(id: String, sequence: Int64)
    case completed(CompletedMessage)
    case failed(FailedMessage)
    case error(ErrorMessage)
    /// Its fields are in the envelope's document.
    case stats
    /// The model as JSON text.
    case model(json: [UInt8])
    /// A type that this side does not know.
    case other(type: String)
}

/// A server's message and what every message may bear.
public struct ServerEnvelope: Sendable {
    public let message: ServerMessage
    /// The `tag` of the message that this answers, as JSON text; nil when that brought none.
    public let tag: [UInt8]?
    public let document: JSONDocument
}

/// The answer to `hello`.
public struct Welcome: Sendable, Equatable {
    public let version: Int
    /// The server's name and version.
    public let server: String
    /// The object of limits as JSON text.
    public let limits: [UInt8]
    public let entities: [String]
}

/// A job is committed.
public struct CompletedMessage: Sendable, Equatable {
    public let id: String
    /// The job's place in the one order of all jobs.
    public let sequence: Int64
    /// The job had been applied before, and this is the outcome of that time.
    public let duplicate: Bool
    /// By entity; empty with `reply: none`.
    public let changes: [String: EntityChanges]
    /// The records that `onInvalid: skip` left out.
    public let rejected: [ErrorBody]
    public let warnings: [WarningBody]
    /// Nil with `reply: none`.
    public let timing: TimingBody?
    /// The object of keys as JSON text, when the job asked for it.
    public let keys: [UInt8]?

    public init(
        id: String, sequence: Int64, duplicate: Bool = false, changes: [String: EntityChanges] = [:],
        rejected: [ErrorBody] = [], warnings: [WarningBody] = [], timing: TimingBody? = nil, keys: [UInt8]? = nil
    ) {
        self.id = id
        self.sequence = sequence
        self.duplicate = duplicate
        self.changes = changes
        self.rejected = rejected
        self.warnings = warnings
        self.timing = timing
        self.keys = keys
    }
}

/// How many objects of one entity a job touched.
public struct EntityChanges: Sendable, Equatable {
    public var inserted = 0
    public var updated = 0
    public var unchanged = 0
    public var deleted = 0
    public var rejected = 0

    public init(inserted: Int = 0, updated: Int = 0, unchanged: Int = 0, deleted: Int = 0, rejected: Int = 0) {
        self.inserted = inserted
        self.updated = updated
        self.unchanged = unchanged
        self.deleted = deleted
        self.rejected = rejected
    }
}

/// Something a job's sender should know, though nothing failed.
public struct WarningBody: Sendable, Equatable {
    public let code: String
    public let entity: String?
    public let key: String?
    public let count: Int?
}

/// How long a job spent where, in microseconds.
public struct TimingBody: Sendable, Equatable {
    public var queued: Int64 = 0
    public var staged: Int64 = 0
    public var merged: Int64 = 0
    public var committed: Int64 = 0
}

/// What went wrong, where, and the remedy.
public struct ErrorBody: Error, Sendable, Equatable, CustomStringConvertible {
    /// One of the protocol's codes; text, because a newer server may know more of them.
    public let code: String
    public let message: String
    /// JSON Pointer into the message that was sent.
    public let path: String?
    public let entity: String?
    public let attribute: String?
    public let line: Int?
    public let column: Int?
    public let offset: Int?
    public let retryAfterMilliseconds: Int?

    public var description: String { path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)" }
}

/// A job was refused or went wrong; it changed nothing.
public struct FailedMessage: Error, Sendable, Equatable, CustomStringConvertible {
    public let id: String?
    /// Nil when the job was refused before it had a ticket.
    public let sequence: Int64?
    public let error: ErrorBody

    public var description: String { error.description }
}

/// A frame or a message could not be read, or the connection is not wanted.
public struct ErrorMessage: Error, Sendable, Equatable, CustomStringConvertible {
    /// The `id` of the message at fault, when it could be read.
    public let id: String?
    public let error: ErrorBody

    public var description: String { error.description }
}
