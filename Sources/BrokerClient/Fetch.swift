package import BrokerWire

extension BrokerClient {
    /// The objects to fetch, and the form of the answer.
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
        /// A predicate that the objects match; nil for all.
        public var predicate: Predicate?
        /// The key of the one requested object.
        public var object: JSON?
        /// Attributes to sort by, or key paths to them; with `-` before them in descending order.
        public var sort: [String] = []
        /// The maximum number of objects, up to 100,000; nil for 10,000.
        public var limit: Int?
        /// The number of objects to skip.
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

    /// The result of a fetch.
    public struct Fetched: Sendable, Hashable {
        /// An array, an object or null, according to the fetch.
        public var objects: JSON
        /// There are more objects: fetch them with an `offset`.
        public var hasMore: Bool

        package init(objects: JSON, hasMore: Bool) {
            self.objects = objects
            self.hasMore = hasMore
        }

        /// The values that the objects describe; see ``BrokerClient/JSON/decode(_:)``. With remote names, a date that has a
        /// `format` in the model is text in that format; ISO 8601 of it, such as `yyyy-MM-dd`, is read as a `Date` in UTC.
        ///
        /// - Throws: `DecodingError`. A number with more digits than a `Decimal` holds is one; declared as a
        ///   ``BrokerClient/JSON`` the attribute keeps all of them.
        public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            try objects.decode(type)
        }
    }
}

extension BrokerClient.Fetch {
    /// The members of the message.
    ///
    /// - Throws: ``BrokerError/invalidJSON(_:)`` when an argument or the key is not exactly one JSON value.
    package func members() throws(BrokerError) -> [(key: String, value: RawJSON)] {
        var members: [(key: String, value: RawJSON)] = [("entity", .string(entity))]
        if let predicate {
            members.append(("where", .string(predicate.format)))
            if !predicate.arguments.isEmpty {
                members.append(("arguments", try BrokerClient.JSON.proven(predicate.arguments, at: "/arguments")))
            }
        }
        if let object { members.append(("object", try object.proven(at: "/object"))) }
        for (key, texts) in [("sort", sort), ("include", include)] where !texts.isEmpty {
            members.append((key, .array(texts.map(RawJSON.string))))
        }
        if let limit { members.append(("limit", .integer(limit))) }
        if offset != 0 { members.append(("offset", .integer(offset))) }
        if names != .remote { members.append(("names", .string(names.rawValue))) }
        if result != .collection { members.append(("result", .string(result.rawValue))) }
        return members
    }
}
