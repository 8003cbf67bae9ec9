internal import BrokerJSON

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// Until when a call may encode its values; cancelling its task ends that as well.
struct EncodingLimit: Sendable {
    /// Nil outside of such a call.
    @TaskLocal static var current: EncodingLimit?

    let begin = ContinuousClock.now
    private let timeout: Duration?

    init(timeout: Duration?) { self.timeout = timeout }

    /// - Throws: when the call that encodes has no time left.
    static func check() throws {
        guard let current else { return }
        try Task.checkCancellation()
        guard let timeout = current.timeout, ContinuousClock.now - current.begin > timeout else { return }
        throw BrokerError.timedOut(after: timeout)
    }
}

/// Encodes `Encodable` values as JSON, as Foundation's `JSONEncoder` does with sorted keys, with four differences:
///
/// 1. A `Date` is its seconds since 1970 in exact digits; see ``digits(of:)``.
/// 2. The elements of a `Set`, and the pairs of a `Dictionary` that is no object in JSON, are in the order of their bytes: Swift's
///    own order differs between processes, and a job that is sent again is known by its bytes.
/// 3. ``RawJSON`` inside another value is its own text.
/// 4. A member that is nil may be written as `null`, where synthesized `Encodable` writes no member.
struct ValueEncoder: Encoder {
    let place: EncodedValue
    let writesNulls: Bool
    /// The type whose value is encoded here.
    private let type: Any.Type
    let codingPath: [any CodingKey]

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(_ place: EncodedValue, of type: Any.Type, writesNulls: Bool, codingPath: [any CodingKey] = []) {
        self.place = place
        self.type = type
        self.writesNulls = writesNulls
        self.codingPath = codingPath
    }

