#if Replication
import BrokerJSON
import BrokerJournal
import Foundation
import TestSupport
import Testing

@testable import BrokerReplication

/// Three real servers. The tests use them one after the other.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ReplicationTests {
    let cluster: NATSCluster

    init() throws {
        cluster = try #require(NATSCluster.shared)
        try cluster.restore()
    }

    static func entry(
        _ session: Session, _ number: Int, bytes: Int = 20, _ kind: LogEntry.Kind = .job
    ) -> LogEntry {
        var payload = Array("\(number).".utf8)
        payload += [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: max(0, bytes - payload.count))
        return LogEntry(kind, session: session.id.number, id: "job-\(number)", user: 1_000, payload: payload)
    }

    /// Reads as many entries as that.
    static func read(_ reader: StreamReader, _ count: Int, bytes: Int = 1 << 20) throws -> [LogEntry] {
        var entries: [LogEntry] = []
        while entries.count < count {
            entries += try #require(try reader.read(bytes: bytes))
        }
        return entries
    }

    /// Publishes what no session would.
    static func publish(_ bytes: [UInt8], to subject: String, _ stream: ReplicatedStream) throws {
        let answer = stream.connection.request(
            subject, bytes, deadline: monotonicMicroseconds() + 5_000_000)
        guard case .message = answer else { throw Timeout(what: "\(answer)") }
    }

    // MARK: - Appending and reading

    @Test func `entries are read as they were appended`() throws {
        var generator = SeededGenerator()
        let stream = try cluster.createStream("roundtrip")
        let session = Session(stream)
        var appended: [LogEntry] = []
        for kind in EntryTests.kinds {
            let group = (0..<Int.random(in: 1...5, using: &generator)).map { number in
                LogEntry(
                    kind, session: session.id.number, id: "é\(number)", isIDMade: .random(using: &generator),
                    mayDelete: .random(using: &generator), isPrivileged: .random(using: &generator),
                    user: .random(in: 0...UInt32.max, using: &generator),
                    time: .random(in: 0...Int64.max, using: &generator),
                    payload: [UInt8](repeating: 5, count: .random(in: 0...50_000, using: &generator)))
            }
            _ = try session.append(group)
            appended += group
        }
        let read = try Self.read(StreamReader(stream, after: 0), appended.count, bytes: 10_000)
        for index in appended.indices { appended[index].position = Int64(index) + 1 }
        #expect(read == appended)
    }

    @Test func `a largest entry is appended and read`() throws {
        let stream = try cluster.createStream("largest")
        let session = Session(stream)
        let largest = LogEntry(
            .job, position: 1, session: session.id.number, id: String(repeating: "i", count: 128),
            payload: [UInt8](repeating: 3, count: EntryEncoding.largestPayload))
        #expect(try session.append([largest]) == 1...1)
        #expect(try session.append([Self.entry(session, 1)]) == 2...2)
        let entries = try Self.read(StreamReader(stream, after: 0), 2)
        #expect(entries.first == largest)
        let two = [largest, largest]
        #expect(failure { () throws(ReplicationError) in try session.append(two) }?.code == .tooLarge)
        let many = (0...1_000).map { Self.entry(session, $0) }
        #expect(failure { () throws(ReplicationError) in try session.append(many) }?.code == .tooLarge)
    }

    @Test func `positions rise and a group is contiguous while sessions interleave`() throws {
        let stream = try cluster.createStream("interleave")
        let sessions = (0..<2).map { _ in Session(stream) }
        let writers = sessions.enumerated().map { GroupWriter($1, $0) }
        for writer in writers { writer.start() }
        let ranges = writers.map(\.appended)
        try waitUntil("both have appended") { ranges.allSatisfy { $0.groups >= 40 } }
        for writer in writers { try writer.finish() }
        let counts = ranges.map(\.count)
        let total = counts.reduce(0, +)
        let read = try Self.read(StreamReader(stream, after: 0), total)
        #expect(read.map(\.position) == (1...Int64(total)).map { $0 })
        for (session, own) in zip(sessions, ranges) {
            let mine = read.filter { $0.session == session.id.number }
            #expect(mine.map(\.id) == mine.indices.map { "job-\($0)" })
            // As the append said.
            #expect(mine.map(\.position) == own.positions)
        }
        let switches = zip(read, read.dropFirst()).filter { $0.session != $1.session }.count
        #expect(switches > 2, "the sessions did not interleave")
    }

    @Test func `a reader begins at any position and returns batches of the wanted size`() throws {
        let stream = try cluster.createStream("positions")
        let session = Session(stream)
        _ = try session.append((0..<100).map { Self.entry(session, $0, bytes: 100) })
        for position in [0, 1, 57, 99] as [Int64] {
            let reader = StreamReader(stream, after: position)
            #expect(try Self.read(reader, 1, bytes: 1).first?.position == position + 1)
        }
        let reader = StreamReader(stream, after: 0)
        #expect(try reader.read(bytes: 100)?.count == 1)
        let batch = try #require(try reader.read(bytes: 250))
        #expect(batch.count <= 3 && batch.first?.position == 2)
    }

    @Test func `a second sending of a group is refused and recognised`() throws {
        let stream = try cluster.createStream("twice")
        let session = Session(stream)
        _ = try session.append([Self.entry(session, 0)])
        let subject = Session.subject(of: session.id, in: stream.name)
        let entries = try (1...3).map { try EntryEncoding.encode(Self.entry(session, $0), for: stream.identity) }
        var group = Group(name: "\(session.id)-2", entries: entries)
        let deadline = monotonicMicroseconds() + 10_000_000
        guard case .stored(4) = group.send(to: subject, after: 1, on: stream.connection, deadline: deadline)
        else {
            Issue.record("the first attempt was not stored")
            return
        }
        guard
            case .refused(let failure) = group.send(
                to: subject, after: 1, on: stream.connection, deadline: deadline)
        else {
            Issue.record("the second attempt was not refused")
            return
        }
        #expect(failure.code == JetStreamFailure.wrongLastSequence)
        // The session does not know of either: it sends the group, is refused, and finds it.
        #expect(try session.append((1...3).map { Self.entry(session, $0) }) == 2...4)
        #expect(try session.append([Self.entry(session, 4)]) == 5...5)
        #expect(try stream.status().lastPosition == 5)
    }

    @Test func `another program on the subject of a session ends its appends`() throws {
        let stream = try cluster.createStream("taken")
        let session = Session(stream)
        _ = try session.append([Self.entry(session, 0)])
        try Self.publish([1], to: Session.subject(of: session.id, in: stream.name), stream)
        let error = failure { () throws(ReplicationError) in try session.append([Self.entry(session, 1)]) }
        #expect(error?.code == .sessionTaken)
    }

    @Test func `a full stream refuses a group and takes a smaller one`() throws {
        let stream = try cluster.createStream("full", maximumBytes: 100_000)
        let session = Session(stream)
        #expect(try session.append([Self.entry(session, 0, bytes: 60_000)]) == 1...1)
        let large = Self.entry(session, 1, bytes: 60_000)
        let error = failure { () throws(ReplicationError) in try session.append([large]) }
        #expect(error?.code == .full, "\(error?.message ?? "")")
        #expect(try session.append([Self.entry(session, 2)]) == 2...2)
    }

    @Test func `a session goes on after its entries were trimmed`() throws {
        let stream = try cluster.createStream("trim")
        let session = Session(stream)
        _ = try session.append((0..<10).map { Self.entry(session, $0) })
        try stream.trim(through: 4)
        #expect(try stream.status().firstPosition == 5)
        #expect(try session.append([Self.entry(session, 10)]) == 11...11)
        try stream.trim(through: 11)
        let empty = try stream.status()
        #expect(empty.firstPosition == 12 && empty.lastPosition == 11 && empty.entries == 0)
        #expect(try session.append([Self.entry(session, 11), Self.entry(session, 12)]) == 12...13)
        #expect(try Self.read(StreamReader(stream, after: 11), 2).map(\.position) == [12, 13])
    }
}

