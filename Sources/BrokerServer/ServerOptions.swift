package import BrokerModel
package import BrokerSchema
package import BrokerWire
internal import Glibc
internal import NIOCore

/// The server's socket, its users and its limits.
package struct ServerOptions: Sendable {
    /// Connections at a time: each costs some tens of kilobytes at most, while it is idle.
    package static let defaultConnections = 1_024
    /// Jobs of one connection admitted and not answered; above that, the server does not read from it until some are.
    package static let defaultJobsPerConnection = 1_024
    /// Seconds that clients have for their answers when the server stops; service managers wait 90 (systemd's
    /// `DefaultTimeoutStopSec`).
    package static let defaultDrainSeconds = 30

    /// Nil for no socket: the server serves only those whom ``BrokerServer/BrokerServer/makeConnection()`` connects.
    package var socketPath: String?
    /// A socket that listens already, and which another program has made for this one; its file is left alone. Nil to
    /// make one at ``socketPath``.
    package var listeningDescriptor: Int32?
    package var frameLimits = FrameLimits()
    package var connections = defaultConnections
    package var jobsPerConnection = defaultJobsPerConnection
    /// Seconds that clients have for their answers when the server stops.
    package var drainSeconds = defaultDrainSeconds
    /// Seconds that a question waits until the server has applied the sequence that it names.
    package var applicationSeconds: Int64 = 10
    /// Users who may connect. By default the server's own and root, which may send everything.
    package var allowedUsers: [UInt32: ClientRole] = [0: .write].merging([geteuid(): .write]) { $1 }
    /// Groups whose members may connect, too: peers that had one of them, as their own or as a supplementary group,
    /// when they connected.
    package var allowedGroups: [UInt32: ClientRole] = [:]
    /// The permissions of the socket's file; peers that it lets in are checked all the same.
    package var socketAccess = SocketAccess()
    /// Begins the end of the server, as a signal does; nil where another program decides that.
    package var drain: (@Sendable () -> Void)?
    /// Reads the model again; nil where another program decides that. Must not block; reports the result once, on any
    /// thread.
    package var reload: (@Sendable (_ notify: @escaping @Sendable (ReloadEnd) -> Void) -> Void)?
    /// Changes the store to the model as it now is, or reports what that would do; nil where another program decides that.
    /// Must not block; reports the changes once, on any thread.
    package var migrate:
        (@Sendable (MigrateMessage, _ notify: @escaping @Sendable (Result<[StoreChange], Fault>) -> Void) -> Void)?
    /// A line in the log for each slow job.
    package var logsSlowJobs = false
    /// The server's name and version in `welcome`.
    package var serverName = "broker \(BrokerVersion.text)"

    /// How long a connection may stay on which the client has sent nothing yet.
    var silence = TimeAmount.seconds(30)
    /// How long a client whose connection is ended may go on sending before it is cut.
    var linger = TimeAmount.seconds(1)
    /// The limits of answers: the protocol's.
    var answerLimits = FrameLimits()
    /// A client with that many bytes of unread answers is cut off: two of the largest frames, and some. Only answers
    /// that cannot wait can gather: `pong`, `stats`, `jobs`, `model`, and small ones.
    var cutOffBytes = 40 << 20
    /// Bytes of all clients that arrived unasked, with the end of their sending sides: the contents of some hundred
    /// clients' sockets.
    var backlogBytes = 32 << 20

    package init(socketPath: String?) { self.socketPath = socketPath }
}

/// The server could not start.
package struct ServerError: Error, Sendable, CustomStringConvertible {
    /// What happened and the remedy, in one line.
    package let message: String

    init(_ message: String) { self.message = message }

    package var description: String { message }
}
