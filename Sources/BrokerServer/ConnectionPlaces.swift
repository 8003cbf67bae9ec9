/// The places for connections, and whether a client gets one. A pure value.
///
/// 1. A user may have another place while it has no more than are free, as in ``SharedBudget``. So one user alone gets half of
///    them, and there is always one for the next user, whatever the others hold.
/// 2. Root and the server's own user have no such share. Some places are reserved for those of their processes that have no
///    other one, so an operator can always look at the server and stop it.
struct ConnectionPlaces {
    /// Enough for the commands of some operators and monitors at once.
    private static let mostReserved = 16

    /// Those of all, with the reserved ones.
    let count: Int
    private let reserved: Int
    private var taken = 0
    private var users: [UInt32: Int] = [:]
    private var processes: [Int32: Int] = [:]

    init(_ count: Int) {
        self.count = count
        reserved = min(Self.mostReserved, count / 8)
    }

    /// - Parameter isPrivileged: it is root, or the server's own user.
    /// - Returns: whether the client has a place now, until ``leave(_:)``.
    mutating func take(_ peer: PeerCredentials, isPrivileged: Bool) -> Bool {
        let free = count - reserved - taken
        let hasShare = free > 0 && (isPrivileged || places(of: peer.user) <= free)
        guard hasShare || isPrivileged && taken < count && processes[peer.process] == nil else { return false }
        taken += 1
        users[peer.user, default: 0] += 1
        processes[peer.process, default: 0] += 1
        return true
    }

    mutating func leave(_ peer: PeerCredentials) {
        taken -= 1
        users[peer.user] = users[peer.user].flatMap { $0 > 1 ? $0 - 1 : nil }
        processes[peer.process] = processes[peer.process].flatMap { $0 > 1 ? $0 - 1 : nil }
    }

    func places(of user: UInt32) -> Int { users[user, default: 0] }
}