/// The positions that a session's thread was given.
final class Appended: @unchecked Sendable {
    private let lock = NSLock()
    private var ranges: [ClosedRange<Int64>] = []

    func append(_ range: ClosedRange<Int64>) { lock.withLock { ranges.append(range) } }

    var positions: [Int64] { lock.withLock { ranges.flatMap { $0 } } }

    var count: Int { positions.count }

    var groups: Int { lock.withLock { ranges.count } }
}

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
@Suite(.timeLimit(.minutes(5))) struct EntryTests {
    /// Those that a shared log has.
    static let kinds = LogEntry.Kind.allCases.filter(\.hasPosition)

    let identity = StreamIdentity()

    func decode(_ bytes: [UInt8], _ identity: StreamIdentity) throws(ReplicationError) -> LogEntry {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(ReplicationError) in try EntryEncoding.decode(bytes, at: 7, of: identity) }
        }
        return try result.get()
    }

    @Test func `an entry is decoded as it was encoded`() throws {
        var generator = SeededGenerator()
        for round in 0..<500 {
            let kind = try #require(EntryTests.kinds.randomElement(using: &generator))
            let entry = LogEntry(
                kind, position: 7, session: generator.next(),
                id: String(repeating: "é", count: Int.random(in: 0...64, using: &generator)),
                isIDMade: .random(using: &generator), mayDelete: .random(using: &generator),
                isPrivileged: .random(using: &generator), user: .random(in: 0...UInt32.max, using: &generator),
                time: .random(in: Int64.min...Int64.max, using: &generator),
                payload: (0..<Int.random(in: 0...(round % 10 == 0 ? 100_000 : 300), using: &generator)).map { _ in
                    .random(in: 0...255, using: &generator)
                })
            #expect(try decode(EntryEncoding.encode(entry, for: identity), identity) == entry)
        }
    }

    @Test func `a largest entry is decoded as it was encoded and a larger one refused`() throws {
        var entry = LogEntry(
            .job, position: 7, session: SessionID().number, id: String(repeating: "a", count: 128),
            payload: [UInt8](repeating: 7, count: 16 << 20))
        let bytes = try EntryEncoding.encode(entry, for: identity)
        #expect(bytes.count == EntryEncoding.largest)
        #expect(try decode(bytes, identity) == entry)
        entry.payload.append(0)
        let larger = entry
        let error = failure { () throws(ReplicationError) in try EntryEncoding.encode(larger, for: identity) }
        #expect(error?.code == .tooLarge)
    }

    @Test func `a changed bit, a missing byte and a further byte are errors`() throws {
        let entry = LogEntry(.model, session: SessionID().number, id: "id", payload: Array("payload".utf8))
        let bytes = try EntryEncoding.encode(entry, for: identity)
        for bit in 0..<bytes.count * 8 {
            var damaged = bytes
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            let code = failure { () throws(ReplicationError) in try decode(damaged, identity) }?.code
            #expect(code == (bit / 8 == 3 ? .unknownFormat : .damagedEntry), "bit \(bit)")
        }
        for count in 0..<bytes.count {
            #expect(failure { () throws(ReplicationError) in try decode(Array(bytes.prefix(count)), identity) } != nil)
        }
        #expect(failure { () throws(ReplicationError) in try decode(bytes + [0], identity) }?.code == .damagedEntry)
    }

    @Test func `an entry of another stream is an error`() throws {
        let bytes = try EntryEncoding.encode(LogEntry(.job, session: SessionID().number), for: StreamIdentity())
        #expect(failure { () throws(ReplicationError) in try decode(bytes, identity) }?.code == .damagedEntry)
    }

    @Test func `an unknown kind and unknown flags are errors with the position`() throws {
        let kind = EntryEncoding.encode(
            kind: 99, flags: 0, user: 0, session: 1, id: [], payload: [], seed: identity.seed)
        let unknown = try #require(failure { () throws(ReplicationError) in try decode(kind, identity) })
        #expect(unknown.code == .unknownKind)
        #expect(unknown.message.contains("position 7") && unknown.message.contains("99"))
        let flags = EntryEncoding.encode(
            kind: 1, flags: 128, user: 0, session: 1, id: [], payload: [], seed: identity.seed)
        #expect(failure { () throws(ReplicationError) in try decode(flags, identity) }?.code == .unknownFormat)
    }

    @Test func `an identity is parsed from its description and from nothing else`() {
        #expect(StreamIdentity(identity.description) == identity)
        #expect(StreamIdentity("") == nil)
        #expect(StreamIdentity(String(repeating: "G", count: 32)) == nil)
        #expect(StreamIdentity() != StreamIdentity())
    }
}

