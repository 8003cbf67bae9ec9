package import BrokerStore

extension Coordinator {
    /// Follows the feed: the committed jobs that change some entities, in their order. It begins with those that have ended
    /// by now: call it in ``whenEnded(before:from:_:)``. Nothing is read before ``FeedSubscription/ask()``.
    ///
    /// - Parameters:
    ///   - entities: nil for those of the model.
    ///   - after: nil for the jobs from now on.
    ///   - asker: ids of jobs that it may not see are omitted.
    ///   - hasRoom: whether the client has room for a part when its turn has come.
    ///   - notify: called for each event, on a thread of the coordinator's.
    package func subscribe(
        to entities: [String]?, after: Int64?, wantsKeys: Bool, as asker: JobOwner = .server,
        hasRoom: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) -> FeedSubscription {
        readers.feed.subscribe(
            to: entities, after: after, wantsKeys: wantsKeys, as: asker, hasRoom: hasRoom, notify: notify)
    }
}
