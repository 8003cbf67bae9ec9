internal import BrokerJSON

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// Decodes `Decodable` values from JSON, as Foundation's `JSONDecoder` does, with three differences: a number that a
/// `Decimal` cannot hold exactly is an error and not a rounded value, ``RawJSON`` is the raw text of a value, and a
/// `Date` is text in ISO 8601, with or without a time, or a number of seconds since 1970.
struct ValueDecoder: Decoder {
    /// Must live as long as places of it are used.
    let document: JSONDocument
    let value: JSONValue
    let codingPath: [any CodingKey]

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        let document = try parse(bytes)
        return try withExtendedLifetime(document) {
            try ValueDecoder(document: document, value: document.root, codingPath: []).decode(type)
        }
    }

    /// A member of an object, or an element of an array, without the others; nil when there is none.
    static func decode<Value: Decodable>(
        _ type: Value.Type, from bytes: [UInt8], at place: PlaceKey
    ) throws -> Value? {
        let document = try parse(bytes)
        return try withExtendedLifetime(document) {
            let root = document.root
            let value =
                place.intValue.map { root.elements.dropFirst($0).first { _ in true } } ?? root[place.stringValue]
            return try value.map { try ValueDecoder(document: document, value: $0, codingPath: [place]).decode(type) }
        }
    }

    private static func parse(_ bytes: [UInt8]) throws -> JSONDocument {
        do throws(JSONError) {
            return try JSONDocument(parsing: JSONText(copying: bytes))
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "The text is not JSON: \(error).", underlyingError: error))
        }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard value.kind == .object else { throw mismatch([String: Any].self) }
        return KeyedDecodingContainer(ValueKeyedContainer(self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard value.kind == .array else { throw mismatch([Any].self) }
        return ValueUnkeyedContainer(self)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func at(_ value: JSONValue, _ key: any CodingKey) -> ValueDecoder {
        ValueDecoder(document: document, value: value, codingPath: codingPath + [key])
    }

    // MARK: - Values

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type == RawJSON.self, let json = RawJSON(value.jsonText) as? Value { return json }
        if type == Date.self, let date = try date() as? Value { return date }
        if type == Decimal.self, let decimal = try decimal() as? Value { return decimal }
        if type == Data.self, let data = try data() as? Value { return data }
        if type == URL.self, let url = try url() as? Value { return url }
        return try Value(from: self)
    }

    private func date() throws -> Date {
        if value.kind == .number { return Date(timeIntervalSince1970: try double()) }
        let text = try decode(String.self)
        guard let date = Self.date(text) else {
            throw corrupted("\"\(text.briefly)\" is not a date in ISO 8601. Fetch with `dates: .iso8601`.")
        }
        return date
    }

    /// Bytes of a date without a time, such as `2026-11-23`; it is midnight in UTC.
    private static let dayCount = 10

    private static func date(_ text: String) -> Date? {
        if text.utf8.count == dayCount { return try? Date(text, strategy: .iso8601.year().month().day()) }
        return (try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
            ?? (try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: false)))
    }

    private func decimal() throws -> Decimal {
        guard value.kind == .number else { throw mismatch(Decimal.self) }
        let text = String(decoding: value.bytes, as: UTF8.self)
        let number = DecimalDigits(text)
        if number.count == 0 { return 0 }
        guard number.isExactInFoundation, let decimal = Decimal(string: text, locale: nil) else {
            throw corrupted(
                "The number \(text.briefly) has \(number.count) significant digits; Foundation's Decimal holds "
                    + "\(DecimalDigits.foundationCount), with a decimal exponent from -128 to 127. Decode it as "
                    + "RawJSON, whose description is the exact text.")
        }
        return decimal
    }

    private func data() throws -> Data {
        guard let data = Data(base64Encoded: try decode(String.self)) else {
            throw corrupted("The text is not base64.")
        }
        return data
    }

    private func url() throws -> URL {
        guard let url = URL(string: try decode(String.self)) else { throw corrupted("The text is not a URL.") }
        return url
    }

    fileprivate func double() throws -> Double {
        guard value.kind == .number else { throw mismatch(Double.self) }
        guard let double = value.double else { throw outOfRange(Double.self) }
        return double
    }

    fileprivate func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        guard value.kind == .number else { throw mismatch(type) }
        let text = String(decoding: value.bytes, as: UTF8.self)
        if value.isIntegral {
            guard let integer = Integer(text) else { throw outOfRange(type) }
            return integer
        }
        // 1.0 and 1e3 are integers, too.
        guard let double = value.double, let integer = Integer(exactly: double) else { throw outOfRange(type) }
        return integer
    }

    // MARK: - Errors

    func mismatch(_ type: Any.Type) -> DecodingError {
        if value.isNull {
            return .valueNotFound(
                type, .init(codingPath: codingPath, debugDescription: "Expected \(type), found null."))
        }
        return .typeMismatch(
            type, .init(codingPath: codingPath, debugDescription: "Expected \(type), found \(value.kind.phrase)."))
    }

    private func outOfRange(_ type: Any.Type) -> DecodingError {
        corrupted("The number \(String(decoding: value.bytes, as: UTF8.self).briefly) does not fit \(type).")
    }

    private func corrupted(_ description: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: codingPath, debugDescription: description))
    }
}

// MARK: - One value

extension ValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard let bool = value.bool else { throw mismatch(type) }
        return bool
    }

    func decode(_ type: String.Type) throws -> String {
        guard let string = value.string else { throw mismatch(type) }
        return string
    }

    func decode(_ type: Double.Type) throws -> Double { try double() }
    func decode(_ type: Float.Type) throws -> Float { Float(try double()) }
    func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer { try integer(type) }
    // Their requirements have a default implementation, which says that they are not supported.
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }
}

/// The significant digits of a number as JSON writes it, and the power of ten that the last of them counts.
struct DecimalDigits {
    /// Digits that every `Decimal` of Foundation can hold: its integer has 128 bits.
    static let foundationCount = 38
    private static let foundationExponents = -128...127

    /// Significant digits: without zeros at either end.
    let count: Int
    /// The power of ten of the last significant digit; nil when it does not fit an `Int`.
    private let exponent: Int?

    init(_ number: String) {
        var digits = 0
        var significant = 0
        var fraction = 0
        var isFraction = false
        var rest = number.utf8[...]
        scan: while let byte = rest.first {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if byte != UInt8(ascii: "0") || digits > 0 { digits += 1 }
                if byte != UInt8(ascii: "0") { significant = digits }
                if isFraction { fraction += 1 }
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"): break scan
            default: break
            }
            rest = rest.dropFirst()
        }
        count = significant
        let written = rest.isEmpty ? 0 : Int(String(Substring(rest.dropFirst())))
        exponent = written.flatMap { written in
            let (sum, overflows) = written.subtractingReportingOverflow(fraction - (digits - significant))
            return overflows ? nil : sum
        }
    }

    /// A `Decimal` of Foundation holds the number without a loss. Zero has no digits, so its exponent does not matter.
    var isExactInFoundation: Bool {
        count == 0 || (count <= Self.foundationCount && exponent.map(Self.foundationExponents.contains) ?? false)
    }
}

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
    func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type, forKey key: Key) throws -> Integer {
        try member(key).decode(type)
    }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try member(key).decode(type) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try member(key).decode(type) }

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
    mutating func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer {
        try advance(type) { try $0.decode(type) }
    }
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try advance(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try advance(type) { try $0.decode(type) } }

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