@Suite(.timeLimit(.minutes(5))) struct StreamAddressTests {
    @Test func `an address has servers with ports and a stream`() throws {
        let address = try StreamAddress("nats://a,b:4333,[::1]:9/orders_1")
        #expect(address.servers == ["nats://a:4222", "nats://b:4333", "nats://[::1]:9"])
        #expect(address.stream == "orders_1")
        let secured = try StreamAddress("tls://me:se:cret@n1/x")
        #expect(secured.servers == ["tls://n1:4222"])
        #expect(secured.user == "me" && secured.password == "se:cret")
    }

    @Test(arguments: [
        "", "a,b/x", "http://a/x", "nats://a", "nats://a/", "nats://a/x.y", "nats://a/x*", "nats://a,,b/x", "nats:///x",
        "nats://a:0/x", "nats://a:70000/x", "nats://:5/x", "nats://user@a/x", "nats://me:secret@a/x y",
    ])
    func `an invalid address is refused without its password`(text: String) throws {
        let error = try #require(failure { () throws(ReplicationError) in try StreamAddress(text) })
        #expect(error.code == .invalidAddress)
        #expect(!error.message.contains("secret"))
    }
}

@Suite(.timeLimit(.minutes(5))) struct DeliveryOrderTests {
    func place(_ text: String) -> DeliveryPlace? {
        var text = text
        return text.withUTF8 { DeliveryPlace($0) }
    }

    @Test func `the place of a delivery is read from both forms of its reply subject`() {
        let expected = DeliveryPlace(position: 12, number: 3)
        #expect(place("$JS.ACK.L.c.1.12.3.1795738292030987897.8") == expected)
        #expect(place("$JS.ACK.dom.hash.L.c.1.12.3.1795738292030987897.8") == expected)
        #expect(place("$JS.ACK.dom.hash.L.c.1.12.3.1795738292030987897.8.random") == expected)
        #expect(place("") == nil)
        #expect(place("_INBOX.broker.1") == nil)
        #expect(place("$JS.ACK.L.c.1.x.3.4.8") == nil)
    }

    @Test func `the receiver of a message of a stream is in the name of its consumer`() {
        let id = SessionID()
        func consumer(_ text: String) -> UInt64? {
            var text = text
            return text.withUTF8 { MessageRouter.consumer($0) }
        }
        let name = MessageRouter.consumerName(id)
        #expect(consumer("$JS.ACK.broker-log.\(name).1.12.3.4.8") == id.number)
        #expect(consumer("$JS.ACK.dom.hash.L.\(name).1.12.3.4.8") == id.number)
        #expect(consumer("$JS.ACK.L.other.1.12.3.4.8") == nil)
        #expect(consumer("_INBOX.\(name).1") == nil)
        #expect(consumer("") == nil)
    }

    @Test func `each fault of the order is recognised`() {
        func place(_ position: Int64, _ number: Int64) -> DeliveryPlace {
            DeliveryPlace(position: position, number: number)
        }
        var order = DeliveryOrder(after: 4)
        #expect(order.step(to: place(5, 1)) == .next)
        #expect(order.step(to: place(6, 3)) == .lostDelivery)
        #expect(order.step(to: place(5, 2)) == .fallingPosition)
        #expect(order.step(to: place(7, 2)) == .gap)
        #expect(order.step(to: place(6, 2)) == .next)
        order.restart()
        #expect(order.step(to: place(7, 1)) == .next)
        #expect(order.position == 7)
    }
}
#endif
