package import BrokerJSON

/// A client's request.
package enum ClientMessage {
    case hello(version: Int, client: String?)
    case job(JobMessage)
    /// - Parameter after: the answer waits until the server has applied everything up to that sequence.
    case await(id: String, after: Int64?)
    case bookmark(name: String)
    case cancel(id: String)
    case admin(AdminAction)
    /// An `admin` that copies the store.
    case backup(BackupMessage)
    /// An `admin` that changes the store to the model as it now is.
    case migrate(MigrateMessage)
    case fetch(FetchMessage)
    case subscribe(SubscribeMessage)
    case ping
    case stats
    case jobs(JobsMessage)
    case model
}

/// The server copies the store to a file.
package struct BackupMessage: Sendable {
    /// The name of the action on the wire.
    package static let action = "backup"

    /// An absolute path.
    package let file: String
    /// An existing file is replaced.
    package let replaces: Bool
    package let wantsProgress: Bool
}

/// The server changes the store to the model as it now is, as a `reload` does, or reports what that would do.
package struct MigrateMessage: Sendable, Equatable {
    /// The name of the action on the wire.
    package static let action = "migrate"

    /// The treatment of parts that the model no longer has.
    package enum RemovedParts: String, Sendable, CaseIterable {
        case refuse, keep, drop
    }

    /// Nothing is changed.
    package let isDryRun: Bool
    package let removedParts: RemovedParts

    package init(isDryRun: Bool, removedParts: RemovedParts) {
        self.isDryRun = isDryRun
        self.removedParts = removedParts
    }
}

/// The administrative actions without fields of their own.
package enum AdminAction: String, Sendable, CaseIterable {
    /// Jobs are accepted and staged, but not merged.
    case pause
    case resume
    /// New jobs are refused, accepted jobs are finished, and the server ends.
    case drain
    /// SQLite's WAL is copied into the database.
    case checkpoint
    /// The model is read again, and applied completely or not at all.
    case reload
}

/// A client's message and the fields that every message may have.
// `message` points into `document`, which is immutable and owned here, so an envelope may move between threads as a
// whole.
package struct ClientEnvelope: @unchecked Sendable {
    /// The only supported version of the protocol.
    package static let protocolVersion = 1
    /// The maximum bytes of a tag as JSON text: the server stores one for each message that is not answered.
    package static let maximumTagCount = 1_024

    /// Its JSON values are valid as long as `document`.
    package let message: ClientMessage
    /// The client's `tag` as JSON text, which every answer returns.
    package let tag: [UInt8]?
    /// The message's `id`, whatever its type is; nil when it has none that may be returned.
    package let id: String?
    package let document: JSONDocument
}

/// A job as the client sent it. Valid as long as its document.
package struct JobMessage {
    /// Fields that earlier servers ignored, with the effect of a job that lacks them. `welcome` has their names.
    package static let features = ["dryRun", "maximumDeletions", "bookmark"]

    /// The treatment of invalid records.
    package enum OnInvalid: String, Sendable, CaseIterable {
        /// The job fails and changes nothing.
        case fail
        /// The invalid record is skipped and listed.
        case skip
    }

    /// The treatment of keys of records that the model does not name.
    package enum UnknownKeys: String, Sendable, CaseIterable {
        /// They are ignored, and counted in a warning.
        case warn
        /// A record with such a key is invalid.
        case fail
    }

    /// The number of objects that a job may delete.
    package enum DeletionLimit: Sendable, Equatable {
        /// The number for all entities together.
        case objects(Int)
        /// A part of the objects of each entity, in thousandths of a percent.
        case percent(thousandths: Int)
    }

    /// A named text that is stored with the job's changes.
    package struct Bookmark: Sendable, Equatable {
        package static let nameCounts = 1...1_024
        package static let valueCounts = 0...8_192

        package let name: String
        /// Nil deletes the bookmark.
        package let value: String?
    }

    /// The contents of `completed`.
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

    /// The maximum bytes of a job's id.
    package static let idCounts = 1...128
    /// The prefix of ids that the server makes. A client's id may not have it, or one job could be mistaken for
    /// another.
    package static let reservedIDPrefix = "broker-"

    /// The client's id; nil when the server makes one.
    package let id: String?
    /// Never empty; in the order in which they take effect.
    package let operations: ShortList<OperationMessage>
    package let onInvalid: OnInvalid
    package let unknownKeys: UnknownKeys
    /// The job is applied and undone.
    package let isDryRun: Bool
    /// A job that deletes more objects fails; nil for any number.
    package let maximumDeletions: DeletionLimit?
    package let bookmark: Bookmark?
    package let reply: Reply
    /// The form of dates in the objects of the reply.
    package let dates: FetchMessage.Dates
    package let notify: Notify
    /// Trailing commas are accepted.
    package let isLenient: Bool
    /// The W3C `traceparent` of the sender's span; no part of the content.
    package let trace: String?

    /// The maximum bytes of a trace.
    package static let longestTrace = 256
}

