extension Job.Operation {
    /// Finds or creates objects of `entity` from a record or an array of records.
    ///
    /// - Parameters:
    ///   - records: see ``RawJSON/init(encoding:nulls:)``.
    ///   - nulls: what a member that is nil does: by default nothing, so that the column stays as it is.
    /// - Throws: ``BrokerError/Code/notEncodable``, also for a `String`: as a value it is no record, so it is JSON text whose label
    ///   is missing. All functions here throw that.
    public static func process(
        _ records: some Encodable, as entity: String, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        process(json: try encoded(records, nulls), as: entity)
    }

    /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
    public static func process(json: some JSONTextSource, as entity: String) -> Self {
        Self(entity: entity, .process(json.makeJSON()))
    }

    /// Fills one object, which must exist. A record that has another identity renames it, and what refers to it
    /// follows.
    ///
    /// - Parameters:
    ///   - record: see ``RawJSON/init(encoding:nulls:)``.
    ///   - key: the value of the object's identity, or a value with a member for each of its attributes, or its `_pk`; see
    ///     ``RawJSON/init(value:)``.
    public static func process(
        _ record: some Encodable, as entity: String, object key: some Encodable, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try process(json: try encoded(record, nulls), as: entity, object: key)
    }

    /// Fills one object, which must exist, from JSON text; else as ``process(_:as:object:nulls:)``.
    public static func process(
        json: some JSONTextSource, as entity: String, object key: some Encodable
    ) throws(BrokerError) -> Self {
        Self(entity: entity, .process(json.makeJSON(), object: try RawJSON(value: key)))
    }

    /// Gives a relationship of one object, which must exist, the value that a record would have there.
    ///
    /// - Parameters:
    ///   - key: the object's, as in ``process(_:as:object:nulls:)``.
    ///   - value: an object or several, or bare keys, as in ``RawJSON/init(value:)``; a `String` is a key.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, to value: some Encodable
    ) throws(BrokerError) -> Self {
        try relate(entity, key, relationship, json: try RawJSON(value: value))
    }

    /// Gives a relationship of one object, which must exist, a value from JSON text, such as `null`; else as
    /// ``relate(_:_:_:to:)``.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, json: some JSONTextSource
    ) throws(BrokerError) -> Self {
        Self(
            entity: entity, .relate(json.makeJSON(), relationship: relationship, object: try RawJSON(value: key)))
    }

    /// Links one object, which must exist, to the object of another key, or to those of an array of keys; nil ends the link,
    /// or all links of a to-many. The model says what happens when an object of a key does not exist.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, toKey destination: some Encodable
    ) throws(BrokerError) -> Self {
        try relate(entity, key, relationship, to: destination)
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all without one) and that the
    /// records did not name, at any depth.
    ///
    /// - Parameters:
    ///   - records: an array; see ``RawJSON/init(encoding:nulls:)``.
    ///   - part: for a sync that does not fit one job.
    public static func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<SyncAction> = .all, part: SyncPart? = nil, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        sync(json: try encoded(records, nulls), as: entity, where: predicate, actions: actions, part: part)
    }

    /// A sync from JSON text, an array; else as ``sync(_:as:where:actions:part:nulls:)``.
    public static func sync(
        json: some JSONTextSource, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<SyncAction> = .all, part: SyncPart? = nil
    ) -> Self {
        Self(entity: entity, .sync(json.makeJSON(), where: predicate, actions: actions, part: part))
    }

    /// Reads a whole payload, as it came from its server.
    ///
    /// - Parameters:
    ///   - payload: see ``RawJSON/init(encoding:nulls:)``.
    ///   - reading: how the objects in it are found.
    public static func map(_ payload: some Encodable, by reading: Reading = .keyPaths) throws(BrokerError) -> Self {
        map(json: try encoded(payload, .omitted), by: reading)
    }

    /// Reads a whole payload, from JSON text.
    public static func map(json: some JSONTextSource, by reading: Reading = .keyPaths) -> Self {
        Self(entity: "", .map(json.makeJSON(), by: reading))
    }

    /// Deletes objects by their keys, as in ``process(_:as:object:nulls:)``. Keys that name nothing are counted in a
    /// warning.
    public static func delete(_ entity: String, keys: [some Encodable]) throws(BrokerError) -> Self {
        Self(entity: entity, .delete(try RawJSON(value: keys)))
    }

    /// Deletes the objects that match.
    public static func delete(_ entity: String, where predicate: BrokerPredicate) -> Self {
        Self(entity: entity, .deleteMatching(predicate))
    }

    private static func encoded(
        _ value: some Encodable, _ nulls: RawJSON.Nulls
    ) throws(BrokerError) -> RawJSON {
        if type(of: value) == String.self {
            throw .notEncodable("a String is not a record; JSON text in a String has the label `json:`")
        }
        return try RawJSON(encoding: value, nulls: nulls)
    }
}
