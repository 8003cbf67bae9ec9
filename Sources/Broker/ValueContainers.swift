internal import BrokerJSON

/// The members of an object.
struct ValueKeyedContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    /// Members from which a table is worth its memory; fewer are compared one by one.
    private static var tableCount: Int { 16 }

    private let decoder: ValueDecoder
    /// By key; nil for a small object.
    private let table: [String: JSONValue]?

    init(_ decoder: ValueDecoder) {
        self.decoder = decoder
        let isLarge = decoder.value.members.lazy.dropFirst(Self.tableCount).first { _ in true } != nil
        table =
            isLarge
            ? Dictionary(
                decoder.value.members.lazy.map { (String(decoding: $0.key.bytes, as: UTF8.self), $0.value) },
                uniquingKeysWith: { _, last in last })
            : nil
    }

    var codingPath: [any CodingKey] { decoder.codingPath }

    var allKeys: [Key] {
        if let table { return table.keys.compactMap { Key(stringValue: $0) } }
        var names: [String] = []
        for (key, _) in decoder.value.members {
            let name = String(decoding: key.bytes, as: UTF8.self)
            if !names.contains(name) { names.append(name) }
        }
        return names.compactMap { Key(stringValue: $0) }
    }

    private func value(_ key: any CodingKey) -> JSONValue? {
        table.map { $0[key.stringValue] } ?? decoder.value[key.stringValue]
    }

    private func member(_ key: any CodingKey) throws -> ValueDecoder {
        guard let value = value(key) else {
            throw DecodingError.keyNotFound(
                key, .init(codingPath: codingPath, debugDescription: "There is no member \"\(key.stringValue)\"."))
        }
        return decoder.at(value, key)
    }

    func contains(_ key: Key) -> Bool { value(key) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key).decodeNil() }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try member(key).decode(type) }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try member(key).decode(type) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try member(key).decode(type) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try member(key).decode(type) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try member(key).decode(type) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try member(key).decode(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try member(key).decode(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try member(key).decode(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try member(key).decode(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try member(key).decode(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try member(key).decode(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try member(key).decode(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try member(key).decode(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try member(key).decode(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try member(key).decode(type) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try member(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { try member(PlaceKey.superclass) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try member(key) }
}

/// The elements of an array, one after the other.
struct ValueUnkeyedContainer: UnkeyedDecodingContainer {
    private let decoder: ValueDecoder
    private var rest: JSONValue.Elements
    private var next: JSONValue?
    private(set) var currentIndex = 0
    let count: Int?

    init(_ decoder: ValueDecoder) {
        self.decoder = decoder
        count = decoder.value.elements.reduce(0) { count, _ in count + 1 }
        rest = decoder.value.elements
        next = rest.next()
    }

    var codingPath: [any CodingKey] { decoder.codingPath }
    var isAtEnd: Bool { next == nil }

    /// Calls `read` with the current element, and goes on to the next one if that throws nothing.
    private mutating func advance<Value>(_ type: Any.Type, _ read: (ValueDecoder) throws -> Value) throws -> Value {
        guard let element = next else {
            throw DecodingError.valueNotFound(
                type,
                .init(
                    codingPath: codingPath + [PlaceKey(currentIndex)],
                    debugDescription: "The array has no more elements."))
        }
        let value = try read(decoder.at(element, PlaceKey(currentIndex)))
        next = rest.next()
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard let element = next else {
            return try advance(Never.self) { _ in true }
        }
        return element.isNull ? try advance(Never.self) { _ in true } : false
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try advance(type) { try $0.decode(type) }
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: String.Type) throws -> String { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Double.Type) throws -> Double { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Float.Type) throws -> Float { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int.Type) throws -> Int { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try advance(type) { try $0.decode(type) } }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try advance(type) { try $0.container(keyedBy: type) }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try advance([Any].self) { try $0.unkeyedContainer() }
    }

    mutating func superDecoder() throws -> any Decoder { try advance((any Decoder).self) { $0 } }
}

/// A place in an array, or the place of a superclass's members.
struct PlaceKey: CodingKey {
    static let superclass = PlaceKey(stringValue: "super")

    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        intValue = nil
    }

    init(intValue: Int) { self.init(intValue) }

    init(_ index: Int) {
        stringValue = "Index \(index)"
        intValue = index
    }
}

/// The members of an object that is being encoded.
struct EncodingKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    private let encoder: ValueEncoder

    init(_ encoder: ValueEncoder) { self.encoder = encoder }

    var codingPath: [any CodingKey] { encoder.codingPath }

    private func member(_ key: any CodingKey, of type: Any.Type = Never.self) -> ValueEncoder {
        encoder.at(encoder.place.member(key.stringValue), key, of: type)
    }

    func encodeNil(forKey key: Key) { member(key).encodeNil() }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws { try member(key).encode(value) }
    func encode(_ value: Int128, forKey key: Key) throws { member(key).encode(value) }
    func encode(_ value: UInt128, forKey key: Key) throws { member(key).encode(value) }

    func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws { try write(value, key) }

    // The scalar types have requirements of their own, whose default implementation writes nothing for nil.
    func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: String?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: Int128?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try write(value, key) }
    func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws { try write(value, key) }

    private func write(_ value: (some Encodable)?, _ key: Key) throws {
        if let value { try member(key).encode(value) } else if encoder.writesNulls { encodeNil(forKey: key) }
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<
        Nested
    > {
        member(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { member(key).unkeyedContainer() }
    func superEncoder() -> any Encoder { member(PlaceKey.superclass) }
    func superEncoder(forKey key: Key) -> any Encoder { member(key) }
}

/// The elements of an array that is being encoded.
struct EncodingUnkeyedContainer: UnkeyedEncodingContainer {
    private let encoder: ValueEncoder

    init(_ encoder: ValueEncoder) { self.encoder = encoder }

    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.place.elementCount }

    private func element(of type: Any.Type = Never.self) -> ValueEncoder {
        let key = PlaceKey(count)
        return encoder.at(encoder.place.appendElement(), key, of: type)
    }

    func encodeNil() { element().encodeNil() }
    func encode<Value: Encodable>(_ value: Value) throws { try element().encode(value) }
    func encode(_ value: Int128) throws { element().encode(value) }
    func encode(_ value: UInt128) throws { element().encode(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        element().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { element().unkeyedContainer() }
    func superEncoder() -> any Encoder { element() }
}
