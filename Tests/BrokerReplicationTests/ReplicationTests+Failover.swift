#if Replication
import Foundation
import Testing

@testable import BrokerReplication

/// Servers die and stop while groups are appended and read.
extension ReplicationTests {
    @Test func `the death of the leader loses, doubles and reorders nothing`() throws {
        let stream = try cluster.createStream("kill")
        let writers = try (0..<2).map { try GroupWriter(Session(ReplicatedStream.open(cluster.connect("kill"))), $0) }
        let reading = ReadingThread(StreamReader(try ReplicatedStream.open(cluster.connect("kill")), after: 0))
        for writer in writers { writer.start() }
        for round in 0..<3 {
            let before = writers.map(\.appended.groups)
            try waitUntil("round \(round): both sessions append") {
                zip(writers, before).allSatisfy { $0.appended.groups > $1 + 20 }
            }
            let leader = try cluster.index(of: stream.status().leader)
            let count = reading.count
            cluster.servers[leader].kill()
            let killed = writers.map(\.appended.groups)
            try waitUntil("round \(round): both sessions append after the death of \(cluster.servers[leader].name)") {
                zip(writers, killed).allSatisfy { $0.appended.groups > $1 + 5 }
            }
            try waitUntil("round \(round): the reader reads after it") { reading.count > count + 50 }
            try cluster.start(leader)
            try cluster.waitUntilCurrent(stream)
        }
        for writer in writers { try writer.finish() }
        let positions = try writers.flatMap { try $0.appended.positions }
        let last = try stream.status().lastPosition
        #expect(positions.sorted() == (1...last).map { $0 }, "an entry was lost or doubled")
        try waitUntil("everything is read") { reading.count == Int(last) || reading.error != nil }
        let entries = try reading.finish()
        #expect(entries.map(\.position) == (1...last).map { $0 })
        for writer in writers {
            let own = entries.filter { $0.entry.session == writer.session.id }
            #expect(own.map(\.entry.id) == own.indices.map { "job-\($0)" }, "an entry was lost, doubled or reordered")
            #expect(own.map(\.position) == (try writer.appended.positions))
        }
        try expectEqualCopies(stream, entries)
    }

    /// Reads each server's own copy.
    private func expectEqualCopies(_ stream: ReplicatedStream, _ entries: [DeliveredEntry]) throws {
        try cluster.waitUntilCurrent(stream)
        var seen: Set<String> = []
        try waitUntil("each copy is read") {
            let reader = StreamReader(stream, after: 0)
            let first = try #require(try reader.read(bytes: 1))
            // JetStream chooses the server.
            guard let server = reader.state.server, seen.insert(server).inserted else { return false }
            var copy = first
            while copy.count < entries.count, let more = try reader.read(bytes: 1 << 20) { copy += more }
            #expect(reader.state.server == server)
            #expect(copy == entries, "the copy of \(server) differs")
            return seen.count == 3
        }
    }

    @Test func `reading goes on after the death of the server that delivers`() throws {
        let stream = try cluster.createStream("deliverer")
        let leader = try cluster.index(of: stream.status().leader)
        let own = try ReplicatedStream.open(cluster.connect("deliverer", of: [leader]))
        let session = Session(own)
        _ = try session.append([Self.entry(session, 0)])
        // JetStream chooses the server that delivers; here neither the connection nor the leader dies with it.
        var chosen: (reader: StreamReader, server: Int)?
        try waitUntil("a follower delivers") {
            let reader = StreamReader(own, after: 0)
            _ = try reader.read(bytes: 1)
            let server = try cluster.index(of: reader.state.server)
            if server != leader { chosen = (reader, server) }
            return chosen != nil
        }
        let (reader, server) = try #require(chosen)
        cluster.servers[server].kill()
        #expect(try session.append([Self.entry(session, 1)]) == 2...2)
        #expect(try Self.read(reader, 1).first?.entry.id == "job-1")
        #expect(try cluster.index(of: reader.state.server) != server)
        #expect(own.connection.state.connections == 1)
        // JetStream may choose the dead server again, until it notices its death.
        for _ in 0..<4 {
            let start = ContinuousClock.now
            #expect(try Self.read(StreamReader(own, after: 0), 2).count == 2)
            #expect(ContinuousClock.now - start < .seconds(40), "another server is asked")
        }
        try cluster.restore()
        try cluster.waitUntilCurrent(stream)
    }

