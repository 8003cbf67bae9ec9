public import BrokerWire
internal import Glibc

/// What a server listens on, whom it serves and how much.
public struct ServerOptions: Sendable {
    /// Connections at a time; each costs little, but each may hold one frame.
    public static let defaultConnections = 256
    /// Jobs of one connection admitted and not answered; beyond that it is not read until some are.
    public static let defaultJobsPerConnection = 1_024

    public var socketPath: String
    public var frameLimits = FrameLimits()
    public var connections = defaultConnections
    public var jobsPerConnection = defaultJobsPerConnection
    /// Users who may connect. The server's own and root, unless told otherwise.
    public var allowedUsers: Set<UInt32> = [geteuid(), 0]
    /// What `welcome` says the server is.
    public var serverName = "broker"

    public init(socketPath: String) { self.socketPath = socketPath }
}

/// The server could not start.
public struct ServerError: Error, Sendable, CustomStringConvertible {
    /// What happened and the remedy, in one line.
    public let message: String

    init(_ message: String) { self.message = message }

    public var description: String { message }
}
