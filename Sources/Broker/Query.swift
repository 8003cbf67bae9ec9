package import BrokerJSON

/// Which objects to fetch, and the form of the answer.
public struct Query: Sendable, Equatable {
    /// The names of members in records and in fetched objects. Predicates, ``sortKeys``, ``includedPaths`` and errors always name
    /// attributes and relationships as the model does, so with ``model`` all of them are the same words.
    public struct Names: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// The keys of payloads: `hired_at`, where an attribute `hiredAt` of the model has that `key`.
        public static let payload = Names(rawValue: "remote")
        /// The model's own names. Fetched dates are in ISO 8601.
        public static let model = Names(rawValue: "local")
    }

    /// What objects are sorted by: `"-createdAt"`, or several, `["department.name", "-age"]`.
    public struct SortKeys: Sendable, Equatable, ExpressibleByArrayLiteral, ExpressibleByStringInterpolation {
        /// Attributes, or key paths to them; with `-` before them in descending order.
        public var keys: [String]

        /// - Parameter keys: attributes, the most important first.
        public init(_ keys: [String]) { self.keys = keys }

        public init(arrayLiteral keys: String...) { self.init(keys) }

        public init(stringLiteral key: String) { self.init([key]) }
    }

    /// The form of dates.
    public struct Dates: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Text in the attribute's first format in the model, or a number if that is `UnixTime`; without a format, ISO 8601. What is
        /// fetched so and processed again changes nothing.
        public static let model = Dates(rawValue: "model")
        /// Text in ISO 8601, whatever formats the model has: it is decoded as a `Date`.
        public static let iso8601 = Dates(rawValue: "iso8601")
    }

    /// The form in which the objects come.
    public struct Form: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// An array.
        public static let collection = Form(rawValue: "collection")
        /// The first one, or null.
        public static let object = Form(rawValue: "object")
        /// An object by the text of the identity, several attributes joined by commas.
        public static let dictionary = Form(rawValue: "dictionary")
        /// The number of objects.
        public static let count = Form(rawValue: "count")
    }

    /// The entity of the objects, with its subentities.
    public var entity: String
    /// A predicate that the objects match; nil for all.
    public var predicate: BrokerPredicate?
    /// The key of the one requested object.
    public var key: RawJSON?
    /// The position after which the objects come: ``QueryResult/last`` of the page before, with the same ``sortKeys``. A key; with
    /// ``sortKeys`` an array of their values and the key.
    public var afterKey: RawJSON?
    /// Attributes to sort by, or key paths to them; with `-` before them in descending order.
    public var sortKeys: [String]
    /// The number of objects to skip.
    public var offset: Int
    /// The maximum number of objects; nil for all of ``BrokerService/results(of:)``, and for 10,000 of
    /// ``BrokerService/fetch(_:)``, where it is 100,000 at most. ``Form/count`` counts all without it.
    public var limit: Int?
    /// Paths of relationships whose objects are nested.
    public var includedPaths: [String]
    /// The only values that the objects have, in this order: attributes, to-one relationships, or key paths to them
    /// (`"department.name"`), each by the name that it has here. Empty for whole objects. Not with ``includedPaths``.
    public var selectedPaths: [String]
    /// The names of the members of the objects.
    public var names: Names
    /// With ``Names/payload``.
    public var dates: Dates
    /// The form in which the objects come.
    public var resultForm: Form
    /// For servers that share a log: the sequence of a job that another one of them has completed. The answer waits until this
    /// server has applied it, for ten seconds at most, and fails with ``BrokerError/Code/notYet`` then.
    public var minimumSequence: Int64?
    /// Each object has a member `_version`, for ``Job/Expectation/version(_:)``. Not with ``selectedPaths``.
    public var hasVersions: Bool

    /// The parameters are the properties of the query. Nothing is checked before it is sent.
    public init(
        _ entity: String, where predicate: BrokerPredicate? = nil, key: RawJSON? = nil, afterKey: RawJSON? = nil,
        sort: SortKeys = [], offset: Int = 0, limit: Int? = nil, include: [String] = [], select: [String] = [],
        names: Names = .payload, dates: Dates = .iso8601, form: Form = .collection, minimumSequence: Int64? = nil,
        hasVersions: Bool = false
    ) {
        self.entity = entity
        self.predicate = predicate
        self.key = key
        self.afterKey = afterKey
        sortKeys = sort.keys
        self.offset = offset
        self.limit = limit
        includedPaths = include
        selectedPaths = select
        self.names = names
        self.dates = dates
        resultForm = form
        self.minimumSequence = minimumSequence
        self.hasVersions = hasVersions
    }
}

