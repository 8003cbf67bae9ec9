internal import BrokerJSON
internal import BrokerWire

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension BrokerClient {
    /// Which objects to fetch, and how they are to come.
    public struct Fetch: Sendable, Equatable {
        public enum Names: String, Sendable, CaseIterable {
            /// Those that records have when they are processed.
            case remote
            /// The model's own.
            case local
        }

        /// In which form the objects come.
        public enum Result: String, Sendable, CaseIterable {
            /// An array.
            case collection
            /// The first one, or null.
            case object
            /// An object by the text of the identity, several attributes joined by commas.
            case dictionary
        }

        public var entity: String
        /// What the objects match; nil for all.
        public var predicate: Predicate?
        /// The key of the one object that is meant.
        public var object: JSON?
        /// Attributes to sort by, or key paths to them; with `-` in front from the last to the first.
        public var sort: [String] = []
        /// Objects at most, 100,000 or less; nil for 10,000.
        public var limit: Int?
        /// Objects to pass over.
        public var offset = 0
        /// Paths of relationships whose objects are nested.
        public var include: [String] = []
        public var names = Names.remote
        public var result = Result.collection

        public init(_ entity: String, where predicate: Predicate? = nil) {
            self.entity = entity
            self.predicate = predicate
        }
    }

    /// What a fetch found.
    public struct Fetched: Sendable, Hashable {
        /// An array, an object or null, as the fetch wanted it.
        public var objects: JSON
        /// There are more objects: fetch them with an `offset`.
        public var hasMore: Bool

        package init(objects: JSON, hasMore: Bool) {
            self.objects = objects
            self.hasMore = hasMore
        }

        /// The values that the objects describe. Dates are read in ISO 8601, or as numbers of seconds since 1970; with
        /// remote names and a `format` of the model's they are text.
        ///
        /// - Throws: `DecodingError`
        public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            try JSONDecoder(ofObjects: ()).decode(type, from: Data(objects.bytes))
        }
    }
}

extension BrokerClient.Fetch {
    /// The members of the message.
    package var members: [UInt8] {
        var writer = JSONWriter()
        writer.member("entity", entity)
        writer.member("where", predicate?.format)
        if let arguments = predicate?.arguments, !arguments.isEmpty {
            writer.key("arguments")
            writer.raw(BrokerClient.JSON(array: arguments).bytes)
        }
        if let object {
            writer.key("object")
            writer.raw(object.bytes)
        }
        for (key, texts) in [("sort", sort), ("include", include)] where !texts.isEmpty {
            writer.key(key)
            writer.array { writer in
                for text in texts { writer.string(text) }
            }
        }
        for (key, number) in [("limit", limit), ("offset", offset == 0 ? nil : offset)] {
            guard let number else { continue }
            writer.key(key)
            writer.integer(number)
        }
        writer.member("names", names == .remote ? nil : names.rawValue)
        writer.member("result", result == .collection ? nil : result.rawValue)
        return writer.bytes
    }
}

extension JSONDecoder {
    /// Reads objects as the server writes them; dates in ISO 8601, or as numbers of seconds since 1970.
    convenience init(ofObjects: Void) {
        self.init()
        dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            guard let text = try? container.decode(String.self) else {
                return Date(timeIntervalSince1970: try container.decode(Double.self))
            }
            do {
                return try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
            } catch {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "\"\(text)\" is no date in ISO 8601; fetch with local names")
            }
        }
    }
}
