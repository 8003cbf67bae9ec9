package import BrokerJSON

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// Operations that take effect together or not at all.
public struct Job: Sendable, Equatable {
    /// Fields that earlier servers ignored, with the effect of a job that lacks them. `welcome` has their names.
    package static let features = ["dryRun", "maximumDeletions", "bookmark", "expect", "adjust", "links", "names"]
    /// The maximum bytes of a trace.
    package static let longestTrace = 256

    /// In the order in which they take effect; each sees what those before it did.
    public var operations: [Operation]
    /// A job is applied exactly once under one id. Nil: the client makes one.
    public var id: JobID?
    /// The treatment of invalid records.
    public var onInvalid: OnInvalid
    /// Nil: ``UnknownKeys/fail`` if an operation has records that were encoded from values, because a key that the model does not name
    /// is a member that would be lost; ``UnknownKeys/warn`` if all of them are JSON text.
    public var unknownKeys: UnknownKeys?
    /// The names of members in the records, and in the objects of ``Reply/objects``. Nil: ``BrokerRecord/names`` of the records' type,
    /// and ``Query/Names/payload`` without one. Payloads, which the model's mappings read, have keys of their own.
    public var names: Query.Names?
    /// The job is tried and undone: it changes nothing, and its id stays free. The completion says what the job would do
    /// to the store as it is; see `examples(of:as:)`. A part of a sync cannot be tried.
    public var isDryRun = false
    /// A job that deletes more objects fails with ``BrokerError/Code/tooManyDeletions``. Nil: any number.
    public var maximumDeletions: DeletionLimit?
    /// A text that is stored in the transaction of the job; ``BrokerService/bookmark(named:)`` returns it.
    public var bookmark: Bookmark?
    /// The contents of the completion.
    public var reply: Reply
    /// The form of dates in the objects of ``Reply/objects``, with ``Query/Names/payload``.
    public var dates = Query.Dates.iso8601
    /// Trailing commas are accepted in the job's JSON texts.
    public var allowsTrailingCommas: Bool
    /// The W3C `traceparent` of the span that sends the job. The server logs it; it is no part of the job's content, so a
    /// job that is sent again under its id may have another one.
    public var trace: String?

    /// A job of several operations.
    public init(
        _ operations: [Operation], id: JobID? = nil, onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil,
        names: Query.Names? = nil, reply: Reply = .summary, allowsTrailingCommas: Bool = false
    ) {
        self.operations = operations
        self.id = id
        self.onInvalid = onInvalid
        self.unknownKeys = unknownKeys
        self.names = names
        self.reply = reply
        self.allowsTrailingCommas = allowsTrailingCommas
    }

    /// One operation.
    public init(
        _ operation: Operation, id: JobID? = nil, onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil,
        names: Query.Names? = nil, reply: Reply = .summary, allowsTrailingCommas: Bool = false
    ) {
        self.init(
            [operation], id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, names: names, reply: reply,
            allowsTrailingCommas: allowsTrailingCommas)
    }
}

