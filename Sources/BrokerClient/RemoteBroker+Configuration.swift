package import BrokerWire
public import NIOCore

/// Where a server listens.
public struct BrokerAddress: Sendable, Hashable, CustomStringConvertible {
    let path: String

    /// The path of a Unix socket.
    public static func unixSocket(_ path: String) -> BrokerAddress { BrokerAddress(path: path) }

    public var description: String { path }
}

/// The state of a client's connection.
public struct BrokerConnectionState: Sendable, Hashable, CustomStringConvertible {
    public let description: String

    /// There is no connection, and nothing waits for one.
    public static let idle = BrokerConnectionState(description: "idle")
    /// The connection is being established, for the first time or again.
    public static let connecting = BrokerConnectionState(description: "connecting")
    /// A server has welcomed the client.
    public static let connected = BrokerConnectionState(description: "connected")
    /// The client was closed.
    public static let closed = BrokerConnectionState(description: "closed")
}

extension RemoteBroker {
    /// How a client connects, how much it sends at once, and how long it waits.
    public struct Configuration: Sendable {
        /// A name for the server's logs.
        public var name: String?
        /// The maximum time until a server's welcome, on each connection. The first connection of ``RemoteBroker/connect(to:configuration:logger:)``
        /// is tried again until then.
        public var connectTimeout = Duration.seconds(10)
        /// Whether the first connection of `connect(to:)` is tried again.
        package var waitsForServer = true
        /// The maximum time without a connection. After it, unanswered requests fail: jobs that were sent with
        /// ``/Broker/BrokerError/Code/outcomeUnknown``, the others with ``/Broker/BrokerError/Code/connectionLost``, or with
        /// ``/Broker/BrokerError/Code/cannotConnect`` when no server was ever reached. It restarts when
        /// the server has answered a request; a welcome alone does not count, or a server that welcomes and closes would be tried
        /// forever.
        public var reconnectDeadline = Duration.seconds(30)
        /// The maximum time without an answer while a request is unanswered, connected or not; nil for no limit.
        /// Unanswered requests then fail as after ``reconnectDeadline``, and the connection is closed. A welcome is no
        /// answer.
        public var answerTimeout: Duration?
        /// The maximum time of a server's frame from its first byte to its last. Jobs have no such limit, because their
        /// senders know how long they take: see the `timeout` of each call.
        public var frameTimeout = Duration.seconds(30)
        /// The maximum time that a graceful shutdown waits for what is unanswered.
        public var shutdownTimeout = Duration.seconds(30)
        /// The maximum number of unanswered jobs of a connection; others wait. 64 let a server's writer commit jobs in groups.
        public var maximumJobsInFlight = 64
        /// The maximum bytes of unanswered frames of a connection: four of the largest.
        public var maximumBytesInFlight = 4 * FrameLimits.largestPayloadCount
        /// The limits of frames in both directions.
        package var frameLimits = FrameLimits()
        /// Where connections run; nil for NIO's own group.
        public var eventLoopGroup: (any EventLoopGroup)?

        /// The defaults.
        public init(name: String? = nil) { self.name = name }
    }
}

extension Session.Patience {
    init(_ configuration: RemoteBroker.Configuration, firstDelay: TimeAmount) {
        self.init(
            reconnecting: TimeAmount(limited: configuration.reconnectDeadline),
            welcome: TimeAmount(limited: configuration.connectTimeout),
            first: configuration.waitsForServer ? TimeAmount(limited: configuration.connectTimeout) : .zero,
            answer: configuration.answerTimeout.map { TimeAmount(limited: $0) }, firstDelay: firstDelay)
    }
}

extension TimeAmount {
    /// A year at most, so that adding it to now is always possible.
    init(limited duration: Duration) {
        self.init(min(max(duration, .zero), .seconds(365 * 86_400)))
    }
}
