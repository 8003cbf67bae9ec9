#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension BrokerClient {
    /// One JSON text, as it goes over the socket: numbers of any length are still exact. Not checked before it is used.
    public struct JSON: Sendable, Hashable, CustomStringConvertible {
        /// UTF-8.
        public var bytes: [UInt8]

        public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

        public init(_ text: String) { bytes = Array(text.utf8) }

        /// Encodes a value as the client encodes records: dates as seconds since 1970, which keep their fractions, data as
        /// base64, keys sorted, so that the same values give the same bytes. What is text or bytes already (`String`,
        /// `[UInt8]`, `Data`) is taken as JSON as it is.
        ///
        /// - Throws: ``BrokerError/notEncodable(reason:)``
        public init(encoding value: some Encodable) throws(BrokerError) {
            // By far the most frequent, and a cast that fails costs more than all else here.
            if type(of: value) == [UInt8].self, let json = value as? [UInt8] {
                self.init(json)
                return
            }
            switch value {
            case let json as String: self.init(json)
            case let json as [UInt8]: self.init(json)
            case let json as Data: self.init(json)
            default: try self.init(value: value)
            }
        }

        /// Encodes a value as ``init(encoding:)`` does, but text as text: a key or a predicate's argument.
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
        public init(array elements: [JSON]) {
            bytes = [UInt8(ascii: "[")] + elements.map(\.bytes).joined(separator: [UInt8(ascii: ",")])
            bytes.append(UInt8(ascii: "]"))
        }

        /// The value that the text describes; dates are read as numbers of seconds since 1970.
        ///
        /// - Throws: `DecodingError`
        public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .secondsSince1970
            return try decoder.decode(type, from: Data(bytes))
        }

        /// The text.
        public var description: String { String(decoding: bytes, as: UTF8.self) }
    }
}