extension Job {
    /// The treatment of invalid records.
    public struct OnInvalid: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// The job fails and changes nothing.
        public static let fail = OnInvalid(rawValue: "fail")
        /// The invalid record is rejected and listed in ``Completion/rejections``.
        public static let skip = OnInvalid(rawValue: "skip")
    }

    /// The treatment of keys of records that the model does not name.
    public struct UnknownKeys: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// They are ignored, and counted in ``Completion/warnings``.
        public static let warn = UnknownKeys(rawValue: "warn")
        /// A record with such a key is invalid, with the code ``BrokerError/Code/unknownKey``.
        public static let fail = UnknownKeys(rawValue: "fail")

        package static let known: [Self] = [.warn, .fail]
    }

    /// The number of objects that a job may delete. Objects that a delete rule deletes count; an object that the job
    /// deletes and makes again does not.
    public struct DeletionLimit: Sendable, Equatable {
        enum Bound: Sendable, Equatable {
            case objects(Int), percent(Double)
        }

        let bound: Bound

        /// The number for all entities together.
        public static func objects(_ count: Int) -> DeletionLimit { DeletionLimit(bound: .objects(count)) }

        /// The part of the objects that an entity, with its subentities, had before the job, for each entity: 0 to 100,
        /// to three digits after the point.
        public static func percent(_ percentage: Double) -> DeletionLimit { DeletionLimit(bound: .percent(percentage)) }
    }

    /// The contents of the completion.
    public struct Reply: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// The id and the sequence.
        public static let none = Reply(rawValue: "none")
        /// Counts, rejections, warnings and times.
        public static let summary = Reply(rawValue: "summary")
        /// Also the keys of the objects that were changed: `keys(of:as:)`.
        public static let keys = Reply(rawValue: "keys")
        /// Also the objects of the job's own records: ``Completion/objects(ofOperation:as:)``.
        public static let objects = Reply(rawValue: "objects")

        package static let known: [Self] = [.none, .summary, .keys, .objects]
    }

    /// A named text that a job writes with its changes: how far its data have come, in the words of their source. An `ETag`, a
    /// cursor, the offset of a message.
    ///
    /// It is written when the job takes effect, also when no object changes. It is part of the job's content.
    public struct Bookmark: Sendable, Equatable {
        package static let nameCounts = 1...1_024
        package static let valueCounts = 0...8_192

        /// Shared by all clients of the store; 1 to 1,024 bytes.
        public var name: String
        /// At most 8,192 bytes. Nil deletes the bookmark.
        public var value: String?

        /// - Parameter value: nil deletes the bookmark.
        public init(_ name: String, _ value: String?) {
            self.name = name
            self.value = value
        }
    }

    /// Something that a job does to objects. Made by the functions of this type: ``process(_:as:nulls:)``,
    /// `update(_:key:with:nulls:)`, `set(_:of:key:to:)`, ``sync(_:as:where:actions:part:nulls:)``, ``processPayload(_:by:)``,
    /// `delete(_:keys:)`.
    public struct Operation: Sendable, Equatable {
        /// The maximum bytes of the `path` of a `map`: more than the request line that web servers accept.
        package static let longestPath = 8_192

        /// The entity whose objects it is about; empty of a `map`.
        public let entity: String
        /// What the object that the operation names must be like. Otherwise the job fails with ``BrokerError/Code/conflict`` and
        /// changes nothing.
        public var expectation: Job.Expectation?
        /// The protocol's word; nil for a `process`, the default.
        package let word: String?
        /// Its further fields, in the form in which they are sent.
        var fields: [MessageField]
        /// Those of the records' type; nil without one.
        var names: Query.Names?

        package init(_ entity: String, op word: String? = nil, _ fields: [MessageField?]) {
            (self.entity, self.word, self.fields) = (entity, word, fields.compactMap(\.self))
        }

        /// An operation of a message.
        package init(_ fields: JSONValue) {
            let others = fields.members.map { key, value in
                MessageField(String(decoding: key.bytes, as: UTF8.self), .json(RawJSON(value.jsonText)))
            }.filter { !["op", "entity"].contains($0.key) }
            self.init(fields["entity"]?.string ?? "", op: fields["op"]?.string, others)
        }
    }
}

extension Job.Operation {
    /// The rule by which a payload's objects are found.
    public struct Reading: Sendable, Equatable {
        let field: MessageField?

        /// The model's mapping of that name.
        public static func mapping(_ name: String) -> Reading { Reading(field: .init("mapping", .text(name))) }

        /// The model's routes for the path that the payload came from, such as `/articles/5`.
        public static func path(_ path: String) -> Reading { Reading(field: .init("path", .text(path))) }

        /// The model's routes by key paths alone.
        public static let keyPaths = Reading(field: nil)
    }

    /// A change that a sync may make.
    public struct SyncAction: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Objects are made for records without one.
        public static let insert = SyncAction(rawValue: "insert")
        /// Objects are changed to what their records say.
        public static let update = SyncAction(rawValue: "update")
        /// Objects without a record are deleted.
        public static let delete = SyncAction(rawValue: "delete")

        package static let known: [Self] = [.insert, .update, .delete]
    }

    /// One of several jobs, over any connections, that do one sync: the last one deletes what none of them named.
    ///
    /// A part that fails has named nothing, so do not send the last one before all others are committed.
    public struct SyncPart: Sendable, Equatable {
        /// The whole sync's, 1 to 128 bytes; free again after the last part.
        public var id: String
        /// The part deletes what no part named.
        public var isLast: Bool

        /// - Parameter id: 1 to 128 bytes, the same in all parts.
        public init(id: String, isLast: Bool) {
            self.id = id
            self.isLast = isLast
        }
    }
}

extension Job {
    /// The ``features`` that it uses.
    package var usedFeatures: [String] {
        func uses(_ keys: Set<String>) -> Bool { operations.contains { $0.fields.contains { keys.contains($0.key) } } }
        var features: [String] = []
        if operations.contains(where: { $0.expectation != nil }) { features.append("expect") }
        if uses(["increment", "append"]) { features.append("adjust") }
        if uses(["links"]) { features.append("links") }
        if names == .model || operations.contains(where: { $0.names == .model }) { features.append("names") }
        if isDryRun { features.append("dryRun") }
        if maximumDeletions != nil { features.append("maximumDeletions") }
        if bookmark != nil { features.append("bookmark") }
        return features
    }
}

