/// A type whose values are records, or fetched objects, of one entity. The calls that take an entity have a form that takes such a
/// type, or its values, instead.
///
/// ```swift
/// struct Customer: Codable, BrokerRecord {
///     static let entity = "Customer"
///
///     var id: Int
///     var name: String?
/// }
/// ```
/// ```swift
/// let completion = try await broker.process(customers, id: "import-\(number)")
/// print(completion.changes(of: Customer.self).inserted)
/// for try await customer in broker.objects(Customer.self, where: "id > \(1)", sort: "-id", limit: 50) {
///     print(customer)
/// }
/// ```
///
/// ``BrokerService/check(_:timeout:)`` says where such a type and the model differ.
public protocol BrokerRecord: Sendable {
    /// The name of the entity in the model.
    static var entity: String { get }
    /// The names that the type's coding keys are: by default ``Query/Names/payload``, the `key` of each attribute. With
    /// ``Query/Names/model``, its properties, predicates and sort keys are the same words.
    static var names: Query.Names { get }
}

extension BrokerRecord {
    public static var names: Query.Names { .payload }
}

extension Job.Operation {
    private func named(as names: Query.Names) -> Self {
        var operation = self
        operation.names = names
        return operation
    }

    /// As ``process(_:as:nulls:)``, of the record's entity.
    public static func process<Record: BrokerRecord & Encodable>(
        _ record: Record, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try process(record, as: Record.entity, nulls: nulls).named(as: Record.names)
    }

    /// As ``process(_:as:nulls:)``, of the records' entity.
    public static func process<Record: BrokerRecord>(
        _ records: some Sequence<Record> & Encodable, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try process(records, as: Record.entity, nulls: nulls).named(as: Record.names)
    }

    /// As `update(_:key:with:nulls:)`.
    public static func update<Record: BrokerRecord>(
        _ type: Record.Type, key: some Encodable, with record: some Encodable, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try update(Record.entity, key: key, with: record, nulls: nulls).named(as: Record.names)
    }

    /// As `set(_:of:key:to:)` with an entity.
    public static func set<Record: BrokerRecord>(
        _ relationship: String, of type: Record.Type, key: some Encodable, to value: some Encodable
    ) throws(BrokerError) -> Self {
        try set(relationship, of: Record.entity, key: key, to: value).named(as: Record.names)
    }

    /// As `set(_:of:key:to:)` with an entity.
    public static func set<Record: BrokerRecord>(
        _ relationship: String, of type: Record.Type, key: some Encodable, to nothing: RawJSON?
    ) throws(BrokerError) -> Self {
        try set(relationship, of: Record.entity, key: key, to: nothing).named(as: Record.names)
    }

    /// As ``sync(_:as:where:actions:part:nulls:)``, of the records' entity.
    public static func sync<Record: BrokerRecord>(
        _ records: some Sequence<Record> & Encodable, where predicate: BrokerPredicate? = nil,
        actions: Set<SyncAction> = .all, part: SyncPart? = nil, nulls: RawJSON.Nulls = .omitted
    ) throws(BrokerError) -> Self {
        try sync(records, as: Record.entity, where: predicate, actions: actions, part: part, nulls: nulls)
            .named(as: Record.names)
    }

    /// As `delete(_:keys:)`.
    public static func delete(_ type: (some BrokerRecord).Type, keys: [some Encodable]) throws(BrokerError) -> Self {
        try delete(type.entity, keys: keys)
    }

    /// As `delete(_:where:)`.
    public static func delete(_ type: (some BrokerRecord).Type, where predicate: BrokerPredicate) -> Self {
        delete(type.entity, where: predicate)
    }

    /// As `increment(_:key:by:)`.
    public static func increment(
        _ type: (some BrokerRecord).Type, key: some Encodable, by amounts: [String: some Encodable]
    ) throws(BrokerError) -> Self {
        try increment(type.entity, key: key, by: amounts)
    }

    /// As `append(_:key:with:)`.
    public static func append(
        _ type: (some BrokerRecord).Type, key: some Encodable, with values: [String: some Encodable]
    ) throws(BrokerError) -> Self {
        try append(type.entity, key: key, with: values)
    }
}

extension Completion {
    /// The numbers of one entity's objects, from ``changes``: 0 when the job changed and named none, and with `reply: .none`.
    public func changes(of type: (some BrokerRecord).Type) -> Changes { changes[type.entity] ?? Changes() }

    /// As `keys(of:as:)` with an entity.
    public func keys<Key: Decodable>(
        of type: (some BrokerRecord).Type, as keyType: Key.Type = Key.self
    ) throws -> Keys<Key> {
        try keys(of: type.entity, as: keyType)
    }

    /// As `examples(of:as:)` with an entity.
    public func examples<Key: Decodable>(
        of type: (some BrokerRecord).Type, as keyType: Key.Type = Key.self
    ) throws -> Keys<Key> {
        try examples(of: type.entity, as: keyType)
    }
}

extension Commit {
    /// The numbers of one entity's objects, from ``changes``; 0 when the job changed none.
    public func changes(of type: (some BrokerRecord).Type) -> Completion.Changes {
        changes[type.entity] ?? Completion.Changes()
    }

    /// As `keys(of:as:)` with an entity.
    public func keys<Key: Decodable>(
        of type: (some BrokerRecord).Type, as keyType: Key.Type = Key.self
    ) throws -> Completion.Keys<Key> {
        try keys(of: type.entity, as: keyType)
    }
}