/// The objects of one answer to a ``Query``.
public struct QueryResult: Sendable, Equatable {
    /// An array, an object, null or a number, according to the query.
    public var objects: RawJSON
    /// There are more objects than the answer has.
    public var hasMore: Bool
    /// The position of the last object, for ``Query/afterKey``; nil when there are no more.
    public var last: RawJSON?

    /// A result, for doubles of a broker.
    public init(objects: RawJSON, hasMore: Bool = false, last: RawJSON? = nil) {
        self.objects = objects
        self.hasMore = hasMore
        self.last = last
    }

    /// The values that the objects describe; see ``RawJSON/decode(_:)``. A `Date` is in ISO 8601: see ``Query/dates``.
    ///
    /// - Throws: `DecodingError`. It is thrown for a number with more digits than a `Decimal` holds; a property of the type
    ///   ``RawJSON`` has all digits.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try objects.decode(type)
    }
}

/// The answers to a ``Query``, one after the other. Each iteration asks again.
public struct QueryResults: AsyncSequence, Sendable {
    public typealias Element = QueryResult
    /// Gives the next answer; nil after the last.
    public typealias Next = @Sendable () async throws -> QueryResult?

    let begin: @Sendable () -> Next

    /// - Parameter begin: begins an iteration; its result gives the next answer, and nil after the last.
    public init(_ begin: @escaping @Sendable () -> Next) { self.begin = begin }

    public func makeAsyncIterator() -> Iterator { Iterator(next_: begin()) }

    /// Asks for one answer after the other. One task at a time may use it.
    public struct Iterator: AsyncIteratorProtocol {
        let next_: Next

        public mutating func next() async throws -> QueryResult? { try await next_() }
    }
}

/// The objects that match a ``Query`` as values, read as they are iterated over. Each iteration asks again.
public struct FetchedValues<Value: Decodable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value

    private let results: @Sendable () throws -> QueryResults

    init(_ results: @escaping @Sendable () throws -> QueryResults) { self.results = results }

    /// All of them.
    ///
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func collect() async throws -> [Value] {
        var values: [Value] = []
        for try await result in try results() { values += try result.decode([Value].self) }
        return values
    }

    public func makeAsyncIterator() -> Iterator { Iterator(results: results) }

    /// Decodes the objects of one answer after the other. One task at a time may use it.
    public struct Iterator: AsyncIteratorProtocol {
        private let results: @Sendable () throws -> QueryResults
        private var answers: QueryResults.Iterator?
        private var values: [Value].Iterator = [].makeIterator()

        init(results: @escaping @Sendable () throws -> QueryResults) { self.results = results }

        /// - Throws: ``BrokerError``, or `DecodingError`.
        public mutating func next() async throws -> Value? {
            while true {
                if let value = values.next() { return value }
                var answers = try self.answers ?? results().makeAsyncIterator()
                guard let answer = try await answers.next() else { return nil }
                self.answers = answers
                values = try answer.decode([Value].self).makeIterator()
            }
        }
    }
}

extension Query {
    /// Writes the members of the message.
    ///
    /// - Parameter isStreamed: the objects come in several answers.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when an argument or a key is not exactly one JSON value.
    package func write(isStreamed: Bool = false, to writer: inout JSONWriter) throws(BrokerError) {
        writer.member("entity", entity)
        if let predicate { try writer.member(predicate, in: JSONPlace()) }
        if let key { try writer.member("object", key, in: JSONPlace()) }
        if let afterKey { try writer.member("after", afterKey, in: JSONPlace()) }
        for (key, texts) in [("sort", sortKeys), ("include", includedPaths), ("select", selectedPaths)]
        where !texts.isEmpty {
            writer.words(key, texts)
        }
        if let limit { writer.member("limit", limit) }
        if offset != 0 { writer.member("offset", offset) }
        if names != .payload { writer.member("names", names.rawValue) }
        if dates != .model, names == .payload { writer.member("dates", dates.rawValue) }
        if resultForm != .collection { writer.member("result", resultForm.rawValue) }
        if isStreamed { writer.member("stream", true) }
        if hasVersions { writer.member("versions", true) }
        if let minimumSequence { writer.member("afterSequence", minimumSequence) }
    }
}

