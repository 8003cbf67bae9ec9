/// The messages that a client may send. A higher role includes the lower ones.
package enum ClientRole: String, Sendable, CaseIterable, Comparable {
    /// Fetches, the feed, `stats`, `model`, and `await` of the user's own jobs; no jobs.
    case read
    /// Also jobs that delete no object, other than parts that their owner no longer names.
    case insert
    /// Also jobs of every kind.
    case write

    package static func < (one: ClientRole, other: ClientRole) -> Bool { one.rank < other.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .insert: 1
        case .write: 2
        }
    }
}
