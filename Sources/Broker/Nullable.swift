/// An attribute of a record whose nil clears the column.
///
/// Swift's synthesized `Codable` writes no member for an optional that is nil, and a member that a record lacks leaves the
/// column as it is. With this wrapper, nil is written as `null`, which sets the column to NULL:
///
/// ```swift
/// struct Employee: Codable {
///     var id: Int
///     var nickname: String?  // nil leaves the column as it is
///     @Nullable var phone: String?  // nil sets the column to NULL
/// }
/// ```
///
/// A record that decides case by case has a property of the type `Nullable<String>?`: nil writes no member, and
/// `Nullable(nil)` writes `null`. A member that is missing or `null` is read as nil.
@propertyWrapper public struct Nullable<Value> {
    public var wrappedValue: Value?

    public init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

    public init(_ value: Value?) { wrappedValue = value }
}

extension Nullable: Sendable where Value: Sendable {}
extension Nullable: Equatable where Value: Equatable {}
extension Nullable: Hashable where Value: Hashable {}

extension Nullable: Encodable where Value: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let wrappedValue { try container.encode(wrappedValue) } else { try container.encodeNil() }
    }
}

extension Nullable: Decodable where Value: Decodable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        wrappedValue = container.decodeNil() ? nil : try container.decode(Value.self)
    }
}

extension KeyedDecodingContainer {
    /// Synthesized `Decodable` calls this for a property with ``Nullable``, so a missing member is nil.
    public func decode<Value: Decodable>(
        _ type: Nullable<Value>.Type, forKey key: Key
    ) throws -> Nullable<Value> {
        try decodeIfPresent(type, forKey: key) ?? Nullable(nil)
    }
}
