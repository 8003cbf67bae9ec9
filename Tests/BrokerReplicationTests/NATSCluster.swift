#if Replication
import Foundation
import Testing

@testable import BrokerReplication

/// Real servers of NATS with JetStream. A test leaves them as it found them: all running.
final class NATSCluster {
    let servers: [NATSServer]
    private let options: NATSServer.Options
    private let isClustered: Bool

    /// Three servers for all tests that change nothing of theirs for good.
    ///
    /// The tests that use it are serialized, so one thread at a time uses it.
    nonisolated(unsafe) static let shared: NATSCluster? = {
        do { return try NATSCluster(3) } catch {
            Issue.record("\(error): nats-server is missing; run need_nats of scripts/install-dependencies")
            return nil
        }
    }()

    init(_ count: Int, _ options: NATSServer.Options = NATSServer.Options()) throws {
        let folder = NSTemporaryDirectory() + "broker-nats-\(UUID().uuidString.prefix(8))"
        self.options = options
        isClustered = count > 1
        servers = try (1...count).map { try NATSServer("n\($0)", in: folder) }
        for index in servers.indices { try start(index) }
    }

    func start(_ index: Int) throws {
        try servers[index].start(options, routes: isClustered ? servers.map(\.routePort) : nil)
    }

    /// Starts and continues what a test has ended and stopped.
    func restore() throws {
        for (index, server) in servers.enumerated() {
            server.resume()
            if !server.isRunning { try start(index) }
        }
    }

    func index(of name: String?) throws -> Int { try #require(servers.firstIndex { $0.name == name }) }

    func address(_ stream: String, of indices: [Int]? = nil, user: String? = nil) throws -> StreamAddress {
        let hosts = (indices ?? Array(servers.indices)).map { servers[$0].url }.joined(separator: ",")
        return try StreamAddress("nats://\(user.map { "\($0):\($0)@" } ?? "")\(hosts)/\(stream)")
    }

    func connect(_ stream: String, of indices: [Int]? = nil, user: String? = nil) throws -> StreamConnection {
        try StreamConnection(try address(stream, of: indices, user: user))
    }

    /// Creates a stream when the servers have found each other.
    func createStream(
        _ name: String, maximumBytes: Int64? = nil, requirements: StreamRequirements = .standard
    ) throws -> ReplicatedStream {
        let connection = try connect(name)
        var stream: ReplicatedStream?
        var failure: ReplicationError?
        try waitUntil("the stream \(name) is created") {
            do throws(ReplicationError) {
                stream = try ReplicatedStream.create(connection, maximumBytes: maximumBytes, requirements: requirements)
            } catch {
                guard error.code == .tooFewPeers || error.code == .unavailable || error.code == .noJetStream else {
                    failure = error
                    return true
                }
            }
            return stream != nil
        }
        if let failure { throw failure }
        let created = try #require(stream)
        try waitUntilCurrent(created)
        return created
    }

    /// Waits until all copies are complete.
    func waitUntilCurrent(_ stream: ReplicatedStream) throws {
        try waitUntil("all copies of \(stream.name) are complete") {
            guard let status = try? stream.status(patience: 1_000_000), status.leader != nil else { return false }
            return status.copies == 3 && status.peers.allSatisfy { $0.isCurrent && !$0.isOffline && $0.lag == 0 }
        }
    }
}
#endif
