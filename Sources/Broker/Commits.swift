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