/// A committed job that changed objects of the entities that are followed: an element of ``Commits``.
public struct Commit: Sendable, Equatable {
    /// The job's position in the total order of jobs. Stored with what was applied, it is where a follower goes on.
    public var sequence: Int64
    /// Nil when another user sent the job, and where ``changes`` is empty.
    public var id: JobID?
    /// The objects that the job inserted, updated and deleted, by entity. Empty where nothing is to be done: all jobs up to
    /// ``sequence`` were delivered, or concern other entities.
    public var changes: [String: Completion.Changes]
    /// The keys of these objects by entity and change, with ``CommitQuery/Reply/keys``; see `keys(of:as:)`.
    public var keys: RawJSON?

    /// A commit, for doubles of a broker.
    public init(
        sequence: Int64, id: JobID? = nil, changes: [String: Completion.Changes] = [:], keys: RawJSON? = nil
    ) {
        self.sequence = sequence
        self.id = id
        self.changes = changes
        self.keys = keys
    }

    /// The keys of one entity's objects; empty when the job changed none.
    ///
    /// - Parameter type: the type of a key: that of the identity's attribute, or a struct with a member for each attribute.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/notReturned`` when the job changed such objects and the commit has no keys:
    ///   they were not asked for, are too large, or are no longer stored. Fetch the entity's objects again. `DecodingError` when
    ///   a key is no such value.
    public func keys<Key: Decodable>(of entity: String, as type: Key.Type = Key.self) throws -> Completion.Keys<Key> {
        guard changes[entity] != nil else { return Completion.Keys() }
        guard let keys else {
            throw BrokerError(
                .notReturned,
                "The commit \(sequence) has no keys: they were not asked for, are too large, or are no longer stored. Fetch the "
                    + "objects of \(entity) again.", jobID: id)
        }
        return try keys.keys(of: entity)
    }
}

/// The entities to follow, and from where; see `commits(of:after:reply:)`.
public struct CommitQuery: Sendable, Equatable {
    /// The contents of a ``Commit``.
    public struct Reply: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// The numbers of objects.
        public static let summary = Reply(rawValue: "summary")
        /// Their keys as well.
        public static let keys = Reply(rawValue: "keys")

        package static let known: [Self] = [.summary, .keys]
    }

    /// Each with its subentities; nil for all of the model.
    public var entities: [String]?
    /// The feed begins after the job of this sequence; nil: with the jobs from now on.
    public var after: Int64?
    /// Whether a commit has the keys of its objects.
    public var reply = Reply.keys

    /// Commits with the keys of their objects; see ``reply``.
    public init(of entities: [String]? = nil, after: Int64? = nil) {
        self.entities = entities
        self.after = after
    }
}

/// The committed jobs that change some entities, in the order of the jobs, each once: the feed. Each iteration subscribes again.
///
/// Commits are read as they are iterated over: a slow reader delays no one else.
public struct Commits: AsyncSequence, Sendable {
    public typealias Element = Commit
    /// Gives the next commit; nil at the end.
    public typealias Next = @Sendable () async throws -> Commit?

    private let begin: @Sendable () -> Next

    /// - Parameter begin: begins an iteration; its result gives the next commit, and nil at the end.
    public init(_ begin: @escaping @Sendable () -> Next) { self.begin = begin }

    public func makeAsyncIterator() -> Iterator { Iterator(next_: begin()) }

    /// Waits for one commit after the other. One task at a time may use it.
    public struct Iterator: AsyncIteratorProtocol {
        let next_: Next

        /// - Returns: nil when the client was closed or shut down, or the embedded broker stopped.
        /// - Throws: ``BrokerError``; with ``BrokerError/Code/gone`` when the next commit is no longer known.
        public mutating func next() async throws -> Commit? { try await next_() }
    }
}

extension CommitQuery {
    /// Names of one subscription: a model has no more entities.
    package static let maximumEntities = 5_000

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        if let entities { writer.words("entities", entities) }
        if let after { writer.member("after", after) }
        if reply != .summary { writer.member("reply", reply.rawValue) }
    }
}
