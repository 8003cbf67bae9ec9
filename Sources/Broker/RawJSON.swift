internal import BrokerJSON

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// One JSON text, as it is sent: numbers of any length stay exact.
///
/// It may hold any bytes. Before a text becomes a part of a message it is proven to be exactly one JSON value in UTF-8; if it is
/// not, the call throws ``BrokerError/Code/invalidJSON``, and nothing is sent.
public struct RawJSON: Sendable, Hashable, CustomStringConvertible {
    /// The effect of an encoded member that is nil.
    public struct Nulls: Sendable, Hashable {
        fileprivate let areWritten: Bool

        /// The record lacks the member, so the column stays unchanged. (``Nullable`` overrides this for one member.)
        public static let omitted = Nulls(areWritten: false)
        /// The member is written as `null`, so the column is set to NULL.
        public static let written = Nulls(areWritten: true)
    }

    /// UTF-8.
    public var bytes: [UInt8] {
        didSet {
            knownDepth = nil
            hasEncodedMembers = false
        }
    }
    /// Nil unless the text is known to be one value, in UTF-8, of at most so many nested objects and arrays.
    package private(set) var knownDepth: Int?
    /// Keys in it are the names of members of an `Encodable` value.
    package private(set) var hasEncodedMembers = false

    /// - Parameter bytes: JSON in UTF-8.
    public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    /// - Parameter text: JSON, not a value: `RawJSON("7")` is the number 7. For a text use ``init(value:)``.
    public init(_ text: String) { bytes = Array(text.utf8) }

    /// Encodes records, so that the same values give the same bytes in every process, and a job that is sent again is known by them:
    ///
    /// - A `Date` is its seconds since 1970, rounded to the nearest microsecond (before 1864 and after 2137, where a `Date` is
    ///   coarser, to the nearest millisecond). A date that was fetched is stored with the same digits again.
    /// - `Double` and `Float` have the fewest digits that are read as the same number, and a `Decimal` all of its digits.
    /// - Data are base64.
    /// - Keys are sorted. So are the elements of a `Set`, and the pairs of a `Dictionary` whose keys are neither texts nor
    ///   integers: by their bytes, as they have no order of their own.
    /// - `[UInt8]` and `Data` as the whole value are JSON text already. A `String` is a value, as in ``init(value:)``; JSON text in a
    ///   `String` is given with the label `json:`.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(encoding value: some Encodable, nulls: Nulls = .omitted) throws(BrokerError) {
        // By far the most frequent type, and a cast that fails costs more than all else here. The type is compared, because an empty
        // array of any type can be cast to an array of bytes.
        if type(of: value) == [UInt8].self, let json = value as? [UInt8] {
            self.init(json)
        } else if let json = value as? Data {
            self.init(json)
        } else {
            try self.init(value: value, nulls)
        }
    }

    /// Encodes a value as ``init(encoding:nulls:)`` does, but bytes as an array of numbers and data as base64: a key or a
    /// predicate's argument.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(value: some Encodable) throws(BrokerError) { try self.init(value: value, .omitted) }

    private init(value: some Encodable, _ nulls: Nulls) throws(BrokerError) {
        if type(of: value) == RawJSON.self, let json = value as? RawJSON {
            self = json
            return
        }
        do {
            let encoded = try ValueEncoder.encode(value, writesNulls: nulls.areWritten)
            var writer = JSONWriter()
            knownDepth = encoded.write(to: &writer)
            bytes = writer.bytes
            hasEncodedMembers = encoded.hasMembers
        } catch let error as BrokerError where error.code == .timedOut {
            throw error
        } catch {
            throw .notEncodable("\(error)")
        }
    }

    /// - Parameter depth: an upper bound of the nested objects and arrays.
    package init(checked bytes: [UInt8], depth: Int) {
        self.bytes = bytes
        knownDepth = depth
    }

    package init(string: String) {
        var writer = JSONWriter(capacity: string.utf8.count + 2)
        writer.string(string)
        bytes = writer.bytes
        knownDepth = 0
    }

    /// The value that the text describes. A `Date` is read from text in ISO 8601, with or without a time, or from a number
    /// of seconds since 1970; data from base64.
    ///
    /// - Throws: `DecodingError`. A number with more digits than a `Decimal` holds is one; decoded as a ``RawJSON`` it keeps
    ///   all of them, in its ``description``.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try ValueDecoder.decode(type, from: bytes)
    }

    /// The text.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    public static func == (one: RawJSON, other: RawJSON) -> Bool { one.bytes == other.bytes }

    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

/// JSON text, for the parameters that are labelled `json:`: a `String`, bytes of UTF-8, `Data`, or a ``RawJSON``.
public protocol JSONTextSource {
    /// The text. It need not be valid: the call that sends it checks it.
    func makeJSON() -> RawJSON
}

extension RawJSON: JSONTextSource {
    /// The text itself.
    public func makeJSON() -> RawJSON { self }
}

extension String: JSONTextSource {
    /// The text, as JSON.
    public func makeJSON() -> RawJSON { RawJSON(self) }
}

extension Data: JSONTextSource {
    /// The bytes, as JSON in UTF-8.
    public func makeJSON() -> RawJSON { RawJSON(self) }
}

extension [UInt8]: JSONTextSource {
    /// The bytes, as JSON in UTF-8.
    public func makeJSON() -> RawJSON { RawJSON(self) }
}

extension RawJSON: Codable {
    /// The raw text of a value. ``decode(_:)`` and what uses it give it; other decoders do not have it.
    public init(from decoder: any Decoder) throws {
        guard let decoder = decoder as? ValueDecoder else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription: "RawJSON is decoded by the `decode` of Broker's own types only."))
        }
        self.init(decoder.value.jsonText)
    }

    /// Inside a value that is encoded by this type, it is its own text. For another encoder the text is parsed: the value is the same,
    /// but not each byte.
    ///
    /// - Throws: `EncodingError` when the text is not JSON; for another encoder also when it has a number with more digits than a
    ///   `Decimal` holds.
    public func encode(to encoder: any Encoder) throws {
        do {
            try decode(JSONTree.self).encode(to: encoder)
        } catch let error as DecodingError {
            throw EncodingError.invalidValue(
                self,
                .init(codingPath: encoder.codingPath, debugDescription: "\(error)", underlyingError: error))
        }
    }
}

/// Any JSON value.
private enum JSONTree: Codable {
    case null
    case bool(Bool)
    case number(Decimal)
    case string(String)
    case array([JSONTree])
    case object([String: JSONTree])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        switch (decoder as? ValueDecoder)?.value.kind {
        case .null: self = .null
        case .true: self = .bool(true)
        case .false: self = .bool(false)
        case .number: self = .number(try container.decode(Decimal.self))
        case .string: self = .string(try container.decode(String.self))
        case .array: self = .array(try container.decode([JSONTree].self))
        case .object, nil: self = .object(try container.decode([String: JSONTree].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}
