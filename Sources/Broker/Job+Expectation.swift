internal import BrokerJSON

extension Job {
    /// What an operation expects of the one object that it names: of a `process` of one record, of a `relate`, or of a `delete` of one
    /// key. It is judged in the order of the operations, after those before it.
    public struct Expectation: Sendable, Hashable {
        fileprivate enum Condition: Sendable, Hashable {
            case absent, present, matching(BrokerPredicate), version(String)
        }

        fileprivate let condition: Condition

        /// There is no object of that identity.
        public static let absent = Expectation(condition: .absent)
        /// There is an object of that identity.
        public static let present = Expectation(condition: .present)

        /// The object matches the predicate.
        public static func matching(_ predicate: BrokerPredicate) -> Expectation {
            Expectation(condition: .matching(predicate))
        }

        /// The object is as it was fetched with ``Query/hasVersions``, whose `_version` this is.
        public static func version(_ version: String) -> Expectation { Expectation(condition: .version(version)) }
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
    public func expecting(_ expectation: Job.Expectation) -> Self {
        var operation = self
        operation.expectation = expectation
        return operation
    }

    /// A `relate` that adds to the links, replaces them, or removes them, whatever the model says.
    public func changing(links: Job.LinkChange) -> Self {
        var operation = self
        operation.links = links
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
        Self(entity: entity, .adjust(increment: try RawJSON(value: amounts), object: try RawJSON(value: key)))
    }

    /// Appends text to strings, and elements to arrays, of one object, which must exist. A null counts as empty.
    ///
    /// - Parameters:
    ///   - key: the object's, as in `update(_:key:with:nulls:)`.
    ///   - values: by the names of attributes in the model.
    public static func append(
        _ entity: String, key: some Encodable, with values: [String: some Encodable]
    ) throws(BrokerError) -> Self {
        Self(entity: entity, .adjust(append: try RawJSON(value: values), object: try RawJSON(value: key)))
    }
}

extension Job.Expectation {
    func write(to writer: inout JSONWriter, _ place: JSONPlace) throws(BrokerError) {
        switch condition {
        case .absent: writer.member("expect", "absent")
        case .present: writer.member("expect", "present")
        case .version(let version): writer.object("expect") { $0.member("version", version) }
        case .matching(let predicate):
            var place = place
            place.path += "/expect"
            place.levels += 1
            writer.key("expect")
            try writer.object { [place] writer throws(BrokerError) in try writer.member(predicate, in: place) }
        }
    }
}

extension Job {
    /// The ``features`` that its records and operations use.
    package var usedFeatures: [String] {
        var features: [String] = []
        if operations.contains(where: { $0.expectation != nil }) { features.append("expect") }
        if operations.contains(where: \.isAdjustment) { features.append("adjust") }
        if operations.contains(where: { $0.links != nil }) { features.append("links") }
        if names == .model || operations.contains(where: { $0.names == .model }) { features.append("names") }
        return features
    }
}

extension Job.Operation {
    fileprivate var isAdjustment: Bool { if case .adjust = action { true } else { false } }
}
