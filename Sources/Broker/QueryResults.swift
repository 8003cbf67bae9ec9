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
