/// A condition on the objects of an entity, in the protocol's subset of NSPredicate's language. The server checks it.
///
/// ```swift
/// let predicate: BrokerPredicate = "department.name == \(name) AND age IN \([30, 40])"
/// ```
///
/// `"ANY employees.age > \(30)"`, `"ALL …"`, `"NONE …"` and `"employees.@count > \(3)"` ask for the objects of a to-many
/// relationship.
///
/// An interpolated value is bound and never becomes a part of the text: text is text, dates are compared as dates, an
/// array is for `IN`, nil is null. A name that is only known at run time is interpolated as `\(key: name)`.
public struct BrokerPredicate: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// With `%@` for each value, and `%K` for each name.
    public var format: String
    /// The values of `%@` and the names of `%K`, in their order.
    public var arguments: [RawJSON]
    /// An interpolated value that cannot be encoded; thrown when the predicate is sent.
    private(set) var fault: BrokerError?

    /// All objects.
    public static let all = BrokerPredicate("TRUEPREDICATE", arguments: [])

    public init(_ format: String) {
        self.format = format
        arguments = []
    }

    package init(_ format: String, arguments: [RawJSON]) {
        self.format = format
        self.arguments = arguments
    }

    public init(stringLiteral format: String) { self.init(format) }

    public init(stringInterpolation: StringInterpolation) { self = stringInterpolation.predicate }

    /// For a format that is not known when the program is written.
    ///
    /// - Parameter arguments: values as ``RawJSON/init(value:)`` takes them.
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(_ format: String, _ arguments: (any Encodable)?...) throws(BrokerError) {
        try self.init(format, values: arguments)
    }

    /// - Parameter values: as ``RawJSON/init(value:)`` takes them.
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(_ format: String, values: [(any Encodable)?]) throws(BrokerError) {
        self.init(format)
        for value in values { try bind(value) }
    }

    public static func == (one: BrokerPredicate, other: BrokerPredicate) -> Bool {
        one.format == other.format && one.arguments == other.arguments && one.fault == other.fault
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(format)
        hasher.combine(arguments)
    }

    private mutating func bind(_ value: (any Encodable)?) throws(BrokerError) {
        guard let value else { return arguments.append(RawJSON("null")) }
        arguments.append(try RawJSON(value: value))
    }

    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var predicate = BrokerPredicate("")

        public init(literalCapacity: Int, interpolationCount: Int) {
            predicate.format.reserveCapacity(literalCapacity + 2 * interpolationCount)
            predicate.arguments.reserveCapacity(interpolationCount)
        }

        public mutating func appendLiteral(_ text: String) { predicate.format += text }

        /// Binds a value.
        public mutating func appendInterpolation(_ value: (some Encodable)?) {
            predicate.format += "%@"
            do throws(BrokerError) {
                try predicate.bind(value)
            } catch {
                predicate.fault = predicate.fault ?? error
            }
        }

        /// Binds the name of an attribute or a relationship, or a key path of them.
        public mutating func appendInterpolation(key: String) {
            predicate.format += "%K"
            predicate.arguments.append(RawJSON(string: key))
        }
    }
}

extension BrokerPredicate {
    /// The maximum bytes of a predicate's text.
    private static let longest = 1 << 20

    /// Finds what is wrong with a predicate whatever the model is, so that it need not be sent. A server finds the rest.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable`` of an interpolated value, or ``BrokerError/Code/invalidPredicate``.
    package func check() throws(BrokerError) {
        if let fault { throw fault }
        if format.utf8.count > Self.longest {
            throw Self.invalid(
                "The predicate has \(format.utf8.count) bytes, and \(Self.longest) are allowed. Put long lists into the arguments."
            )
        }
        let wanted = try placeholderCount()
        guard wanted == arguments.count else {
            throw Self.invalid(
                "The predicate asks for \(wanted) argument\(wanted == 1 ? "" : "s") (one for each %@ and %K), "
                    + "and it has \(arguments.count).")
        }
    }

    /// How many `%@` and `%K` there are outside of strings.
    private func placeholderCount() throws(BrokerError) -> Int {
        var count = 0
        var isEmpty = true
        var quote: UInt8?
        var quoteColumn = 0
        var column = 0
        var bytes = format.utf8.makeIterator()
        while let byte = bytes.next() {
            if byte & 0xC0 != 0x80 { column += 1 }
            if byte != UInt8(ascii: " "), !(0x09...0x0D).contains(byte) { isEmpty = false }
            switch (quote, byte) {
            case (.some, UInt8(ascii: "\\")):
                if bytes.next() != nil { column += 1 }
            case (let open?, byte) where open == byte: quote = nil
            case (nil, UInt8(ascii: "'")), (nil, UInt8(ascii: "\"")):
                quote = byte
                quoteColumn = column
            case (nil, UInt8(ascii: "%")):
                let next = bytes.next()
                guard next == UInt8(ascii: "@") || next == UInt8(ascii: "K") else {
                    throw Self.invalid(
                        "Column \(column) of the predicate: only %@ (for a value) and %K (for a name) are filled from the "
                            + "arguments, whatever the value's type.")
                }
                column += 1
                count += 1
            default: break
            }
        }
        if isEmpty { throw Self.invalid("The predicate is empty; TRUEPREDICATE matches all objects.") }
        if quote != nil {
            throw Self.invalid("Column \(quoteColumn) of the predicate: the string that begins here has no end.")
        }
        return count
    }

    private static func invalid(_ message: String) -> BrokerError {
        BrokerError(.invalidPredicate, "\(message) Nothing was sent.")
    }
}

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

/// The answers to a ``Query``, one after the other. Each iteration asks again.
public struct QueryResults: AsyncSequence, Sendable {
    public typealias Element = QueryResult
    public typealias Next = @Sendable () async throws -> QueryResult?

    let begin: @Sendable () -> Next

    /// - Parameter begin: begins an iteration; its result gives the next answer, and nil after the last.
    public init(_ begin: @escaping @Sendable () -> Next) { self.begin = begin }

    public func makeAsyncIterator() -> Iterator { Iterator(next_: begin()) }

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