    @Test func `appending and reading wait without a quorum and go on with one`() throws {
        let stream = try cluster.createStream("quorum")
        let leader = try cluster.index(of: stream.status().leader)
        let others = cluster.servers.indices.filter { $0 != leader }
        // The connection is made to the server that goes on.
        let survivor = others[1]
        let own = try ReplicatedStream.open(cluster.connect("quorum", of: [survivor]))
        let operators = try ReplicatedStream.open(cluster.connect("quorum", of: [survivor]))
        let writer = GroupWriter(Session(own), 0)
        let reading = ReadingThread(StreamReader(own, after: 0))
        writer.start()
        try waitUntil("entries are read") { reading.count > 50 }
        cluster.servers[leader].pause()
        cluster.servers[others[0]].kill()
        try waitUntil("the session says that it waits") { (writer.session.state.waiting?.attempts ?? 0) > 0 }
        let waiting = try #require(writer.session.state.waiting)
        #expect(!waiting.reason.isEmpty)
        // A session that waits can be stopped.
        let impatient = GroupWriter(Session(own), 1)
        impatient.start()
        impatient.session.stop()
        let end = failure { () throws(ReplicationError) in try impatient.result() }
        #expect(end?.code == .stopped)
        let groups = writer.appended.groups
        #expect(failure { () throws(ReplicationError) in try own.status(patience: 500_000) }?.code == .unavailable)
        #expect(writer.appended.groups == groups)
        // An operator's command ends.
        let impatience = failure { () throws(ReplicationError) in
            try operators.within(patience: 1_000_000, failure: "did not deliver the entries") {
                () throws(ReplicationError) in try StreamReader(operators, after: 0).read(bytes: 1)
            }
        }
        #expect(impatience?.code == .unavailable)
        #expect(impatience?.message.contains("did not deliver the entries, in 1 s") == true)
        try cluster.restore()
        try waitUntil("the session goes on") { writer.appended.groups > groups + 5 }
        try writer.finish()
        let count = try writer.appended.count
        try waitUntil("the reader goes on") { reading.count == count || reading.error != nil }
        let entries = try reading.finish()
        #expect(entries.map(\.entry.id) == (0..<count).map { "job-\($0)" })
        #expect(entries.map(\.position) == (try writer.appended.positions))
        #expect(writer.session.state.waiting == nil)
        try cluster.waitUntilCurrent(stream)
    }
}

/// A thread that appends one group after the other.
final class GroupWriter: @unchecked Sendable {
    let session: Session
    let appended = Appended()
    private let seed: UInt64
    private let lock = NSLock()
    private var isFinishing = false
    private var error: ReplicationError?
    private let ended = DispatchSemaphore(value: 0)

    init(_ session: Session, _ seed: UInt64) {
        self.session = session
        self.seed = seed
    }

    convenience init(_ session: Session, _ index: Int) { self.init(session, UInt64(index)) }

    func start() {
        Foundation.Thread.detachNewThread { [self] in
            var number = 0
            while !lock.withLock({ isFinishing }) {
                let count = 1 + (number &* 7 &+ Int(seed)) % 8
                let group = (number..<number + count).map { ReplicationTests.entry(session, $0) }
                do throws(ReplicationError) {
                    appended.append(try session.append(group))
                } catch {
                    lock.withLock { self.error = error }
                    break
                }
                number += count
            }
            ended.signal()
        }
    }

    /// Ends after the group that is being appended.
    func finish() throws {
        lock.withLock { isFinishing = true }
        try result()
    }

    func result() throws(ReplicationError) {
        ended.wait()
        ended.signal()
        if let error = lock.withLock({ error }) { throw error }
    }
}

/// A thread that reads.
final class ReadingThread: @unchecked Sendable {
    private let reader: StreamReader
    private let lock = NSLock()
    private var entries: [DeliveredEntry] = []
    private var failure: ReplicationError?
    private let ended = DispatchSemaphore(value: 0)

    init(_ reader: StreamReader) {
        self.reader = reader
        Foundation.Thread.detachNewThread { [self] in
            do throws(ReplicationError) {
                while let more = try reader.read(bytes: 1 << 20) { lock.withLock { entries += more } }
            } catch {
                lock.withLock { failure = error }
            }
            ended.signal()
        }
    }

    var count: Int { lock.withLock { entries.count } }

    var error: ReplicationError? { lock.withLock { failure } }

    func finish() throws -> [DeliveredEntry] {
        reader.stop()
        ended.wait()
        if let error { throw error }
        return lock.withLock { entries }
    }
}
#endif
