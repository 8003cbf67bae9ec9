/// One job of the feed: the changes of the entities that a follower asked for.
package struct FeedCommit: Sendable, Equatable {
    package let sequence: Int64
    /// Nil for a follower that may not see whose job it is, and where no job is meant.
    package let id: String?
    /// The contract's `changes` as JSON; an empty object where no job up to the sequence changed those entities.
    package let changes: [UInt8]
    /// The contract's `keys` as JSON; nil when none were asked for, or they are not stored.
    package let keys: [UInt8]?

    /// Nothing up to this sequence concerns the follower.
    package init(nothingThrough sequence: Int64) {
        (self.sequence, id, changes, keys) = (sequence, nil, Array("{}".utf8), nil)
    }

    package init(sequence: Int64, id: String?, changes: [UInt8], keys: [UInt8]?) {
        (self.sequence, self.id, self.changes, self.keys) = (sequence, id, changes, keys)
    }

    var byteCount: Int { 128 + changes.count + (keys?.count ?? 0) }
}

/// The jobs of the feed that one follower wants.
package struct FeedSelection: Sendable {
    /// The names of the entities, with those below them.
    let entities: Set<[UInt8]>
    let wantsKeys: Bool
    /// Ids of jobs that it may not see are omitted.
    let asker: JobOwner

    package init(entities: some Sequence<String>, wantsKeys: Bool, asker: JobOwner) {
        self.entities = Set(entities.map { Array($0.utf8) })
        self.wantsKeys = wantsKeys
        self.asker = asker
    }
}

/// A part of the feed.
package struct FeedPart: Sendable {
    package var commits: [FeedCommit] = []
    /// No other job up to this sequence concerns the follower.
    package var position: Int64
    /// The newest job.
    let newest: Int64

    /// Whether there is no other job.
    package var isLast: Bool { position >= newest }
}
