extension BrokerProtocol {
    /// Fetches the first object that matches as a value; nil when there is none.
    ///
    /// - Parameters:
    ///   - sort: attributes to sort by, or key paths to them; with `-` before them in descending order.
    ///   - include: paths of relationships whose objects are nested.
    ///   - dates: the form of dates; a property of the type `Date` needs ``Query/Dates/iso8601``.
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchFirst<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        sort: [String] = [], include: [String] = [], names: Query.Names = .remote, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> Value? {
        var query = Query(entity, where: predicate)
        query.sort = sort
        query.include = include
        query.names = names
        query.dates = dates
        query.form = .object
        return try await fetch(query, timeout: timeout).decode(Value?.self)
    }

    /// Fetches the object of a key as a value; nil when there is none.
    ///
    /// - Parameter key: the identity's value; where it has several attributes, a value with a member for each.
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchObject<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, key: some Encodable, include: [String] = [],
        names: Query.Names = .remote, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> Value? {
        var query = Query(entity)
        query.object = try RawJSON(value: key)
        query.include = include
        query.names = names
        query.dates = dates
        query.form = .object
        return try await fetch(query, timeout: timeout).decode(Value?.self)
    }

    /// Fetches objects as values by the texts of their identities. One answer's worth: 10,000 objects unless `limit` says
    /// otherwise, 100,000 at most.
    ///
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchDictionary<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        include: [String] = [], limit: Int? = nil, names: Query.Names = .remote, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> [String: Value] {
        var query = Query(entity, where: predicate)
        query.include = include
        query.limit = limit
        query.names = names
        query.dates = dates
        query.form = .dictionary
        return try await fetch(query, timeout: timeout).decode()
    }

    /// Counts objects.
    ///
    /// - Throws: ``BrokerError``
    public func fetchCount(
        of entity: String, where predicate: BrokerPredicate? = nil, timeout: Duration? = nil
    ) async throws -> Int {
        var query = Query(entity, where: predicate)
        query.form = .count
        return try await fetch(query, timeout: timeout).decode()
    }
}

extension BrokerProtocol {
    /// Fetches objects as values, as many as there are, all of one moment.
    ///
    /// ```swift
    /// for try await employee in broker.fetch(Employee.self, from: "Employee", where: "age > \(40)") {
    ///     print(employee)
    /// }
    /// let all = try await broker.fetch(Employee.self, from: "Employee").collect()
    /// ```
    ///
    /// - Parameters:
    ///   - sort: attributes to sort by, or key paths to them; with `-` before them in descending order. Without it objects come
    ///     in the order of their keys.
    ///   - include: paths of relationships whose objects are nested.
    ///   - limit: objects at most; nil for all.
    ///   - dates: the form of dates; a property of the type `Date` needs ``Query/Dates/iso8601``.
    ///   - timeout: the maximum time of each `next()` that waits for an answer.
    public func fetch<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        sort: [String] = [], include: [String] = [], limit: Int? = nil, names: Query.Names = .remote,
        dates: Query.Dates = .iso8601, timeout: Duration? = nil
    ) -> FetchedValues<Value> {
        var query = Query(entity, where: predicate)
        query.sort = sort
        query.include = include
        query.limit = limit
        query.names = names
        query.dates = dates
        return FetchedValues { [query] in results(of: query, timeout: timeout) }
    }
}
