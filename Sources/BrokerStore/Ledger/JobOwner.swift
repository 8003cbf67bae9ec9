internal import Glibc

/// Who sent a job, or asks about one. How a job ended is told to the user who sent it, to root and to the server's own.
public struct JobOwner: Sendable, Hashable {
    /// The user's id, as the kernel told it of the socket's other end (unix(7), `SO_PEERCRED`).
    public let user: UInt32

    public init(user: UInt32) { self.user = user }

    /// The user that this process runs as.
    public static let server = JobOwner(user: geteuid())

    /// The server's own user, or root: it sees everybody's jobs, and administers the server.
    public var isPrivileged: Bool { user == 0 || self == .server }

    /// - Parameter owner: the job's; nil of a job that ended before its owner was remembered, which anybody may see.
    public func maySee(jobOf owner: JobOwner?) -> Bool { owner == nil || owner == self || isPrivileged }
}
