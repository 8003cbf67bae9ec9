internal import BrokerStore

/// A limit of each user. Root and the server's own user have none, so that an operator can always administer the server.
package struct UserLimit: Sendable, Equatable {
    /// Of a user without one of its own; nil for none.
    package var others: Int?
    package var own: [UInt32: Int] = [:]

    package init() {}

    package func of(_ user: UInt32) -> Int? { JobOwner(user: user).isPrivileged ? nil : own[user] ?? others }
}
