/// A value that is encoded with `null` for each member that is nil, where synthesized `Encodable` writes no member.
///
/// It passes everything on to another encoder's containers; only `encodeIfPresent` differs.
struct WithNulls<Value: Encodable>: Encodable {
    private let value: Value

    init(_ value: Value) { self.value = value }

    func encode(to encoder: any Encoder) throws { try value.encode(to: NullWritingEncoder(base: encoder)) }
}

private struct NullWritingEncoder: Encoder {
    let base: any Encoder

    var codingPath: [any CodingKey] { base.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { base.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(KeyedContainer(base: base.container(keyedBy: type)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { UnkeyedContainer(base: base.unkeyedContainer()) }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        SingleContainer(base: base.singleValueContainer())
    }
}

/// Scalars, and values that an encoder writes in a way of its own (dates, data, decimals, URLs), must be passed to it
/// unchanged. They have no members that could be nil. A scalar encodes itself into a single value: wrapped, it would come
/// here again without end.
private func passed<Value: Encodable>(_ value: Value) -> any Encodable {
    switch value {
    case is Bool, is String, is any BinaryInteger, is any BinaryFloatingPoint: value
    case _ where isFoundationValue(value): value
    default: WithNulls(value)
    }
}

private struct KeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    var base: KeyedEncodingContainer<Key>

    var codingPath: [any CodingKey] { base.codingPath }

    mutating func encodeNil(forKey key: Key) throws { try base.encodeNil(forKey: key) }

    mutating func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try base.encode(passed(value), forKey: key)
    }

    mutating func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
        if let value { try encode(value, forKey: key) } else { try base.encodeNil(forKey: key) }
    }

    // The scalar types have requirements of their own, whose default implementation writes nothing for nil.
    mutating func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: String?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try scalar(value, key) }
    mutating func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try scalar(value, key) }

    private mutating func scalar(_ value: (some Encodable)?, _ key: Key) throws {
        if let value { try base.encode(value, forKey: key) } else { try base.encodeNil(forKey: key) }
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(KeyedContainer<Nested>(base: base.nestedContainer(keyedBy: type, forKey: key)))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        UnkeyedContainer(base: base.nestedUnkeyedContainer(forKey: key))
    }

    mutating func superEncoder() -> any Encoder { NullWritingEncoder(base: base.superEncoder()) }
    mutating func superEncoder(forKey key: Key) -> any Encoder {
        NullWritingEncoder(base: base.superEncoder(forKey: key))
    }
}

private struct UnkeyedContainer: UnkeyedEncodingContainer {
    var base: any UnkeyedEncodingContainer

    var codingPath: [any CodingKey] { base.codingPath }
    var count: Int { base.count }

    mutating func encodeNil() throws { try base.encodeNil() }

    mutating func encode<Value: Encodable>(_ value: Value) throws {
        try base.encode(passed(value))
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(KeyedContainer(base: base.nestedContainer(keyedBy: type)))
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        UnkeyedContainer(base: base.nestedUnkeyedContainer())
    }

    mutating func superEncoder() -> any Encoder { NullWritingEncoder(base: base.superEncoder()) }
}

private struct SingleContainer: SingleValueEncodingContainer {
    var base: any SingleValueEncodingContainer

    var codingPath: [any CodingKey] { base.codingPath }

    mutating func encodeNil() throws { try base.encodeNil() }

    mutating func encode<Value: Encodable>(_ value: Value) throws {
        try base.encode(passed(value))
    }
}
