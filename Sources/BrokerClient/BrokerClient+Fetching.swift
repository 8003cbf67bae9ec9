internal import BrokerWire

extension BrokerClient {
    /// Fetches objects as JSON. Jobs that were sent before on this client are seen.
    ///
    /// - Throws: `refused` with the code of what was wrong, or another ``BrokerError``.
    public func fetch(_ fetch: Fetch) async throws -> Fetched {
        let members = try fetch.members()
        let answer = try await request { ClientMessageWriter.fetch(members: members, tag: $0) }
        guard case .objects(let json, let hasMore) = answer.message else { throw unexpected(answer, to: "fetch") }
        return Fetched(objects: JSON(json), hasMore: hasMore)
    }

    /// Fetches objects as values: `fetch("Employee", where: "department.name == %@", "R&D")`.
    ///
    /// More than the server gives at once are fetched one part after the other; what is changed between two parts may be
    /// missing or come twice, unless the objects are sorted by what does not change.
    ///
    /// - Parameters:
    ///   - predicate: with `%@` for each of the arguments; nil for all objects.
    ///   - limit: objects at most; nil for all.
    /// - Throws: `refused` with the code of what was wrong, another ``BrokerError``, or `DecodingError`.
    public func fetch<Value: Decodable>(
        _ entity: String, where predicate: String? = nil, _ arguments: (any Encodable)?..., sort: [String] = [],
        include: [String] = [], limit: Int? = nil, names: Fetch.Names = .remote, as type: Value.Type = Value.self
    ) async throws -> [Value] {
        var part = Fetch(entity, where: try Self.predicate(predicate, arguments))
        part.sort = sort
        part.include = include
        part.names = names
        var values: [Value] = []
        while true {
            part.offset = values.count
            part.limit = min(Self.objectsPerFetch, (limit ?? .max) - values.count)
            let found = try await fetch(part)
            let more: [Value] = try found.decode()
            values += more
            guard found.hasMore, !more.isEmpty, values.count < limit ?? .max else { return values }
        }
    }

    /// Fetches the first object that matches as a value; nil when there is none.
    ///
    /// - Throws: as ``fetch(_:where:_:sort:include:limit:names:as:)``.
    public func fetchObject<Value: Decodable>(
        _ entity: String, where predicate: String? = nil, _ arguments: (any Encodable)?..., sort: [String] = [],
        include: [String] = [], names: Fetch.Names = .remote, as type: Value.Type = Value.self
    ) async throws -> Value? {
        var one = Fetch(entity, where: try Self.predicate(predicate, arguments))
        one.sort = sort
        one.include = include
        one.names = names
        one.result = .object
        return try await fetch(one).decode(Value?.self)
    }

    /// Fetches the object of a key as a value; nil when there is none.
    ///
    /// - Parameter key: the identity's value; where it has several attributes, something that becomes an object of them.
    /// - Throws: as ``fetch(_:where:_:sort:include:limit:names:as:)``.
    public func fetchObject<Value: Decodable>(
        _ entity: String, key: any Encodable, include: [String] = [], names: Fetch.Names = .remote,
        as type: Value.Type = Value.self
    ) async throws -> Value? {
        var one = Fetch(entity)
        one.object = try JSON(value: key)
        one.include = include
        one.names = names
        one.result = .object
        return try await fetch(one).decode(Value?.self)
    }

    /// Fetches objects as values by the texts of their identities. One answer's worth: 10,000 objects unless `limit` says
    /// otherwise, 100,000 at most.
    ///
    /// - Throws: as ``fetch(_:where:_:sort:include:limit:names:as:)``.
    public func fetchDictionary<Value: Decodable>(
        _ entity: String, where predicate: String? = nil, _ arguments: (any Encodable)?..., include: [String] = [],
        limit: Int? = nil, names: Fetch.Names = .remote, as type: Value.Type = Value.self
    ) async throws -> [String: Value] {
        var all = Fetch(entity, where: try Self.predicate(predicate, arguments))
        all.include = include
        all.limit = limit
        all.names = names
        all.result = .dictionary
        return try await fetch(all).decode()
    }

    private static func predicate(
        _ format: String?, _ arguments: [(any Encodable)?]
    ) throws(BrokerError) -> Predicate? {
        guard let format else { return nil }
        return try Predicate(format, values: arguments)
    }

    /// The state of a fetch that is done in parts.
    private static let objectsPerFetch = 10_000
}
