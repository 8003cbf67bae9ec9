/// The answers to a ``Query``, one after the other. Each iteration asks again.
public struct QueryResults: AsyncSequence, Sendable {
    public typealias Element = QueryResult
    public typealias Next = @Sendable () async throws -> QueryResult?

    private let begin: @Sendable () -> Next

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

extension QueryResults {
    /// The number of objects of one answer.
    private static let objectsPerAnswer = 10_000

    /// The answers of a broker, each asked for when it is wanted.
    package static func pages(
        of query: Query, _ fetch: @escaping @Sendable (Query) async throws -> QueryResult
    ) -> QueryResults {
        QueryResults {
            let pages = Pages(query)
            return { try await pages.next(fetch) }
        }
    }

    private actor Pages {
        private var query: Query
        private var rest: Int
        private var isAtEnd = false

        init(_ query: Query) {
            self.query = query
            rest = query.limit ?? .max
        }

        func next(_ fetch: @Sendable (Query) async throws -> QueryResult) async throws -> QueryResult? {
            guard !isAtEnd, rest > 0 else { return nil }
            query.limit = Swift.min(QueryResults.objectsPerAnswer, rest)
            let result = try await fetch(query)
            let count = try result.decode([RawJSON].self).count
            query.offset += count
            rest -= count
            isAtEnd = !result.hasMore || count == 0
            return result
        }
    }
}
