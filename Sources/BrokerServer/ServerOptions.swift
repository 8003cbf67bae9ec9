public import BrokerWire
internal import Glibc
internal import NIOCore

/// What a server listens on, whom it serves and how much.
public struct ServerOptions: Sendable {
    /// Connections at a time: each costs some tens of kilobytes at most, when nothing is asked of it.
    public static let defaultConnections = 1_024
    /// Jobs of one connection admitted and not answered; beyond that it is not read until some are.
    public static let defaultJobsPerConnection = 1_024
    /// Seconds that clients have for their answers when the server stops; service managers wait 90 (systemd's
    /// `DefaultTimeoutStopSec`).
    public static let defaultDrainSeconds = 30

    /// Nil to listen nowhere, and to serve those alone that ``BrokerServer/BrokerServer/makeConnection()`` connects.
    public var socketPath: String?
    public var frameLimits = FrameLimits()
    public var connections = defaultConnections
    public var jobsPerConnection = defaultJobsPerConnection
    /// Seconds that clients have for their answers when the server stops.
    public var drainSeconds = defaultDrainSeconds
    /// Users who may connect. The server's own and root, unless told otherwise.
    public var allowedUsers: Set<UInt32> = [geteuid(), 0]
    /// Groups whose members may connect, too: those who had one of them, as their own or as a supplementary group, when
    /// they connected.
    public var allowedGroups: Set<UInt32> = []
    /// Whom the socket's file lets connect at all; those are checked all the same.
    public var socketAccess = SocketAccess()
    /// Begins the end of the server, as a signal does; nil where that is another program's.
    public var drain: (@Sendable () -> Void)?
    /// Reads the model anew; nil where that is another program's. Must not block; tells the end once, on any thread.
    public var reload: (@Sendable (_ tell: @escaping @Sendable (ReloadEnd) -> Void) -> Void)?
    /// What `welcome` says the server is.
    public var serverName = "broker"

    /// How long a client whose connection is ended may go on sending before it is cut.
    var linger = TimeAmount.seconds(1)
    /// What answers are held to: the protocol's limits.
    var answerLimits = FrameLimits()
    /// A client that lets so many bytes of answers gather is cut off: two of the largest frames, and some. Only what
    /// cannot wait can gather: `pong`, `stats`, `model`, and small answers.
    var cutOffBytes = 40 << 20

    public init(socketPath: String?) { self.socketPath = socketPath }
}

/// The server could not start.
public struct ServerError: Error, Sendable, CustomStringConvertible {
    /// What happened and the remedy, in one line.
    public let message: String

    init(_ message: String) { self.message = message }

    public var description: String { message }
}
