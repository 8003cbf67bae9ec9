/// Operations that take effect together or not at all.
public struct Job: Sendable, Hashable {
    /// In the order in which they take effect; each sees what those before it did.
    public var operations: [Operation]
    /// A job is applied exactly once under one id. Nil: the client makes one.
    public var id: JobID?
    public var onInvalid: OnInvalid
    /// Nil: ``UnknownKeys/fail`` if an operation has records that were encoded from values, because a key that the model does not name
    /// is a member that would be lost; ``UnknownKeys/warn`` if all of them are JSON text.
    public var unknownKeys: UnknownKeys?
    /// The job is tried and undone: it changes nothing, and its id stays free. The completion says what the job would do
    /// to the store as it is; see ``Completion/examples(of:as:)``. A part of a sync cannot be tried.
    public var isDryRun = false
    /// A job that deletes more objects fails with ``BrokerError/Code/tooManyDeletions``. Nil: any number.
    public var maximumDeletions: DeletionLimit?
    /// A text that is stored in the transaction of the job; ``BrokerProtocol/bookmark(named:)`` returns it.
    public var bookmark: Bookmark?
    public var reply: Reply
    /// The form of dates in the objects of ``Reply/objects``.
    public var dates = Query.Dates.iso8601
    /// Trailing commas are accepted in the job's JSON texts.
    public var isLenient: Bool
    /// The W3C `traceparent` of the span that sends the job. The server logs it; it is no part of the job's content, so a
    /// job that is sent again under its id may have another one.
    public var trace: String?

    public init(
        _ operations: [Operation], id: JobID? = nil, onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil,
        reply: Reply = .summary, isLenient: Bool = false
    ) {
        self.operations = operations
        self.id = id
        self.onInvalid = onInvalid
        self.unknownKeys = unknownKeys
        self.reply = reply
        self.isLenient = isLenient
    }

    /// One operation.
    public init(
        _ operation: Operation, id: JobID? = nil, onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil,
        reply: Reply = .summary, isLenient: Bool = false
    ) {
        self.init(
            [operation], id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply, isLenient: isLenient)
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
    }

    /// The number of objects that a job may delete. Objects that a delete rule deletes count; an object that the job
    /// deletes and makes again does not.
    public enum DeletionLimit: Sendable, Hashable {
        /// The number for all entities together.
        case objects(Int)
        /// The part of the objects that an entity, with its subentities, had before the job, for each entity: 0 to 100,
        /// to three digits after the point.
        case percent(Double)
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
        /// Also the keys of the objects that were changed: ``Completion/keys(of:as:)``.
        public static let keys = Reply(rawValue: "keys")
        /// Also the objects of the job's own records: ``Completion/objects(ofOperation:as:)``.
        public static let objects = Reply(rawValue: "objects")
    }
}
