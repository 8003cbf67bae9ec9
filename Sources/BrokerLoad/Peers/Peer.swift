/// Another way to the same rows.
package enum Peer: String, CaseIterable, Sendable {
    case baseline
    case broker
    case sqliteUtils = "sqlite-utils"
    case sqlite3
    case postgres
    case redis
}

/// The result of a peer's work.
package struct PeerResult: Sendable {
    package enum Work: String, Sendable {
        /// All records at once, or in large jobs.
        case bulk
        /// One record at a time, each durable before it is answered.
        case oneByOne
    }

    package let peer: Peer
    package let work: Work
    /// How the peer was asked, in a few words.
    package let means: String
    /// Records a second, each round's; empty when the peer is skipped.
    package var perSecond: [Double]
    /// Why it is skipped.
    package var skipped: String?

    /// The median of the rounds; nil when it is skipped.
    package var median: Double? { perSecond.isEmpty ? nil : perSecond.sorted()[perSecond.count / 2] }
}
