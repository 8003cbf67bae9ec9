/// A server's description of itself.
public struct ServerInformation: Sendable, Hashable {
    /// A server's limits and retention; nil for those that it does not report.
    public struct Limits: Sendable, Hashable {
        /// A message as it goes over the socket, compressed.
        public var maximumFrameBytes: Int?
        /// A message before it is compressed.
        public var maximumContentBytes: Int?
        /// The maximum depth of nested JSON.
        public var maximumDepth: Int?
        /// The maximum bytes of a job's id.
        public var maximumIDBytes: Int?
        /// Jobs that the server has in work at once, of all clients.
        public var jobsInFlight: Int?
        /// How many outcomes are remembered, and with them the ids that are applied once.
        public var outcomesKept: Int?
        /// For how long.
        public var outcomesKeptFor: Duration?

        public init() {}
    }

    /// The server's name and version.
    public var name: String
    public var protocolVersion: Int
    /// The entities of its model, in the model's order.
    public var entities: [String]
    public var limits: Limits

    public init(name: String, protocolVersion: Int = 1, entities: [String] = [], limits: Limits = Limits()) {
        self.name = name
        self.protocolVersion = protocolVersion
        self.entities = entities
        self.limits = limits
    }
}
