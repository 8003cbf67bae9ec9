package import BrokerCoordinator
internal import BrokerWire
internal import Glibc
internal import NIOCore
internal import Synchronization

/// The users that may connect, and their limits. A reload may change them.
package struct UserRules: Sendable {
    /// By default the server's own and root, which may send everything.
    package var allowedUsers: [UInt32: ClientRole] = [0: .write].merging([geteuid(): .write]) { $1 }
    /// Groups whose members may connect, too: peers that had one of them, as their own or as a supplementary group,
    /// when they connected.
    package var allowedGroups: [UInt32: ClientRole] = [:]
    package var connections = UserLimit()
    /// Above it, the server does not read from the user's clients.
    package var bytesInFlight = UserLimit()
    /// The same.
    package var jobsPerSecond = UserLimit()

    package init() {}
}

/// The messages that a client may send. A higher role includes the lower ones.
package enum ClientRole: String, Sendable, CaseIterable, Comparable {
    /// Fetches, the feed, `stats`, `model`, and `await` of the user's own jobs; no jobs.
    case read
    /// Also jobs that delete no object, other than parts that their owner no longer names.
    case insert
    /// Also jobs of every kind.
    case write

    private var rank: Int { Self.allCases.firstIndex(of: self)! }

    package static func < (one: ClientRole, other: ClientRole) -> Bool { one.rank < other.rank }
}

extension UserRules {
    /// The highest role that the peer has by its user and its groups; nil when it is not served.
    func role(of peer: Peer) -> ClientRole? {
        let roles = ([peer.credentials.group] + peer.supplementaryGroups).compactMap { allowedGroups[$0] }
        return (roles + [allowedUsers[peer.credentials.user]].compactMap(\.self)).max()
    }

    static func refusal(of peer: PeerCredentials) -> WireError {
        let (user, group) = (peer.user, peer.group)
        return WireError(
            .unauthorized,
            "The user with the id \(user) may not use this server. Run as its user or as root, or have its operator "
                + "add --allow-user \(user), or --allow-group with a group that you run with (\(group), for one).")
    }
}

/// When the server reads again from the clients of users that have sent too many jobs. Any thread may call.
///
/// A user may send the jobs of a second at once, and then one after each interval. Jobs are counted when they are opened, and a job
/// above the rate takes effect, too: the user's clients are then not read for the time that it is early. So over time the rate is exact.
/// (The generic cell rate algorithm of ITU-T I.371.)
final class JobRates: Sendable {
    /// Above it, users that have sent nothing for a second are forgotten.
    private static let mostIdleUsers = 256

    private struct State {
        var limit = UserLimit()
        /// By user: when all its jobs would have been sent, one after each interval.
        var due: [UInt32: NIODeadline] = [:]
    }

    private let state = Mutex(State())

    /// Users begin anew.
    func use(_ limit: UserLimit) { state.withLock { $0 = State(limit: limit) } }

    /// The user has sent a job.
    func note(_ user: UInt32, at now: @autoclosure () -> NIODeadline) {
        state.withLock { state in
            guard let limit = state.limit.of(user) else { return }
            let earliest = now() - .seconds(1)
            if state.due.count >= Self.mostIdleUsers { state.due = state.due.filter { $0.value > earliest } }
            state.due[user] = max(state.due[user] ?? earliest, earliest) + .nanoseconds(1_000_000_000 / Int64(limit))
        }
    }

    /// How long nothing is to be read from the user's clients; nil unless it has sent too much.
    func pause(of user: UInt32, at now: @autoclosure () -> NIODeadline) -> TimeAmount? {
        state.withLock { state in
            guard let due = state.due[user] else { return nil }
            let now = now()
            return due > now ? due - now : nil
        }
    }
}
