package import BrokerJSON

/// What a client asks for.
package enum ClientMessage {
    case hello(version: Int, client: String?)
    case job(JobMessage)
    case await(id: String)
    case cancel(id: String)
    case admin(AdminAction)
    /// An `admin` that copies the store.
    case backup(BackupMessage)
    case fetch(FetchMessage)
    case ping
    case stats
    case model
}

/// The store is to be copied to a file, by the server.
package struct BackupMessage: Sendable {
    /// The word of its action.
    package static let action = "backup"

    /// Absolute.
    package let file: String
    /// A file that is there gives way.
    package let replaces: Bool
    package let wantsProgress: Bool
}

/// What whoever operates the server may ask of it.
package enum AdminAction: String, Sendable, CaseIterable {
    /// Jobs are accepted and staged, and none is merged.
    case pause
    case resume
    /// New jobs are refused, those accepted are finished, and the server ends.
    case drain
    /// SQLite's log is copied into the database.
    case checkpoint
    /// The model is read anew, and applied whole or not at all.
    case reload
}

/// A client's message and what every message may bear.
// `message` points into `document`, which is immutable and held here, so an envelope may move between threads as a whole.
package struct ClientEnvelope: @unchecked Sendable {
    /// The one version of the protocol that is spoken.
    package static let protocolVersion = 1
    /// Bytes that a tag may have, as JSON text: the server keeps one for each message that is not answered.
    package static let maximumTagCount = 1_024

    /// Its JSON values are valid while `document` lives.
    package let message: ClientMessage
    /// The client's `tag` as JSON text, to be given back in every answer.
    package let tag: [UInt8]?
    /// The message's `id`, whatever its type is; nil when it has none that may be given back.
    package let id: String?
    package let document: JSONDocument
}

/// A job as the client sent it. Valid while the document it was read from lives.
package struct JobMessage {
    /// What becomes of a job with a bad record.
    package enum OnInvalid: String, Sendable, CaseIterable {
        /// The job changes nothing.
        case fail
        /// The bad record is left out and listed.
        case skip
    }

    /// How a job treats keys of records that the model does not name.
    package enum UnknownKeys: String, Sendable, CaseIterable {
        /// They are ignored, and counted in a warning.
        case warn
        /// The record that has one is a bad record.
        case fail
    }

    /// What `completed` tells.
    package enum Reply: String, Sendable, CaseIterable {
        case none, summary, keys, objects
    }

    /// The answers that the client wants; errors are always sent.
    package struct Notify: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let accepted = Notify(rawValue: 1)
        package static let completed = Notify(rawValue: 2)
        package static let progress = Notify(rawValue: 4)
    }

    /// Bytes that a job's id may have.
    package static let idCounts = 1...128
    /// How the ids begin that the server makes; a client's may not, or one job could be taken for another.
    package static let reservedIDPrefix = "broker-"

    /// Chosen by the client; nil when the server is to make one.
    package let id: String?
    /// Never empty, in the order in which they take effect.
    package let operations: [OperationMessage]
    package let onInvalid: OnInvalid
    package let unknownKeys: UnknownKeys
    package let reply: Reply
    package let notify: Notify
    /// Trailing commas are to be forgiven.
    package let isLenient: Bool
}

/// One operation of a job. What its values are is not looked at yet, only that they are there.
package struct OperationMessage {
    package enum Action {
        /// Find or create objects of the entity, and fill them from `json`.
        case process(object: JSONValue?)
        /// `json` becomes what that object holds at the relationship.
        case relate(object: JSONValue, relationship: JSONValue)
        /// As `process`; then what matches the predicate and was not named is deleted.
        case sync(Selection, actions: SyncActions, part: SyncPart?)
        /// A whole payload, read by the mapping of that name, or by the routes that fit that path, or by all routes that
        /// have none. At most one of them is there.
        case map(mapping: JSONValue?, path: JSONValue?)
        /// Delete the objects whose keys `json` lists.
        case delete
        /// Delete the objects that match.
        case deleteMatching(Selection)
    }

    /// A predicate, and the values of its `%@`.
    package struct Selection {
        /// Nil selects all.
        package let predicate: String?
        package let arguments: JSONValue?
    }

    /// A part of a `sync` that several jobs do together.
    package struct SyncPart: Sendable {
        package let id: String
        package let isLast: Bool

        package init(id: String, isLast: Bool) {
            self.id = id
            self.isLast = isLast
        }
    }

    /// What a `sync` may do.
    package struct SyncActions: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let insert = SyncActions(rawValue: 1)
        package static let update = SyncActions(rawValue: 2)
        package static let delete = SyncActions(rawValue: 4)
        package static let all: SyncActions = [.insert, .update, .delete]
    }

    /// Of a `map` empty: its routes or its mapping tell.
    package let entity: String
    /// Whatever stood there, an object or an array or not; of a `deleteMatching` the operation itself.
    package internal(set) var json: JSONValue
    package let action: Action
    /// Where the message names the entity: a JSON Pointer (RFC 6901), such as `/operations/0/entity`.
    package let entityPointer: String
    /// Where the operation's fields stand: a JSON Pointer, empty for the job itself.
    package let pointer: String
}