    /// - Throws: `EncodingError`, or what the value itself throws.
    static func encode(_ value: some Encodable, writesNulls: Bool) throws -> EncodedValue {
        let whole = EncodedValue()
        let encoder = ValueEncoder(whole, of: Swift.type(of: value), writesNulls: writesNulls)
        try encoder.encode(value)
        guard !whole.isEmpty else { throw encoder.invalid(value, "It encodes nothing.") }
        return whole
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        place.becomeObject()
        return KeyedEncodingContainer(EncodingKeyedContainer(self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        place.becomeArray(unordered: (type as? any UnorderedCollection.Type)?.entryElementCount)
        return EncodingUnkeyedContainer(self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func at(_ place: EncodedValue, _ key: any CodingKey, of type: Any.Type) -> ValueEncoder {
        ValueEncoder(place, of: type, writesNulls: writesNulls, codingPath: codingPath + [key])
    }

    // MARK: - Values

    func encode<Value: Encodable>(_ value: Value) throws {
        if let date = value as? Date, Value.self == Date.self { return write(try digits(of: date)) }
        if Value.self == Decimal.self, let decimal = value as? Decimal {
            guard !decimal.isNaN else { throw invalid(value, "A Decimal is not a number.") }
            return write(decimal.description)
        }
        if Value.self == Data.self, let data = value as? Data { return string(data.base64EncodedString()) }
        if Value.self == URL.self, let url = value as? URL { return string(url.absoluteString) }
        if Value.self == RawJSON.self, let json = value as? RawJSON { return try raw(json) }
        try value.encode(to: ValueEncoder(place, of: Value.self, writesNulls: writesNulls, codingPath: codingPath))
    }

    private func raw(_ json: RawJSON) throws {
        do {
            _ = try JSONDocument(parsing: JSONText(copying: json.bytes))
        } catch {
            throw invalid(json, "The text is not JSON: \(error).", error)
        }
        place.set(json.bytes, depth: json.knownDepth ?? json.bytes.count)
    }

    func string(_ string: String) {
        var writer = JSONWriter(capacity: string.utf8.count + 2)
        writer.string(string)
        place.set(writer.bytes)
    }

    private func write(_ text: String) { place.set(Array(text.utf8)) }

    /// The shortest digits that are read as the same number.
    private func number(_ value: some BinaryFloatingPoint & CustomStringConvertible & Encodable) throws {
        guard value.isFinite else { throw invalid(value, "\(value) is no number in JSON.") }
        let text = value.description
        write(text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
    }

    func invalid(_ value: Any, _ description: String, _ error: (any Error)? = nil) -> EncodingError {
        .invalidValue(
            value, .init(codingPath: codingPath, debugDescription: description, underlyingError: error))
    }

    // MARK: - Dates

    private static let secondsTo2001: Int64 = 978_307_200

    /// A date's seconds since 1970.
    ///
    /// A `Date` is a `Double` of seconds since 2001. From 1864 to 2137 its step is below half a microsecond, so the digits are those
    /// of the nearest microsecond; before and after, of the nearest millisecond. The `Double` nearest to a time in whole
    /// microseconds (milliseconds) has the digits of that time, also when it was computed from seconds since 1970, whose step is twice
    /// as large.
    private func digits(of date: Date) throws -> String {
        let time = date.timeIntervalSinceReferenceDate
        // Years far beyond 9999, which the server refuses, and what is no time at all.
        guard time.magnitude < 0x1p40 else {
            // Not the date itself: Foundation cannot describe one that is not a number.
            guard time.isFinite else { throw invalid(time, "\(time) seconds are no date.") }
            return date.timeIntervalSince1970.description
        }
        let fractionDigits = time.magnitude < 0x1p32 ? 6 : 3
        let unitsInSecond: Int64 = fractionDigits == 6 ? 1_000_000 : 1_000
        let whole = time.rounded(.down)
        let units =
            (Int64(whole) + Self.secondsTo2001) * unitsInSecond
            + Int64(((time - whole) * Double(unitsInSecond)).rounded())
        let (seconds, rest) = units.magnitude.quotientAndRemainder(dividingBy: unitsInSecond.magnitude)
        var text = "\(units < 0 ? "-" : "")\(seconds)"
        guard rest > 0 else { return text }
        // One digit more, which is then replaced by the point, keeps the zeros after it.
        var fraction = String(rest + unitsInSecond.magnitude).dropFirst()
        while fraction.last == "0" { fraction.removeLast() }
        text += "." + fraction
        return text
    }
}

// MARK: - One value

extension ValueEncoder: SingleValueEncodingContainer {
    func encodeNil() { write("null") }
    func encode(_ value: Bool) { write(value ? "true" : "false") }
    func encode(_ value: String) { string(value) }
    func encode(_ value: Double) throws { try number(value) }
    func encode(_ value: Float) throws { try number(value) }
    func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer) { write(value.description) }
    // Their requirements have a default implementation, which says that they are not supported.
    func encode(_ value: Int128) { write(value.description) }
    func encode(_ value: UInt128) { write(value.description) }
}

/// A collection whose order means nothing and differs between processes.
private protocol UnorderedCollection {
    /// Elements of the array that it encodes for each of its own.
    static var entryElementCount: Int { get }
}

extension Set: UnorderedCollection {
    static var entryElementCount: Int { 1 }
}

/// It encodes an array where its keys are neither texts nor integers.
extension Dictionary: UnorderedCollection {
    static var entryElementCount: Int { 2 }
}

/// A value that is being encoded: a text, or an array or an object of further ones. A class, because an encoder's containers may be
/// filled in any order.
final class EncodedValue {
    private var text: [UInt8]?
    private var textDepth = 0
    private var elements: [EncodedValue]?
    private var members: [String: EncodedValue]?
    /// Elements of each entry of a collection without an order; nil where the order of the elements counts.
    private var entryElementCount: Int?

    var isEmpty: Bool { text == nil && elements == nil && members == nil }
    var elementCount: Int { elements?.count ?? 0 }
    var memberCount: Int { members?.count ?? 0 }

    func set(_ json: [UInt8], depth: Int = 0) {
        text = json
        textDepth = depth
    }

    func becomeObject() { if members == nil { members = [:] } }

    func becomeArray(unordered entryElementCount: Int?) {
        if elements == nil { elements = [] }
        self.entryElementCount = entryElementCount
    }

    /// A new value of a key; of two with the same key, the last one counts.
    func member(_ key: String) -> EncodedValue {
        let value = EncodedValue()
        members?[key] = value
        return value
    }

    func appendElement() -> EncodedValue {
        let value = EncodedValue()
        elements?.append(value)
        return value
    }

    /// There is an object in it, whose members an encoder wrote.
    var hasMembers: Bool {
        members?.isEmpty == false || elements?.contains(where: \.hasMembers) == true
    }

    /// - Returns: the nested arrays and objects at most.
    func write(to writer: inout JSONWriter) -> Int {
        if let text {
            writer.raw(text)
            return textDepth
        }
        var depth = 0
        if let elements, let count = entryElementCount {
            let entries = stride(from: 0, to: elements.count, by: count).map { start in
                var entry = JSONWriter()
                for element in elements[start..<min(start + count, elements.count)] {
                    depth = max(depth, element.write(to: &entry))
                }
                return entry.bytes
            }
            writer.array(of: entries.sorted { $0.lexicographicallyPrecedes($1) }) { $1.raw($0) }
        } else if let elements {
            writer.array(of: elements) { depth = max(depth, $0.write(to: &$1)) }
        } else {
            writer.object { writer in
                for (key, value) in (members ?? [:]).sorted(by: { $0.key < $1.key }) {
                    writer.key(key)
                    depth = max(depth, value.write(to: &writer))
                }
            }
        }
        return depth + 1
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
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        if encoder.place.memberCount % 64 == 63 { try EncodingLimit.check() }
        try member(key).encode(value)
    }
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
    func encode<Value: Encodable>(_ value: Value) throws {
        if count % 16 == 0 { try EncodingLimit.check() }
        try element().encode(value)
    }
    func encode(_ value: Int128) throws { element().encode(value) }
    func encode(_ value: UInt128) throws { element().encode(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        element().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { element().unkeyedContainer() }
    func superEncoder() -> any Encoder { element() }
}
