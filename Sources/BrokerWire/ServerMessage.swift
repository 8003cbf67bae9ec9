package import BrokerJSON

/// A server's answer.
package enum ServerMessage: Sendable {
    case welcome(Welcome)
    /// Its fields are in the envelope's document.
    case pong
    case accepted(id: String, sequence: Int64)
    /// The number of rows of the job that are staged, and of those that are merged.
    case progress(id: String, staged: Int, merged: Int)
    /// The job of that id was cancelled.
    case cancelled(id: String)
    case completed(CompletedMessage)
    case failed(FailedMessage)
    case error(ErrorMessage)
    /// The result of a `fetch`, as JSON text.
    ///
    /// - hasMore: a limit excluded further objects, or further parts follow.
    /// - last: the key of the last object.
    case objects(json: [UInt8], hasMore: Bool, last: [UInt8]?)
    /// The value, and the job that wrote it; nil when there is no bookmark of that name.
    case bookmark(name: String, value: String?, sequence: Int64?)
    /// The jobs after a sequence follow. The feed can be read after `oldest`, and no older one.
    case subscribed(after: Int64, oldest: Int64)
    case committed(CommittedMessage)
    /// Its fields are in the envelope's document.
    case stats
    /// Its fields are in the envelope's document.
    case jobs
    /// The result of an `admin` action; its fields are in the envelope's document.
    case done
    /// The model as JSON text.
    case model(json: [UInt8])
    /// A type that this side does not know.
    case other(type: String)
}

/// A server's message and the fields that every message may have.
package struct ServerEnvelope: Sendable {
    package let message: ServerMessage
    /// The `tag` of the message that this answers, as JSON text; nil when that message had none.
    package let tag: [UInt8]?
    package let document: JSONDocument
}

/// The answer to `hello`.
package struct Welcome: Sendable, Equatable {
    package let version: Int
    /// The server's name and version.
    package let server: String
    /// Accepted jobs are in a journal; nil when the server does not report it.
    package let hasJournal: Bool?
    /// Nil when the server does not report it.
    package let durability: String?
    /// Nil without a log that several servers share.
    package let replica: String?
    /// The messages that this client may send; nil when the server does not report it.
    package let role: String?
    /// The fields of jobs that not every server knows.
    package let features: [String]
    /// The object of limits as JSON text.
    package let limits: [UInt8]
    package let entities: [String]
}

/// A committed job.
package struct CompletedMessage: Sendable, Equatable {
    package let id: String
    /// The job's position in the total order of jobs.
    package let sequence: Int64
    /// The job had been applied before, and this is its outcome.
    package let duplicate: Bool
    /// The job was tried, and has changed nothing.
    package let dryRun: Bool
    /// By entity; empty with `reply: none`.
    package let changes: [String: EntityChanges]
    /// The records that were skipped by `onInvalid: skip`.
    package let rejected: [ErrorBody]
    package let warnings: [WarningBody]
    /// Nil with `reply: none`.
    package let timing: TimingBody?
    /// The object of keys as JSON text, when the job asked for it.
    package let keys: [UInt8]?
    /// Some of the keys as JSON text, of a dry run.
    package let examples: [UInt8]?
    /// The array of arrays of objects as JSON text, when the job asked for it.
    package let objects: [UInt8]?

    package init(
        id: String, sequence: Int64, duplicate: Bool = false, dryRun: Bool = false,
        changes: [String: EntityChanges] = [:],
        rejected: [ErrorBody] = [], warnings: [WarningBody] = [], timing: TimingBody? = nil, keys: [UInt8]? = nil,
        examples: [UInt8]? = nil, objects: [UInt8]? = nil
    ) {
        self.id = id
        self.sequence = sequence
        self.duplicate = duplicate
        self.dryRun = dryRun
        self.changes = changes
        self.rejected = rejected
        self.warnings = warnings
        self.timing = timing
        self.keys = keys
        self.examples = examples
        self.objects = objects
    }
}

/// The number of objects of one entity that a job changed or named.
package struct EntityChanges: Sendable, Equatable {
    package var inserted = 0
    package var updated = 0
    package var unchanged = 0
    package var deleted = 0
    package var rejected = 0

    package init(inserted: Int = 0, updated: Int = 0, unchanged: Int = 0, deleted: Int = 0, rejected: Int = 0) {
        self.inserted = inserted
        self.updated = updated
        self.unchanged = unchanged
        self.deleted = deleted
        self.rejected = rejected
    }
}

/// A committed job that changed entities of a subscription.
package struct CommittedMessage: Sendable, Equatable {
    package let sequence: Int64
    /// Nil when another user sent the job, and where no job is meant.
    package let id: String?
    /// By entity; empty when no job up to the sequence changed those of the subscription.
    package let changes: [String: EntityChanges]
    /// The object of keys as JSON text; nil when none were asked for, or they are not stored.
    package let keys: [UInt8]?
}

/// A fact that a job's sender should know, though nothing failed.
package struct WarningBody: Sendable, Equatable {
    package let code: String
    package let entity: String?
    package let key: String?
    package let count: Int?
}

/// The time of each stage of a job, in microseconds.
package struct TimingBody: Sendable, Equatable {
    package var queued: Int64 = 0
    package var staged: Int64 = 0
    package var journalWaited: Int64 = 0
    package var journalSynced: Int64 = 0
    package var waited: Int64 = 0
    package var merged: Int64 = 0
    package var committed: Int64 = 0
}

/// A fault: what happened, where, and the remedy.
package struct ErrorBody: Error, Sendable, Equatable, CustomStringConvertible {
    /// One of the protocol's codes; text, because a newer server may know more of them.
    package let code: String
    package let message: String
    /// JSON Pointer into the message that was sent.
    package let path: String?
    package let entity: String?
    package let attribute: String?
    package let line: Int?
    package let column: Int?
    package let offset: Int?
    package let retryAfterMilliseconds: Int?
    package let oldest: Int64?

    package var description: String { path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)" }
}

/// A job that was refused or failed; it changed nothing.
package struct FailedMessage: Error, Sendable, Equatable, CustomStringConvertible {
    package let id: String?
    /// Nil when the job was refused before it had a sequence.
    package let sequence: Int64?
    package let error: ErrorBody

    package var description: String { error.description }
}

/// A frame or a message that could not be read, or a connection that the server refuses.
package struct ErrorMessage: Error, Sendable, Equatable, CustomStringConvertible {
    /// The `id` of the message at fault, when it could be read.
    package let id: String?
    package let error: ErrorBody
    /// The position of the frame at fault on its connection, from 1.
    package var frame: Int?

    package var description: String { error.description }
}
