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

/// The committed jobs that change some entities, in the order of the jobs, each once: the feed. Each iteration subscribes again.
///
/// Commits are read as they are iterated over: a slow reader delays no one else.
public struct Commits: AsyncSequence, Sendable {
    public typealias Element = Commit
    public typealias Next = @Sendable () async throws -> Commit?

    private let begin: @Sendable () -> Next

    /// - Parameter begin: begins an iteration; its result gives the next commit, and nil at the end.
    public init(_ begin: @escaping @Sendable () -> Next) { self.begin = begin }

    public func makeAsyncIterator() -> Iterator { Iterator(next_: begin()) }

    public struct Iterator: AsyncIteratorProtocol {
        let next_: Next

        /// - Returns: nil when the client was closed or shut down, or the embedded broker stopped.
        /// - Throws: ``BrokerError``; with ``BrokerError/Code/gone`` when the next commit is no longer known.
        public mutating func next() async throws -> Commit? { try await next_() }
    }
}

extension BrokerProtocol {
    /// Follows the committed jobs that change objects of some entities, for a cache, a search index or a copy of them.
    ///
    /// ```swift
    /// for try await commit in broker.commits(of: ["Employee"], after: index.position) {
    ///     if index.position == nil {
    ///         // The first commit of a feed without a position says where it begins.
    ///         try await index.replaceAll(by: broker)
    ///     } else if !commit.changes.isEmpty {
    ///         try await index.apply(commit, by: broker)
    ///     }
    ///     index.position = commit.sequence
    ///     try index.write(to: file)
    /// }
    /// ```
    ///
    /// Without `after`, the first element has no changes, and says where the feed begins: fetch the objects then, and apply the
    /// further elements to them. What a fetch returns may be newer than a commit; a later commit names the object again. See
    /// <doc:FollowingAStore>.
    ///
    /// With a server, the feed goes on by itself after a lost connection. When the server is not back in time, it ends with
    /// ``BrokerError/Code/connectionLost``: call again with the newest sequence as `after`. A feed has no `timeout`: it waits.
    ///
    /// - Parameters:
    ///   - entities: each with its subentities; nil for all of the model.
    ///   - after: the ``Commit/sequence`` of the newest commit that was applied; nil for the commits from now on.
    ///   - reply: whether a commit has the keys of its objects.
    public func commits(
        of entities: [String]? = nil, after: Int64? = nil, reply: CommitQuery.Reply = .keys
    ) -> Commits {
        var query = CommitQuery(of: entities, after: after)
        query.reply = reply
        return commits(for: query)
    }
}
