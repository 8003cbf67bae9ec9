internal import Glibc

/// The user that sent a job, or asks about one. The outcome of a job is reported to the user that sent it, to root and
/// to the server's own user.
package struct JobOwner: Sendable, Hashable {
    /// The user id at the other end of the socket, as the kernel reports it (unix(7), `SO_PEERCRED`).
    package let user: UInt32

    package init(user: UInt32) { self.user = user }

    /// The user that this process runs as.
    package static let server = JobOwner(user: geteuid())

    /// The server's own user, or root: these see the jobs of all users, and administer the server.
    package var isPrivileged: Bool { user == 0 || self == .server }

    /// - Parameter owner: the job's; nil for a job that ended before owners were stored, which every user may see.
    package func maySee(jobOf owner: JobOwner?) -> Bool { owner == nil || owner == self || isPrivileged }
}
