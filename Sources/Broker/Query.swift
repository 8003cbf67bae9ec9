/// Which objects to fetch, and the form of the answer.
public struct Query: Sendable, Hashable {
    /// Which names and formats the objects have.
    public struct Names: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Those that records have when they are processed.
        public static let remote = Names(rawValue: "remote")
        /// The model's own; dates are in ISO 8601.
        public static let local = Names(rawValue: "local")
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

    public var entity: String
    /// A predicate that the objects match; nil for all.
    public var predicate: BrokerPredicate?
    /// The key of the one requested object.
    public var object: RawJSON?
    /// The key after which the objects come, in the order of their keys: ``QueryResult/last`` of the page before. Not with
    /// ``sort``.
    public var after: RawJSON?
    /// Attributes to sort by, or key paths to them; with `-` before them in descending order.
    public var sort: [String] = []
    /// The maximum number of objects; nil for all of ``BrokerProtocol/results(of:)``, and for 10,000 of
    /// ``BrokerProtocol/fetch(_:)``, where it is 100,000 at most. ``Form/count`` counts all without it.
    public var limit: Int?
    /// The number of objects to skip.
    public var offset = 0
    /// Paths of relationships whose objects are nested.
    public var include: [String] = []
    /// The only values that the objects have, in this order: attributes, to-one relationships, or key paths to them
    /// (`"department.name"`), each by the name that it has here. Empty for whole objects. Not with ``include``.
    public var select: [String] = []
    public var names = Names.remote
    /// With ``Names/remote``.
    public var dates = Dates.iso8601
    public var form = Form.collection
    /// For servers that share a log: the sequence of a job that another one of them has completed. The answer waits until this
    /// server has applied it, for ten seconds at most, and fails with ``BrokerError/Code/notYet`` then.
    public var afterSequence: Int64?

    public init(_ entity: String, where predicate: BrokerPredicate? = nil) {
        self.entity = entity
        self.predicate = predicate
    }
}

/// The objects of one answer to a ``Query``.
public struct QueryResult: Sendable, Hashable {
    /// An array, an object, null or a number, according to the query.
    public var objects: RawJSON
    /// There are more objects than the answer has.
    public var hasMore: Bool
    /// The key of the last object, for ``Query/after``: nil with ``Query/sort``, and when there are no more.
    public var last: RawJSON?

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
