internal import BrokerJSON
internal import BrokerWire

extension BrokerClient {
    /// A server's description of itself.
    public struct ServerInformation: Sendable, Hashable {
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
}

extension BrokerClient.ServerInformation {
    init(_ welcome: Welcome) throws(BrokerError) {
        do throws(JSONError) {
            self.init(
                name: welcome.server, protocolVersion: welcome.version, entities: welcome.entities,
                limits: BrokerClient.Limits(try JSONDocument(parsing: JSONText(copying: welcome.limits))))
        } catch {
            throw .protocolViolation(reason: "\(error)")
        }
    }
}

extension BrokerClient.Limits {
    fileprivate init(_ document: JSONDocument) {
        func count(_ key: String) -> Int? { document.root[key]?.int64.flatMap { Int(exactly: $0) } }
        maximumFrameBytes = count("maximumFrameBytes")
        maximumContentBytes = count("maximumContentBytes")
        maximumDepth = count("maximumDepth")
        maximumIDBytes = count("maximumIdBytes")
        jobsInFlight = count("jobsInFlight")
        outcomesKept = count("outcomesKept")
        outcomesKeptFor = count("outcomesKeptSeconds").map { .seconds($0) }
        withExtendedLifetime(document) {}
    }
}
