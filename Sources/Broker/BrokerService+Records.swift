// The calls for types that know their entity, each as the one with the same name that takes the entity.
extension BrokerService {
    /// Fetches the first object that matches; nil when there is none.
    ///
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchFirst<Record: BrokerRecord & Decodable>(
        _ type: Record.Type = Record.self, where predicate: BrokerPredicate? = nil, sort: Query.SortKeys = [],
        include: [String] = [], timeout: Duration? = nil
    ) async throws -> Record? {
        try await fetchFirst(
            type, from: Record.entity, where: predicate, sort: sort, include: include, names: Record.names,
            timeout: timeout)
    }

    /// Fetches the object of a key; nil when there is none.
    ///
    /// - Parameter key: the identity's value; where it has several attributes, a value with a member for each.
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchObject<Record: BrokerRecord & Decodable>(
        _ type: Record.Type = Record.self, key: some Encodable, include: [String] = [], timeout: Duration? = nil
    ) async throws -> Record? {
        try await fetchObject(
            type, from: Record.entity, key: key, include: include, names: Record.names, timeout: timeout)
    }

    /// Fetches objects by the texts of their identities, 10,000 unless `limit` says otherwise.
    ///
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchDictionary<Record: BrokerRecord & Decodable>(
        _ type: Record.Type = Record.self, where predicate: BrokerPredicate? = nil, include: [String] = [],
        limit: Int? = nil, timeout: Duration? = nil
    ) async throws -> [String: Record] {
        try await fetchDictionary(
            type, from: Record.entity, where: predicate, include: include, limit: limit, names: Record.names,
            timeout: timeout)
    }

    /// Counts objects.
    ///
    /// - Throws: ``BrokerError``
    public func fetchCount(
        of type: (some BrokerRecord).Type, where predicate: BrokerPredicate? = nil, timeout: Duration? = nil
    ) async throws -> Int {
        try await fetchCount(of: type.entity, where: predicate, timeout: timeout)
    }

    /// The objects, as many as there are, all of one moment, read as they are iterated over.
    ///
    /// - Parameters:
    ///   - sort: what the objects are sorted by; without it, they come in the order of their keys.
    ///   - include: paths of relationships whose objects are nested.
    ///   - offset: objects to skip.
    ///   - limit: objects at most; nil for all.
    ///   - timeout: the maximum time of each `next()` that waits for an answer.
    public func objects<Record: BrokerRecord & Decodable>(
        _ type: Record.Type = Record.self, where predicate: BrokerPredicate? = nil, sort: Query.SortKeys = [],
        include: [String] = [], offset: Int = 0, limit: Int? = nil, timeout: Duration? = nil
    ) -> FetchedValues<Record> {
        objects(
            type, from: Record.entity, where: predicate, sort: sort, include: include, offset: offset, limit: limit,
            names: Record.names, timeout: timeout)
    }

    /// Follows the committed jobs that change objects of the types' entities: see `commits(of:after:reply:)`.
    public func commits(
        of types: [any BrokerRecord.Type], after: Int64? = nil, reply: CommitQuery.Reply = .keys
    ) -> Commits {
        commits(of: types.map { $0.entity }, after: after, reply: reply)
    }

    /// Finds or creates the object of a record, and waits until that is committed.
    ///
    /// A member that is nil is not in the record, so the column stays as it is; see ``Nullable`` and ``RawJSON/Nulls``.
    ///
    /// - Throws: ``BrokerError``
    @discardableResult public func process(
        _ record: some BrokerRecord & Encodable, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) { try .process(record, nulls: nulls) }
    }

    /// Finds or creates the objects of records, and waits until that is committed.
    ///
    /// A member that is nil is not in its record, so the column stays as it is; see ``Nullable`` and ``RawJSON/Nulls``.
    ///
    /// - Throws: ``BrokerError``
    @discardableResult public func process<Record: BrokerRecord>(
        _ records: some Sequence<Record> & Encodable, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) { try .process(records, nulls: nulls) }
    }

    /// Fills one object, which must exist, from a record or a part of one. A record that has another identity renames it.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` when there is no such object.
    @discardableResult public func update(
        _ type: (some BrokerRecord).Type, key: some Encodable, with record: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            try .update(type, key: key, with: record, nulls: nulls)
        }
    }

    /// Gives a relationship of one object, which must exist, what a record would have there.
    ///
    /// - Parameter value: an object or several, or bare keys. A `String` is a key.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` or ``BrokerError/Code/unknownRelationship``.
    @discardableResult public func set(
        _ relationship: String, of type: (some BrokerRecord).Type, key: some Encodable, to value: some Encodable,
        id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            try .set(relationship, of: type, key: key, to: value)
        }
    }

    /// Ends the link of a relationship of one object, or all links of a to-many.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` or ``BrokerError/Code/unknownRelationship``.
    @discardableResult public func set(
        _ relationship: String, of type: (some BrokerRecord).Type, key: some Encodable, to nothing: RawJSON?,
        id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            try .set(relationship, of: type, key: key, to: nothing)
        }
    }

    /// Processes records, then deletes the objects of their entity that match the predicate (all of them without one) and
    /// that the records did not name, at any depth. If a record was rejected, nothing is deleted, and a warning reports that.
    ///
    /// - Throws: ``BrokerError``
    @discardableResult public func sync<Record: BrokerRecord>(
        _ records: some Sequence<Record> & Encodable, where predicate: BrokerPredicate? = nil,
        actions: Set<Job.Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            try .sync(records, where: predicate, actions: actions, nulls: nulls)
        }
    }

    /// Deletes objects by their keys, and further objects by the delete rules of their relationships. Keys without an
    /// object are counted in a warning.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ type: (some BrokerRecord).Type, keys: [some Encodable], id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await delete(type.entity, keys: keys, id: id, onInvalid: onInvalid, reply: reply, timeout: timeout)
    }

    /// Deletes the objects that match, and further objects by the delete rules of their relationships.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ type: (some BrokerRecord).Type, where predicate: BrokerPredicate, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await delete(type.entity, where: predicate, id: id, onInvalid: onInvalid, reply: reply, timeout: timeout)
    }
}
