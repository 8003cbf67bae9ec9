// Jobs of one operation, so that a call can say what it sends: `broker.submit(.sync(staff, as: "Employee"))`. Several operations in one
// job are a ``Job`` of several. The parameters are those of ``Job/Operation`` and of ``Job``.
extension Job {
    /// Finds or creates objects of `entity` from a record or an array of records.
    ///
    /// - Throws: as ``Operation/process(_:as:nulls:)``.
    public static func process(
        _ records: some Encodable, as entity: String, id: JobID? = nil, onInvalid: OnInvalid = .fail,
        unknownKeys: UnknownKeys? = nil, reply: Reply = .summary, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Job {
        Job(
            try .process(records, as: entity, nulls: nulls), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys,
            reply: reply)
    }

    /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
    public static func process(
        json: some JSONTextSource, as entity: String, id: JobID? = nil, onInvalid: OnInvalid = .fail,
        unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) -> Job {
        Job(.process(json: json, as: entity), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply)
    }

    /// Fills one object, which must exist.
    ///
    /// - Throws: as ``Operation/process(_:as:object:nulls:)``.
    public static func process(
        _ record: some Encodable, as entity: String, object key: some Encodable, id: JobID? = nil,
        onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil, reply: Reply = .summary,
        nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Job {
        Job(
            try .process(record, as: entity, object: key, nulls: nulls), id: id, onInvalid: onInvalid,
            unknownKeys: unknownKeys, reply: reply)
    }

    /// Fills one object, which must exist, from JSON text.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable`` of the key.
    public static func process(
        json: some JSONTextSource, as entity: String, object key: some Encodable, id: JobID? = nil,
        onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) throws(BrokerError) -> Job {
        Job(
            try .process(json: json, as: entity, object: key), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys,
            reply: reply)
    }

    /// Gives a relationship of one object, which must exist, what a record would have there.
    ///
    /// - Throws: as ``Operation/relate(_:_:_:to:)``.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, to value: some Encodable, id: JobID? = nil,
        onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) throws(BrokerError) -> Job {
        Job(
            try .relate(entity, key, relationship, to: value), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys,
            reply: reply)
    }

    /// Processes records, then deletes the objects that match the predicate and that the records did not name.
    ///
    /// - Throws: as ``Operation/sync(_:as:where:actions:part:nulls:)``.
    public static func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: OnInvalid = .fail,
        unknownKeys: UnknownKeys? = nil, reply: Reply = .summary, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Job {
        Job(
            try .sync(records, as: entity, where: predicate, actions: actions, nulls: nulls), id: id,
            onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply)
    }

    /// A sync from JSON text, an array.
    public static func sync(
        json: some JSONTextSource, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: OnInvalid = .fail,
        unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) -> Job {
        Job(
            .sync(json: json, as: entity, where: predicate, actions: actions), id: id, onInvalid: onInvalid,
            unknownKeys: unknownKeys,
            reply: reply)
    }

    /// Reads a whole payload that is a value.
    ///
    /// - Throws: as ``Operation/map(_:by:)``.
    public static func map(
        _ payload: some Encodable, by reading: Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) throws(BrokerError) -> Job {
        Job(try .map(payload, by: reading), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply)
    }

    /// Reads a whole payload, from JSON text.
    public static func map(
        json: some JSONTextSource, by reading: Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: OnInvalid = .fail, unknownKeys: UnknownKeys? = nil, reply: Reply = .summary
    ) -> Job {
        Job(.map(json: json, by: reading), id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, reply: reply)
    }

    /// Deletes objects by their keys.
    ///
    /// - Throws: as ``Operation/delete(_:keys:)``.
    public static func delete(
        _ entity: String, keys: [some Encodable], id: JobID? = nil, onInvalid: OnInvalid = .fail,
        reply: Reply = .summary
    ) throws(BrokerError) -> Job {
        Job(try .delete(entity, keys: keys), id: id, onInvalid: onInvalid, reply: reply)
    }

    /// Deletes the objects that match.
    public static func delete(
        _ entity: String, where predicate: BrokerPredicate, id: JobID? = nil, onInvalid: OnInvalid = .fail,
        reply: Reply = .summary
    ) -> Job {
        Job(.delete(entity, where: predicate), id: id, onInvalid: onInvalid, reply: reply)
    }
}