extension Set<Job.Operation.SyncAction> {
    /// Insert, update and delete.
    public static var all: Self { [.insert, .update, .delete] }
}

/// The id of a job: 1 to 128 bytes, chosen by its sender. A job is applied exactly once under one id.
///
/// Ids are compared byte by byte, as the server does, so that two ids that differ in Unicode form only are two ids.
/// (`String` compares canonical forms.)
public struct JobID: Sendable, Hashable, CustomStringConvertible, ExpressibleByStringInterpolation {
    /// Bytes that an id may have.
    public static let byteCounts = 1...128
    /// The prefix of ids that the server makes. A client's id may not have it, or one job could be mistaken for another.
    package static let reservedPrefix = "broker-"

    /// The id, as it is sent.
    public let text: String

    /// - Parameter text: 1 to 128 bytes; otherwise the call that sends it throws ``BrokerError/Code/invalidID``.
    public init(_ text: String) { self.text = text }

    public init(stringLiteral text: String) { self.text = text }

    public static func == (one: JobID, other: JobID) -> Bool {
        var (one, other) = (one.text, other.text)
        return one.withUTF8 { one in other.withUTF8 { one.elementsEqual($0) } }
    }

    public func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    public var description: String { text }

    /// - Throws: ``BrokerError/Code/invalidID``
    package func checked() throws(BrokerError) -> JobID {
        guard Self.byteCounts.contains(text.utf8.count) else { throw .invalidID(self) }
        return self
    }
}

extension Job.Operation {
    /// Finds or creates objects of `entity` from a record or an array of records.
    ///
    /// - Parameters:
    ///   - records: see ``RawJSON/init(encoding:nulls:)``.
    ///   - nulls: what a member that is nil does: by default nothing, so that the column stays as it is.
    /// - Throws: ``BrokerError/Code/notEncodable``, also for a `String`, for `Data` and for bytes: as values they are no records, so they
    ///   are JSON text whose label is missing. All functions here throw that.
    public static func process(
        _ records: some Encodable, as entity: String, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        process(json: try encoded(records, nulls), as: entity)
    }

    /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
    public static func process(json: some JSONTextSource, as entity: String) -> Self {
        Self(entity, [.init("json", .json(json.makeJSON()))])
    }

    /// Fills one object, which must exist. A record that has another identity renames it, and what refers to it
    /// follows.
    ///
    /// - Parameters:
    ///   - key: the value of the object's identity, or a value with a member for each of its attributes, or its `_pk`; see
    ///     ``RawJSON/init(value:)``.
    ///   - record: see ``RawJSON/init(encoding:nulls:)``.
    public static func update(
        _ entity: String, key: some Encodable, with record: some Encodable, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try update(entity, key: key, json: try encoded(record, nulls))
    }

    /// Fills one object, which must exist, from JSON text; else as `update(_:key:with:nulls:)`.
    public static func update(
        _ entity: String, key: some Encodable, json: some JSONTextSource
    ) throws(BrokerError) -> Self {
        Self(entity, [.object(try RawJSON(value: key)), .init("json", .json(json.makeJSON()))])
    }

    /// Gives a relationship of one object, which must exist, the value that a record would have there. The model says what
    /// happens when an object of a key does not exist.
    ///
    /// - Parameters:
    ///   - key: the object's, as in `update(_:key:with:nulls:)`.
    ///   - value: an object or several, or bare keys, as in ``RawJSON/init(value:)``; a `String` is a key. Nil ends the link, or
    ///     all links of a to-many.
    public static func set(
        _ relationship: String, of entity: String, key: some Encodable, to value: some Encodable
    ) throws(BrokerError) -> Self {
        try set(relationship, of: entity, key: key, json: try RawJSON(value: value))
    }

    /// Ends the link of a relationship of one object, or all links of a to-many; else as `set(_:of:key:to:)`.
    public static func set(
        _ relationship: String, of entity: String, key: some Encodable, to nothing: RawJSON?
    ) throws(BrokerError) -> Self {
        try set(relationship, of: entity, key: key, json: nothing ?? RawJSON("null"))
    }

