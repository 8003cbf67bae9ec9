#if Replication
import BrokerJSON
import Foundation
import TestSupport
import Testing

@testable import BrokerReplication

/// Servers and streams that are refused before anything is appended, each with a sentence that names the place and the remedy.
extension ReplicationTests {
    private func refusal(
        _ code: ReplicationError.Code, _ words: String..., from call: () throws(ReplicationError) -> Void
    ) {
        let error = failure(call)
        #expect(error?.code == code, "\(error?.message ?? "no error")")
        for word in words { #expect(error?.message.contains(word) == true, "\(error?.message ?? "")") }
    }

    /// Creates a stream by JetStream's own call, with other members than Broker's.
    static func createRaw(
        _ connection: StreamConnection, identity: StreamIdentity? = StreamIdentity(), _ changes: [String: String] = [:]
    ) throws {
        let name = connection.address.stream
        let request = StreamConfiguration.request(
            name, identity ?? StreamIdentity(), copies: 3, maximumBytes: nil)
        let document = try JSONDocument(parsing: JSONText(copying: request))
        var writer = JSONWriter()
        withExtendedLifetime(document) {
            writer.object { writer in
                for member in document.root.members {
                    guard let key = member.key.string, changes[key] == nil, key != "metadata" || identity != nil else {
                        continue
                    }
                    writer.key(key)
                    writer.value(member.value)
                }
                for (key, value) in changes {
                    writer.key(key)
                    writer.raw(value.utf8)
                }
            }
        }
        let bytes = writer.bytes
        try waitUntil("a stream is created") {
            let answer = try connection.call(
                "$JS.API.STREAM.CREATE.\(name)", bytes, patience: 20_000_000, read: { _ in })
            switch answer {
            case .success: return true
            case .failure(let failure) where failure.code == JetStreamFailure.noPeers: return false
            case .failure(let failure): throw failure
            }
        }
    }

    @Test(arguments: [
        ("discard", "\"old\""), ("storage", "\"memory\""), ("deny_delete", "false"), ("deny_purge", "true"),
        ("allow_atomic", "false"), ("subjects", "[\"configured.>\", \"also\"]"), ("max_age", "3600000000000"),
        ("max_msgs", "10"), ("max_msgs_per_subject", "5"), ("max_msg_size", "1000"), ("retention", "\"interest\""),
        ("allow_msg_ttl", "true"),
    ])
    func `a stream that is configured otherwise is refused`(member: String, value: String) throws {
        let connection = try cluster.connect("configured")
        let stream = ReplicatedStream(connection, StreamIdentity(), .standard)
        try Self.createRaw(connection, identity: stream.identity, [member: value])
        refusal(.configuredOtherwise, "configured at", "\(member) is ", "broker log create") {
            () throws(ReplicationError) in _ = try ReplicatedStream.open(connection)
        }
        try stream.remove()
    }

    @Test func `a stream that Broker did not create is refused`() throws {
        let connection = try cluster.connect("foreign")
        try Self.createRaw(connection, identity: nil)
        refusal(.configuredOtherwise, "foreign", "metadata") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(connection)
        }
    }

