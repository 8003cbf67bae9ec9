// One operation each; several in one job are a ``Job`` of several. `id`, `onInvalid`, `unknownKeys` and `reply` are those of the
// ``Job``; see ``BrokerProtocol`` for `timeout`.
extension BrokerProtocol {
    /// Finds or creates objects of `entity` from a record or an array of records, and waits until that is committed.
    ///
    /// A member that is nil is not in the record, so the column stays as it is; see ``Nullable`` and ``RawJSON/Nulls``.
    ///
    /// - Parameter records: values that can be encoded; see ``RawJSON/init(encoding:nulls:)``.
    /// - Throws: ``BrokerError``
    @discardableResult public func process(
        _ records: some Encodable, as entity: String, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .process(
                records, as: entity, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply, nulls: nulls),
            timeout: timeout)
    }

    /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/invalidJSON`` when the text is not exactly one JSON value.
    @discardableResult public func process(
        json: some JSONTextSource, as entity: String, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .process(json: json, as: entity, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply),
            timeout: timeout)
    }

    /// Fills one object, which must exist, from JSON text; else as
    /// ``process(_:as:object:id:onInvalid:unknownKeys:reply:nulls:timeout:)``.
    @discardableResult public func process(
        json: some JSONTextSource, as entity: String, object key: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .process(
                json: json, as: entity, object: key, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys,
                reply: reply), timeout: timeout)
    }

    /// Fills one object, which must exist. A record that has another identity renames it, and what refers to it follows.
    ///
    /// - Parameter key: the value of the object's identity; of a compound one a value with a member for each of its
    ///   attributes; where objects may lack an identity, the `_pk`.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` when there is no such object.
    @discardableResult public func process(
        _ record: some Encodable, as entity: String, object key: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        nulls: RawJSON.Nulls = .omitted, timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .process(
                record, as: entity, object: key, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply,
                nulls: nulls),
            timeout: timeout)
    }

    /// Gives a relationship of one object, which must exist, what a record would have there.
    ///
    /// ```swift
    /// try await broker.relate("Employee", 3, "department", to: Department(id: 7, name: "R&D"))
    /// try await broker.relate("Employee", 3, "tags", to: ["swift", "sql"])  // keys
    /// ```
    ///
    /// - Parameters:
    ///   - key: the object's, as in ``process(_:as:object:id:onInvalid:unknownKeys:reply:nulls:timeout:)``.
    ///   - value: an object or several, or bare keys; nil ends the link, or all links of a to-many. A `String` is a key.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` or ``BrokerError/Code/unknownRelationship``.
    @discardableResult public func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, to value: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .relate(
                entity, key, relationship, to: value, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys,
                reply: reply), timeout: timeout)
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all of them without one) and
    /// that the records did not name, at any depth. If a record was rejected, nothing is deleted, and a warning reports
    /// that.
    ///
    /// ```swift
    /// try await broker.sync(staff, as: "Employee", where: "department.name == \(name)")
    /// ```
    ///
    /// - Parameters:
    ///   - records: an array of values that can be encoded; see ``RawJSON/init(encoding:nulls:)``.
    ///   - actions: what the sync may do.
    /// - Throws: ``BrokerError``
    @discardableResult public func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Job.Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .sync(
                records, as: entity, where: predicate, actions: actions, id: id, onInvalid: onInvalid,
                unknownKeys: unknownKeys, reply: reply,
                nulls: nulls), timeout: timeout)
    }

    /// A sync from JSON text, an array; else as ``sync(_:as:where:actions:id:onInvalid:unknownKeys:reply:nulls:timeout:)``.
    @discardableResult public func sync(
        json: some JSONTextSource, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Job.Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .sync(
                json: json, as: entity, where: predicate, actions: actions, id: id, onInvalid: onInvalid,
                unknownKeys: unknownKeys, reply: reply),
            timeout: timeout)
    }

    /// Reads a whole payload that is a value; else as ``map(json:by:id:onInvalid:unknownKeys:reply:timeout:)``.
    @discardableResult public func map(
        _ payload: some Encodable, by reading: Job.Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .map(payload, by: reading, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply),
            timeout: timeout)
    }

    /// Reads a whole payload, as its server sent it: by a mapping of the model, by the routes for its resource path, or
    /// by the routes without a path.
    ///
    /// ```swift
    /// try await broker.map(json: payload, by: .path("/articles/5"))
    /// ```
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/unknownMapping``, with ``BrokerError/Code/unmappable`` when no route
    ///   fits, or with ``BrokerError/Code/remoteError`` and the payload's own text when a route says that it is an error.
    @discardableResult public func map(
        json: some JSONTextSource, by reading: Job.Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .map(json: json, by: reading, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply),
            timeout: timeout)
    }

    /// Deletes objects by their keys, and further objects by the delete rules of their relationships. Keys without an
    /// object are counted in a warning.
    ///
    /// - Parameter keys: as in ``process(_:as:object:id:onInvalid:unknownKeys:reply:nulls:timeout:)``.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ entity: String, keys: [some Encodable], id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(.delete(entity, keys: keys, id: id, onInvalid: onInvalid, reply: reply), timeout: timeout)
    }

    /// Deletes the objects that match, and further objects by the delete rules of their relationships.
    ///
    /// ```swift
    /// try await broker.delete("Employee", where: "hiredAt < \(Date(timeIntervalSince1970: 0))")
    /// ```
    ///
    /// - Parameter predicate: ``BrokerPredicate/all`` deletes all.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ entity: String, where predicate: BrokerPredicate, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await process(
            .delete(entity, where: predicate, id: id, onInvalid: onInvalid, reply: reply), timeout: timeout)
    }
}