    /// Gives a relationship of one object, which must exist, a value from JSON text, such as `null`; else as
    /// `set(_:of:key:to:)`.
    public static func set(
        _ relationship: String, of entity: String, key: some Encodable, json: some JSONTextSource
    ) throws(BrokerError) -> Self {
        Self(
            entity, op: "relate",
            [
                .object(try RawJSON(value: key)), .init("relationship", .text(relationship)),
                .init("json", .json(json.makeJSON())),
            ])
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all without one) and that the
    /// records did not name, at any depth.
    ///
    /// - Parameters:
    ///   - records: an array; see ``RawJSON/init(encoding:nulls:)``.
    ///   - part: for a sync that does not fit one job.
    public static func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<SyncAction> = .all, part: SyncPart? = nil, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        sync(json: try encoded(records, nulls), as: entity, where: predicate, actions: actions, part: part)
    }

    /// A sync from JSON text, an array; else as ``sync(_:as:where:actions:part:nulls:)``.
    public static func sync(
        json: some JSONTextSource, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<SyncAction> = .all, part: SyncPart? = nil
    ) -> Self {
        let words = SyncAction.known.filter(actions.contains) + actions.subtracting(SyncAction.known)
        return Self(
            entity, op: "sync",
            [
                predicate.map(MessageField.init),
                actions == .all ? nil : .init("actions", .texts(words.map(\.rawValue))),
                part.map { .init("part", .members([.init("id", .text($0.id)), .init("last", .bool($0.isLast))])) },
                .init("json", .json(json.makeJSON())),
            ])
    }

    /// Reads a whole payload, as it came from its server.
    ///
    /// - Parameters:
    ///   - payload: see ``RawJSON/init(encoding:nulls:)``.
    ///   - reading: how the objects in it are found.
    public static func processPayload(
        _ payload: some Encodable, by reading: Reading = .keyPaths
    ) throws(BrokerError) -> Self {
        processPayload(json: try encoded(payload, .omitted), by: reading)
    }

    /// Reads a whole payload, from JSON text.
    public static func processPayload(json: some JSONTextSource, by reading: Reading = .keyPaths) -> Self {
        Self("", op: "map", [reading.field, .init("json", .json(json.makeJSON()))])
    }

    /// Deletes objects by their keys, as in `update(_:key:with:nulls:)`. Keys that name nothing are counted in a
    /// warning.
    public static func delete(_ entity: String, keys: [some Encodable]) throws(BrokerError) -> Self {
        Self(entity, op: "delete", [.init("objects", .json(try RawJSON(value: keys)))])
    }

    /// Deletes the objects that match.
    public static func delete(_ entity: String, where predicate: BrokerPredicate) -> Self {
        Self(entity, op: "delete", [MessageField(predicate)])
    }

    private static func encoded(
        _ value: some Encodable, _ nulls: RawJSON.Nulls
    ) throws(BrokerError) -> RawJSON {
        let type: Any.Type = type(of: value)
        if type == String.self || type == Data.self || type == [UInt8].self {
            throw .notEncodable("\(type) is no record; JSON text has the label `json:`")
        }
        return try RawJSON(encoding: value, nulls: nulls)
    }
}

/// A relationship of a record or of a fetched object: the key of an object, or the object itself.
///
/// A fetch gives an object where `include` names the relationship, and else the key. A record may have either.
///
/// ```swift
/// struct Employee: Codable {
///     var id: Int
///     var department: Link<Int, Department>?  // to-one
///     var projects: [Link<String, Project>]?  // to-many
/// }
/// let ada = Employee(id: 1, department: .key(7))
/// let grace = Employee(id: 2, department: .object(Department(id: 8, name: "R&D")))
/// ```
///
/// Where the identity has several attributes, `Key` is a struct with a member for each. JSON that is an object is then read as a
/// `Value` if it can be, and else as a `Key`; so `Value` needs a member that is not optional and that the key lacks.
public struct Link<Key, Value> {
    /// The key; nil when the object itself is here.
    public let key: Key?
    /// The object; nil when only its key is here.
    public let object: Value?

    /// A link to an object by its key.
    public static func key(_ key: Key) -> Link { Link(key: key, object: nil) }

    /// A link to an object that is here itself.
    public static func object(_ object: Value) -> Link { Link(key: nil, object: object) }
}

extension Link: Sendable where Key: Sendable, Value: Sendable {}
extension Link: Equatable where Key: Equatable, Value: Equatable {}
extension Link: Hashable where Key: Hashable, Value: Hashable {}

extension Link: Encodable where Key: Encodable, Value: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let object { try container.encode(object) } else { try container.encode(key) }
    }
}

extension Link: Decodable where Key: Decodable, Value: Decodable {
    private struct AnyKey: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard (try? decoder.container(keyedBy: AnyKey.self)) != nil else {
            self = .key(try container.decode(Key.self))
            return
        }
        do {
            self = .object(try container.decode(Value.self))
        } catch {
            // The fault of the object says more, unless it is a key.
            guard let key = try? container.decode(Key.self) else { throw error }
            self = .key(key)
        }
    }
}