/// One operation of a job. Its values are present, but not checked yet.
package struct OperationMessage {
    package enum Action {
        /// Finds or inserts objects of the entity, and fills them from `json`.
        case process(object: JSONValue?)
        /// Sets the object's relationship to the objects in `json`.
        case relate(object: JSONValue, relationship: JSONValue)
        /// As `process`; then deletes the objects that match the predicate and were not named.
        case sync(Selection, actions: SyncActions, part: SyncPart?)
        /// A whole payload, read by the mapping of that name, by the routes that fit that path, or by all routes that
        /// have no path. At most one of the two is present.
        case map(mapping: JSONValue?, path: JSONValue?)
        /// Deletes the objects whose keys `json` lists.
        case delete
        /// Deletes the objects that match.
        case deleteMatching(Selection)
    }

    /// A predicate, and the values of its `%@`.
    package struct Selection {
        /// Nil selects all objects.
        package let predicate: String?
        package let arguments: JSONValue?
    }

    /// A part of a `sync` that consists of several jobs.
    package struct SyncPart: Sendable {
        package let id: String
        package let isLast: Bool
    }

    /// The changes that a `sync` may make.
    package struct SyncActions: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let insert = SyncActions(rawValue: 1)
        package static let update = SyncActions(rawValue: 2)
        package static let delete = SyncActions(rawValue: 4)
        package static let all: SyncActions = [.insert, .update, .delete]
    }

    /// Empty for a `map`: its routes or its mapping determine the entity.
    package let entity: String
    /// The client's value of any kind; for a `deleteMatching`, the operation itself.
    package internal(set) var json: JSONValue
    package let action: Action
    /// The position of the entity's name in the message: a JSON Pointer (RFC 6901), such as `/operations/0/entity`.
    package let entityPointer: String
    /// The position of the operation's fields: a JSON Pointer, empty for the job itself.
    package let pointer: String
}

/// A `fetch` as the client sent it. Valid as long as its document.
package struct FetchMessage {
    package enum Names: String, Sendable, CaseIterable { case remote, local }
    package enum Dates: String, Sendable, CaseIterable { case model, iso8601 }
    package enum ResultForm: String, Sendable, CaseIterable { case collection, object, dictionary, count }

    package let entity: String
    /// A predicate.
    package let condition: String?
    /// The client's value of any kind.
    package let arguments: JSONValue?
    /// The key of one object: the client's value of any kind.
    package let object: JSONValue?
    /// The key after which the objects come: the client's value of any kind.
    package let after: JSONValue?
    package let sort: [String]
    /// Nil for the server's default.
    package let limit: Int?
    package let offset: Int
    package let include: [String]
    /// Attributes, to-one relationships, or key paths to them; empty for whole objects.
    package let select: [String]
    package let names: Names
    package let dates: Dates
    package let result: ResultForm
    /// The answer may consist of several messages.
    package let isStreamed: Bool
    /// A sequence that the server is to have applied before it reads.
    package let afterSequence: Int64?
}

extension FetchMessage {
    init(_ root: JSONValue) throws(WireError) {
        guard let entity = try root.optionalString("entity", in: "") else {
            throw WireError(
                .unsupportedMessage, "A `fetch` needs `entity`: the name of the objects' entity in the model.",
                path: "/entity")
        }
        self.entity = entity
        condition = try root.optionalString("where", in: "")
        arguments = root["arguments"]
        guard arguments == nil || condition != nil else {
            throw WireError(
                .unsupportedMessage, "There are `arguments`, and no `where` that they could be filled in.",
                path: "/arguments")
        }
        object = root["object"]
        after = root["after"]
        sort = try root.optionalStrings("sort", of: "attribute names")
        limit = try root.optionalCount("limit")
        offset = try root.optionalCount("offset") ?? 0
        include = try root.optionalStrings("include", of: "relationship paths")
        select = try root.optionalStrings("select", of: "names of attributes and relationships")
        names = try root.optionalWord("names", Names.self) ?? .remote
        dates = try root.optionalWord("dates", Dates.self) ?? .model
        result = try root.optionalWord("result", ResultForm.self) ?? .collection
        isStreamed = try root.optionalBool("stream") ?? false
        afterSequence = try root.optionalCount("afterSequence").map { Int64($0) }
    }
}
