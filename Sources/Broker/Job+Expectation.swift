extension Job {
    /// What an operation expects of the one object that it names: of a `process` of one record, of a `relate`, or of a `delete` of one
    /// key. It is judged in the order of the operations, after those before it.
    public struct Expectation: Sendable, Equatable {
        let field: MessageField

        private init(_ value: MessageField.Value) { field = MessageField("expect", value) }

        /// There is no object of that identity.
        public static let absent = Expectation(.text("absent"))
        /// There is an object of that identity.
        public static let present = Expectation(.text("present"))

        /// The object matches the predicate.
        public static func matching(_ predicate: BrokerPredicate) -> Expectation {
            Expectation(.members([MessageField(predicate)]))
        }

        /// The object is as it was fetched with ``Query/hasVersions``, whose `_version` this is.
        public static func version(_ version: String) -> Expectation {
            Expectation(.members([MessageField("version", .text(version))]))
        }
    }

    /// What a `relate` does with the links of a to-many relationship, instead of what the model says.
    public struct LinkChange: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Other links stay.
        public static let add = LinkChange(rawValue: "add")
        /// Other links end.
        public static let replace = LinkChange(rawValue: "replace")
        /// The links to these objects end, and the objects stay.
        public static let remove = LinkChange(rawValue: "remove")
    }
}

extension Job.Operation {
    /// The operation, on the condition that its object is as expected: otherwise the job fails with ``BrokerError/Code/conflict``.
    public func expecting(_ expectation: Job.Expectation?) -> Self {
        var operation = self
        operation.expectation = expectation
        return operation
    }

    /// A `relate` that adds to the links, replaces them, or removes them, whatever the model says; nil: as the model says.
    public func changing(links: Job.LinkChange?) -> Self {
        guard let links else { return self }
        var operation = self
        operation.fields.append(MessageField("links", .text(links.rawValue)))
        return operation
    }

    /// Adds to numbers of one object, which must exist. A null counts as 0.
    ///
    /// - Parameters:
    ///   - key: the object's, as in `update(_:key:with:nulls:)`.
    ///   - amounts: by the names of attributes in the model.
    public static func increment(
        _ entity: String, key: some Encodable, by amounts: [String: some Encodable]
    ) throws(BrokerError) -> Self {
        Self(entity, [.object(try RawJSON(value: key)), .init("increment", .json(try RawJSON(value: amounts)))])
    }

    /// Appends text to strings, and elements to arrays, of one object, which must exist. A null counts as empty.
    ///
    /// - Parameters:
    ///   - key: the object's, as in `update(_:key:with:nulls:)`.
    ///   - values: by the names of attributes in the model.
    public static func append(
        _ entity: String, key: some Encodable, with values: [String: some Encodable]
    ) throws(BrokerError) -> Self {
        Self(entity, [.object(try RawJSON(value: key)), .init("append", .json(try RawJSON(value: values)))])
    }
}
