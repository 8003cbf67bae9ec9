extension Job {
    /// Something that a job does to objects. Made by the functions of this type: ``process(_:as:nulls:)``,
    /// ``relate(_:_:_:to:)``, ``sync(_:as:where:actions:part:nulls:)``, ``map(_:by:)``, ``delete(_:keys:)``.
    public struct Operation: Sendable, Hashable {
        /// The operation's kind, with its values in the form in which they are sent.
        package enum Action: Sendable, Hashable {
            case process(RawJSON, object: RawJSON? = nil)
            case relate(RawJSON, relationship: String, object: RawJSON)
            case sync(RawJSON, where: BrokerPredicate?, actions: Set<SyncAction>, part: SyncPart?)
            case map(RawJSON, by: Reading)
            case delete(RawJSON)
            case deleteMatching(BrokerPredicate)
        }

        /// The entity whose objects it is about; empty of a `map`.
        public let entity: String
        package let action: Action

        package init(entity: String, _ action: Action) {
            self.entity = entity
            self.action = action
        }
    }
}

extension Job.Operation {
    /// The rule by which a payload's objects are found.
    public struct Reading: Sendable, Hashable {
        package let mapping: String?
        package let path: String?

        /// The model's mapping of that name.
        public static func mapping(_ name: String) -> Reading { Reading(mapping: name, path: nil) }

        /// The model's routes for the path that the payload came from, such as `/articles/5`.
        public static func path(_ path: String) -> Reading { Reading(mapping: nil, path: path) }

        /// The model's routes by key paths alone.
        public static let keyPaths = Reading(mapping: nil, path: nil)
    }

    /// A change that a sync may make.
    public struct SyncAction: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let insert = SyncAction(rawValue: "insert")
        public static let update = SyncAction(rawValue: "update")
        public static let delete = SyncAction(rawValue: "delete")
    }

    /// One of several jobs, over any connections, that do one sync: the last one deletes what none of them named.
    ///
    /// A part that fails has named nothing, so do not send the last one before all others are committed.
    public struct SyncPart: Sendable, Hashable {
        /// The whole sync's, 1 to 128 bytes; free again after the last part.
        public var id: String
        public var isLast: Bool

        public init(id: String, isLast: Bool) {
            self.id = id
            self.isLast = isLast
        }
    }
}

extension Set<Job.Operation.SyncAction> {
    /// Insert, update and delete.
    public static var all: Self { [.insert, .update, .delete] }
}
