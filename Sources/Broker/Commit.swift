/// A committed job that changed objects of the entities that are followed: an element of ``Commits``.
public struct Commit: Sendable, Hashable {
    /// The job's position in the total order of jobs. Stored with what was applied, it is where a follower goes on.
    public var sequence: Int64
    /// Nil when another user sent the job, and where ``changes`` is empty.
    public var id: JobID?
    /// The objects that the job inserted, updated and deleted, by entity. Empty where nothing is to be done: all jobs up to
    /// ``sequence`` were delivered, or concern other entities.
    public var changes: [String: Completion.Changes]
    /// The keys of these objects by entity and change, with ``CommitQuery/Reply/keys``; see ``keys(of:as:)``.
    public var keys: RawJSON?

    public init(
        sequence: Int64, id: JobID? = nil, changes: [String: Completion.Changes] = [:], keys: RawJSON? = nil
    ) {
        self.sequence = sequence
        self.id = id
        self.changes = changes
        self.keys = keys
    }

    /// The keys of one entity's objects; empty when the job changed none.
    ///
    /// - Parameter type: the type of a key: that of the identity's attribute, or a struct with a member for each attribute.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/notReturned`` when the job changed such objects and the commit has no keys:
    ///   they were not asked for, are too large, or are no longer stored. Fetch the entity's objects again. `DecodingError` when
    ///   a key is no such value.
    public func keys<Key: Decodable>(of entity: String, as type: Key.Type = Key.self) throws -> Completion.Keys<Key> {
        guard changes[entity] != nil else { return Completion.Keys() }
        guard let keys else {
            throw BrokerError(
                .notReturned,
                "The commit \(sequence) has no keys: they were not asked for, are too large, or are no longer stored. Fetch the "
                    + "objects of \(entity) again.", jobID: id)
        }
        return try keys.keys(of: entity)
    }
}

/// The entities to follow, and from where; see ``BrokerProtocol/commits(of:after:reply:)``.
public struct CommitQuery: Sendable, Hashable {
    /// The contents of a ``Commit``.
    public struct Reply: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// The numbers of objects.
        public static let summary = Reply(rawValue: "summary")
        /// Their keys as well.
        public static let keys = Reply(rawValue: "keys")
    }

    /// Each with its subentities; nil for all of the model.
    public var entities: [String]?
    /// The feed begins after the job of this sequence; nil: with the jobs from now on.
    public var after: Int64?
    public var reply = Reply.keys

    public init(of entities: [String]? = nil, after: Int64? = nil) {
        self.entities = entities
        self.after = after
    }
}
