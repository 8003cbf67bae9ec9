// One operation each; for several in one job, see ``BrokerClient/process(_:)``.
extension BrokerClient {
    /// Fills one object, which must exist, and waits until that is committed. A record that brings another identity
    /// renames the object, and what refers to it follows.
    ///
    /// Here and below, cancelling is as with ``process(_:as:id:onInvalid:reply:)-(Encodable,_,_,_,_)``.
    ///
    /// - Parameters:
    ///   - record: one value that can be encoded; see ``JSON/init(encoding:)``.
    ///   - key: the value of the object's identity; of a compound one a value with a member for each of its attributes;
    ///     where objects may lack an identity, the `_pk`.
    /// - Throws: `failed` with `objectNotFound`, or another ``BrokerError``.
    public func process(
        _ record: some Encodable, as entity: String, object key: some Encodable, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(operations: [.process(record, as: entity, object: key)], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Fills one object from JSON text; else as ``process(_:as:object:id:onInvalid:reply:)``.
    public func process(
        json: some JSONTextSource, as entity: String, object key: some Encodable, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let operation = try Job.Operation.process(json: json, as: entity, object: key)
        return try await process(Job(operations: [operation], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Gives a relationship of one object, which must exist, what a record would hold there.
    ///
    /// ```swift
    /// try await broker.relate("Employee", 3, "department", to: Department(id: 7, name: "R&D"))
    /// ```
    ///
    /// - Parameters:
    ///   - key: the object's, as in ``process(_:as:object:id:onInvalid:reply:)``.
    ///   - value: an object or several, or bare keys; see ``JSON/init(value:)``. A `String` is a key.
    /// - Throws: `failed` with `objectNotFound` or `unknownRelationship`, or another ``BrokerError``.
    public func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, to value: some Encodable, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(
                operations: [.relate(entity, key, relationship, to: value)], id: id, onInvalid: onInvalid, reply: reply)
        )
    }

    /// Gives a relationship of one object a value from JSON text, such as `null`; else as
    /// ``relate(_:_:_:to:id:onInvalid:reply:)``.
    public func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, json: some JSONTextSource, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let operation = try Job.Operation.relate(entity, key, relationship, json: json)
        return try await process(Job(operations: [operation], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Links one object, which must exist, to the object of another key, or to those of an array of keys; nil ends the
    /// link, or all links of a to-many.
    ///
    /// ```swift
    /// try await broker.relate("Employee", 3, "tags", toKey: ["swift", "sql"])
    /// ```
    public func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, toKey destination: some Encodable,
        id: String? = nil, onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(
                operations: [.relate(entity, key, relationship, toKey: destination)], id: id, onInvalid: onInvalid,
                reply: reply))
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all of them without one) and
    /// that the records did not name, at any depth. If a record was rejected, nothing is deleted, and a warning reports
    /// that.
    ///
    /// ```swift
    /// try await broker.sync(staff, as: "Employee", where: "department.name == %@", "R&D")
    /// ```
    ///
    /// - Parameters:
    ///   - records: an array of values that can be encoded; see ``JSON/init(encoding:)``.
    ///   - format: a predicate; see ``Predicate``.
    ///   - arguments: the values of its `%@`; text is text.
    ///   - actions: what the sync may do.
    public func sync(
        _ records: some Encodable, as entity: String, where format: String? = nil, _ arguments: (any Encodable)?...,
        actions: Set<Job.Operation.SyncAction> = Job.Operation.SyncAction.all, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let predicate = try format.map { try Predicate($0, values: arguments) }
        let sync = try Job.Operation.sync(records, as: entity, where: predicate, actions: actions)
        return try await process(Job(operations: [sync], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// A sync from JSON text, an array; else as ``sync(_:as:where:_:actions:id:onInvalid:reply:)``.
    public func sync(
        json: some JSONTextSource, as entity: String, where format: String? = nil, _ arguments: (any Encodable)?...,
        actions: Set<Job.Operation.SyncAction> = Job.Operation.SyncAction.all, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let predicate = try format.map { try Predicate($0, values: arguments) }
        let sync = Job.Operation.sync(json: json, as: entity, where: predicate, actions: actions)
        return try await process(Job(operations: [sync], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Reads a whole payload, as its server sent it: by a mapping of the model, by the routes for its resource path, or
    /// by the routes without a path.
    ///
    /// ```swift
    /// try await broker.map(json: payload, by: .path("/articles/5"))
    /// ```
    ///
    /// - Parameter payload: a value that can be encoded; see ``JSON/init(encoding:)``.
    /// - Throws: `failed` with `unknownMapping`, `unmappable` when no route fits, or `remoteError` with the payload's own text
    ///   when a route says that it is an error; or another ``BrokerError``.
    public func map(
        _ payload: some Encodable, by reading: Job.Operation.Reading = .keyPaths, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(operations: [.map(payload, by: reading)], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Reads a whole payload from JSON text, as it came from its server; else as ``map(_:by:id:onInvalid:reply:)``.
    public func map(
        json: some JSONTextSource, by reading: Job.Operation.Reading = .keyPaths, id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let operation = Job.Operation.map(json: json, by: reading)
        return try await process(Job(operations: [operation], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Deletes objects by their keys, and further objects by the delete rules of their relationships. Keys without an
    /// object are counted in a warning.
    ///
    /// - Parameter keys: as in ``process(_:as:object:id:onInvalid:reply:)``.
    /// - Throws: `failed` with `constraintViolation` when a `deny` rule prevents the deletion, or another
    ///   ``BrokerError``.
    public func delete(
        _ entity: String, keys: [some Encodable], id: String? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(
            Job(operations: [.delete(entity, keys: keys)], id: id, onInvalid: onInvalid, reply: reply))
    }

    /// Deletes the objects that match, and further objects by the delete rules of their relationships.
    ///
    /// ```swift
    /// try await broker.delete("Employee", where: "hiredAt < %@", Date(timeIntervalSince1970: 0))
    /// ```
    ///
    /// - Parameters:
    ///   - format: a predicate; see ``Predicate``. `TRUEPREDICATE` deletes all.
    ///   - arguments: the values of its `%@`; text is text.
    public func delete(
        _ entity: String, where format: String, _ arguments: (any Encodable)?..., id: String? = nil,
        onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        let delete = Job.Operation.delete(entity, where: try Predicate(format, values: arguments))
        return try await process(Job(operations: [delete], id: id, onInvalid: onInvalid, reply: reply))
    }
}