    @Test func `a stream that exists is not created and one that does not is not opened`() throws {
        let connection = try cluster.connect("existing")
        refusal(.noStream, "existing", "broker log create") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(connection)
        }
        let stream = try cluster.createStream("existing")
        refusal(.streamExists, "existing", "another name") { () throws(ReplicationError) in
            _ = try ReplicatedStream.create(connection)
        }
        #expect(try ReplicatedStream.open(connection).identity == stream.identity)
        refusal(.anotherStream, "existing", stream.identity.description) { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(connection, expected: StreamIdentity())
        }
        try stream.remove()
        refusal(.noStream) { () throws(ReplicationError) in _ = try stream.status() }
    }

    @Test func `fewer than three copies are refused`() throws {
        let connection = try cluster.connect("single")
        try Self.createRaw(connection, ["num_replicas": "1"])
        refusal(.tooFewPeers, "single", "1 copies", "three servers") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(connection)
        }
        let alone = try NATSCluster(1)
        refusal(.tooFewPeers, "three servers") { () throws(ReplicationError) in
            _ = try ReplicatedStream.create(alone.connection("x"))
        }
    }

    @Test func `a version that is not proven is refused`() throws {
        let stream = try cluster.createStream("version")
        let requirements = StreamRequirements(versions: ["2.9.10"])
        refusal(.unprovenVersion, "2.15.1", "2.9.10", "Install") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(stream.connection, requirements: requirements)
        }
        refusal(.unprovenVersion) { () throws(ReplicationError) in
            _ = try ReplicatedStream.create(stream.connection, requirements: requirements)
        }
    }

    @Test func `servers without JetStream and with small messages are refused`() throws {
        var options = NATSServer.Options()
        options.maximumPayload = 1 << 20
        let small = try NATSCluster(1, options)
        refusal(.payloadTooSmall, "1048576", "max_payload") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(small.connection("x"))
        }
        options = NATSServer.Options()
        options.hasJetStream = false
        let none = try NATSCluster(1, options)
        refusal(.noJetStream, "jetstream") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(none.connection("x"), patience: 1_000_000)
        }
    }

    @Test func `a survey by the system account shows servers that do not sync each write`() throws {
        let system = try cluster.connect("x", user: "system")
        let survey = try ServerSurvey(system, patience: 10_000_000)
        #expect(survey.servers.map(\.name) == ["n1", "n2", "n3"] && survey.clusterSize == 3)
        #expect(survey.servers.allSatisfy { $0.syncsAlways && $0.version == "2.15.1" && $0.hasJetStream })
        try survey.check(system)
        refusal(.unprovenVersion) { () throws(ReplicationError) in
            try survey.check(system, StreamRequirements(versions: ["2.16.0"]))
        }
        refusal(.notAuthorized, "system account") { () throws(ReplicationError) in
            _ = try ServerSurvey(cluster.connection("x"), patience: 500_000)
        }
        var options = NATSServer.Options()
        options.syncInterval = "2m"
        let alone = try NATSCluster(1, options)
        let lax = try alone.connection("x", user: "system")
        refusal(.tooFewPeers, "1 of the 1 servers") { () throws(ReplicationError) in
            try ServerSurvey(lax, patience: 5_000_000).check(lax)
        }
        refusal(.notSynced, "n1", "sync_interval: always") { () throws(ReplicationError) in
            try ServerSurvey(lax, patience: 5_000_000).check(lax, StreamRequirements(copies: 1))
        }
        withExtendedLifetime(alone) {}
    }

    @Test func `credentials that are refused and files that cannot be used are errors`() throws {
        refusal(.notAuthorized, "credentials") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(cluster.connection("x", user: "stranger"), patience: 10_000_000)
        }
        let address = try cluster.address("x")
        refusal(.unusableFile, "/none/credentials") { () throws(ReplicationError) in
            _ = try StreamConnection(address, files: ConnectionFiles(credentials: "/none/credentials"))
        }
        refusal(.unusableFile, "/none/authorities") { () throws(ReplicationError) in
            _ = try StreamConnection(address, files: ConnectionFiles(authorities: "/none/authorities"))
        }
    }

    @Test func `a connection by TLS is made only to servers whose authority is known`() throws {
        let folder = TemporaryFolder()
        let openssl = Process()
        openssl.executableURL = URL(filePath: "/usr/bin/env")
        openssl.arguments =
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                "-addext",
                "subjectAltName=IP:127.0.0.1", "-keyout", folder.path("key"), "-out", folder.path("certificate"),
            ]
        openssl.standardError = FileHandle.nullDevice
        try openssl.run()
        openssl.waitUntilExit()
        var options = NATSServer.Options()
        options.certificate = (folder.path("certificate"), folder.path("key"))
        let alone = try NATSCluster(1, options)
        let files = ConnectionFiles(authorities: folder.path("certificate"))
        let connection = try StreamConnection(StreamAddress("tls://\(alone.servers[0].url)/x"), files: files)
        #expect(try connection.server(patience: 10_000_000).name == "n1")
        // Without the file the certificate's authority is unknown.
        let error = failure { () throws(ReplicationError) in
            let other = try StreamConnection(StreamAddress("tls://\(alone.servers[0].url)/x"))
            _ = try other.server(patience: 1_000_000)
        }
        #expect(error?.code == .notAuthorized, "\(error?.message ?? "it was made")")
        withExtendedLifetime((alone, folder)) {}
    }

    @Test func `servers that do not answer are an error after the patience`() throws {
        let alone = try NATSCluster(1)
        let connection = try alone.connect("x")
        try waitUntil("the connection is made") { connection.state.isConnected }
        alone.servers[0].kill()
        refusal(.unavailable, "1 s", "no connection") { () throws(ReplicationError) in
            _ = try ReplicatedStream.open(connection, patience: 1_000_000)
        }
        #expect(!connection.state.isConnected)
        // And it is found again.
        try alone.restore()
        try waitUntil("the connection is made again") { connection.state.isConnected }
        #expect(try connection.server(patience: 5_000_000).name == "n1")
        #expect(connection.state.connections == 2)
    }
}

extension NATSCluster {
    /// As `connect`, for a call whose only error is `ReplicationError`.
    func connection(_ stream: String, user: String? = nil) throws(ReplicationError) -> StreamConnection {
        let hosts = servers.map(\.url).joined(separator: ",")
        return try StreamConnection(StreamAddress("nats://\(user.map { "\($0):\($0)@" } ?? "")\(hosts)/\(stream)"))
    }
}
#endif
