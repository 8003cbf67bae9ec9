internal import BrokerJSON
package import BrokerWire

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension BrokerClient {
    /// One JSON text, as it is sent: numbers of any length stay exact.
    ///
    /// It may hold any bytes. Before a text becomes a part of a message, the client proves that it is exactly one JSON value in
    /// UTF-8, and throws ``BrokerError/invalidJSON(_:)`` if it is not; nothing is sent then.
    public struct JSON: Sendable, Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
        /// UTF-8.
        public var bytes: [UInt8]

        public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

        public init(_ text: String) { bytes = Array(text.utf8) }

        public init(stringLiteral text: String) { self.init(text) }

        /// Encodes records as the client encodes them: dates as seconds since 1970, which keep their fractions, data as
        /// base64, keys sorted, so that the same values give the same bytes. `[UInt8]` and `Data` are JSON text already. A
        /// `String` is a value, as in ``init(value:)``; JSON text in a `String` is given with the label `json:`.
        ///
        /// - Throws: ``BrokerError/notEncodable(reason:)``
        public init(encoding value: some Encodable) throws(BrokerError) {
            // By far the most frequent, and a cast that fails costs more than all else here.
            if type(of: value) == [UInt8].self, let json = value as? [UInt8] {
                self.init(json)
                return
            }
            switch value {
            case let json as [UInt8]: self.init(json)
            case let json as Data: self.init(json)
            default: try self.init(value: value)
            }
        }

        /// Encodes a value as ``init(encoding:)`` does, but bytes as an array of numbers and data as base64: a key or a
        /// predicate's argument.
        ///
        /// - Throws: ``BrokerError/notEncodable(reason:)``
        public init(value: some Encodable) throws(BrokerError) {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = .secondsSince1970
            // Sorted, so that the same values are the same bytes: a job sent again is known by them.
            encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
            do {
                self.init(try encoder.encode(value))
            } catch {
                throw .notEncodable(reason: "\(error)")
            }
        }

        /// An array of JSON texts.
        ///
        /// - Throws: ``BrokerError/invalidJSON(_:)`` when one of them is not exactly one value.
        public init(array elements: [JSON]) throws(BrokerError) {
            bytes = try Self.proven(elements, at: "", enclosingLevels: 0).bytes
        }

        /// The value that the text describes. A `Date` is read from text in ISO 8601, with or without a time, or from a number
        /// of seconds since 1970; data from base64.
        ///
        /// - Throws: `DecodingError`. A number with more digits than a `Decimal` holds is one; decoded as a ``JSON`` it keeps
        ///   all of them, in its ``description``.
        public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            try ValueDecoder.decode(type, from: bytes)
        }

        /// The text.
        public var description: String { String(decoding: bytes, as: UTF8.self) }
    }

    /// JSON text, for the parameters that are labelled `json:`: a `String`, bytes of UTF-8, or a ``JSON``.
    public protocol JSONTextSource {
        func makeJSON() -> JSON
    }
}

extension BrokerClient.JSON: BrokerClient.JSONTextSource {
    public func makeJSON() -> BrokerClient.JSON { self }
}

extension String: BrokerClient.JSONTextSource {
    public func makeJSON() -> BrokerClient.JSON { BrokerClient.JSON(self) }
}

extension [UInt8]: BrokerClient.JSONTextSource {
    public func makeJSON() -> BrokerClient.JSON { BrokerClient.JSON(self) }
}

extension BrokerClient.JSON: Decodable {
    /// The raw text of a value. ``decode(_:)`` and ``BrokerClient/Fetched/decode(_:)`` give it; other decoders do not have it.
    public init(from decoder: any Decoder) throws {
        guard let decoder = decoder as? ValueDecoder else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription: "BrokerClient.JSON is decoded by the `decode` of BrokerClient's own types only."))
        }
        self.init(decoder.value.jsonText)
    }
}

// MARK: - Into messages

extension BrokerClient.JSON {
    /// This text as a part of a message.
    ///
    /// - Parameters:
    ///   - path: a JSON Pointer to its place in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - enclosingLevels: objects and arrays of the message around it.
    /// - Throws: ``BrokerError/invalidJSON(_:)`` when it is not exactly one value.
    package func proven(
        at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> RawJSON {
        do throws(JSONError) {
            return try RawJSON(proving: bytes, isLenient: isLenient, enclosingLevels: enclosingLevels)
        } catch {
            var fault = BrokerError.Fault(
                code: .malformedJSON,
                message:
                    "The text is not exactly one JSON value: \(error). Nothing was sent. Give one value in UTF-8, with "
                    + "nothing after it.", path: path)
            fault.line = error.position.line
            fault.column = error.position.column
            fault.offset = error.position.offset
            throw .invalidJSON(fault)
        }
    }

    /// An array of texts as a part of a message; each of them is proven on its own.
    package static func proven(
        _ elements: [BrokerClient.JSON], at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> RawJSON {
        var proven: [RawJSON] = []
        for (index, element) in elements.enumerated() {
            proven.append(
                try element.proven(
                    at: "\(path)/\(index)", isLenient: isLenient, enclosingLevels: enclosingLevels + 1))
        }
        return .array(proven)
    }
}
