#if Replication
import BrokerJournal
import CNATS
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
        let positions = writers.flatMap { $0.appended.positions }
        let last = try stream.status().lastPosition
        #expect(positions.sorted() == (1...last).map { $0 }, "an entry was lost or doubled")
        try waitUntil("everything is read") { reading.count == Int(last) || reading.error != nil }
        let entries = try reading.finish()
        #expect(entries.map(\.position) == (1...last).map { $0 })
        for writer in writers {
            let own = entries.filter { $0.session == writer.session.id.number }
            #expect(own.map(\.id) == own.indices.map { "job-\($0)" }, "an entry was lost, doubled or reordered")
            #expect(own.map(\.position) == writer.appended.positions)
        }
        try expectEqualCopies(stream, entries)
    }

    /// Reads each server's own copy.
    private func expectEqualCopies(_ stream: ReplicatedStream, _ entries: [LogEntry]) throws {
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
        #expect(try Self.read(reader, 1).first?.id == "job-1")
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
        try waitUntil("the session says that it waits") { (writer.waiting?.attempts ?? 0) > 0 }
        let waiting = try #require(writer.waiting)
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
        let count = writer.appended.count
        try waitUntil("the reader goes on") { reading.count == count || reading.error != nil }
        let entries = try reading.finish()
        #expect(entries.map(\.id) == (0..<count).map { "job-\($0)" })
        #expect(entries.map(\.position) == writer.appended.positions)
        #expect(writer.waiting == nil)
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
    private var newestWait: Session.Waiting?
    private let ended = DispatchSemaphore(value: 0)

    /// Nil unless a group waits for the servers.
    var waiting: Session.Waiting? { lock.withLock { newestWait } }

    private func note(_ waiting: Session.Waiting?) { lock.withLock { newestWait = waiting } }

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
                    appended.append(try session.append(group) { self.note($0) })
                    note(nil)
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
    private var entries: [LogEntry] = []
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

    func finish() throws -> [LogEntry] {
        reader.stop()
        ended.wait()
        if let error { throw error }
        return lock.withLock { entries }
    }
}

/// Faults of the log, each of which ends a reader or a session for good with an error of its own; and the effect of `stop()`.
extension ReplicationTests {
    /// The error of a reader after it has returned so many entries.
    private func halt(_ reader: StreamReader, after count: Int) throws -> ReplicationError {
        if count > 0 { #expect(try Self.read(reader, count).count == count) }
        let error = try #require(
            failure { () throws(ReplicationError) in
                let more = try reader.read(bytes: 1)
                Issue.record("read \(more?.count ?? -1) more")
            })
        // It does not go on.
        let again = failure { () throws(ReplicationError) in _ = try reader.read(bytes: 1) }
        #expect(again?.code == error.code)
        return error
    }

    private func appended(_ name: String, _ count: Int) throws -> (ReplicatedStream, Session) {
        let stream = try cluster.createStream(name, requirements: StreamRequirements(settlingTime: 1_000_000))
        let session = Session(stream)
        _ = try session.append((0..<count).map { Self.entry(session, $0) })
        return (stream, session)
    }

    @Test func `a reader halts at a message that is no entry`() throws {
        let (stream, session) = try appended("damaged", 5)
        try Self.publish(Array("hello".utf8), to: "damaged.other", stream)
        _ = try session.append([Self.entry(session, 5)])
        let error = try halt(StreamReader(stream, after: 0), after: 5)
        #expect(error.code == .damagedEntry && error.message.contains("position 6"))
        let behind = StreamReader(stream, after: 6)
        #expect(try Self.read(behind, 1).first?.position == 7)
    }

    @Test func `a reader halts at a wrong checksum, an unknown kind and an unknown format`() throws {
        let stream = try cluster.createStream("unknown")
        let session = Session(stream)
        var damaged = try EntryEncoding.encode(Self.entry(session, 1), for: stream.identity)
        damaged[damaged.count - 1] ^= 1
        let kind = EntryEncoding.encode(
            kind: 7, flags: 0, user: 0, session: 1, id: [], payload: [], seed: stream.identity.seed)
        var format = try EntryEncoding.encode(Self.entry(session, 2), for: stream.identity)
        format[3] = 2
        for bytes in [damaged, kind, format] { try Self.publish(bytes, to: "unknown.other", stream) }
        let halts: [(Int64, ReplicationError.Code)] = [(0, .damagedEntry), (1, .unknownKind), (2, .unknownFormat)]
        for (position, code) in halts {
            let error = try halt(StreamReader(stream, after: position), after: 0)
            #expect(error.code == code && error.message.contains("position \(position + 1)"))
        }
    }

    @Test func `a reader halts at a gap`() throws {
        let connection = try cluster.connect("gap")
        try Self.createRaw(connection, ["deny_delete": "false"])
        let stream = try ReplicatedStream.open(
            connection, requirements: StreamRequirements(comparesConfiguration: false))
        let session = Session(stream)
        _ = try session.append((0..<6).map { Self.entry(session, $0) })
        let answer = try connection.call(
            "$JS.API.STREAM.MSG.DELETE.gap", Array("{\"seq\":4}".utf8), patience: 10_000_000, read: { _ in })
        guard case .success = answer else {
            Issue.record("\(answer)")
            return
        }
        let error = try halt(StreamReader(stream, after: 0), after: 3)
        #expect(error.code == .gap && error.message.contains("4 to 4"), "\(error.message)")
    }

    @Test func `a reader halts when entries that it has not read were trimmed`() throws {
        let (stream, _) = try appended("trimmed", 10)
        try stream.trim(through: 6)
        let error = try halt(StreamReader(stream, after: 3), after: 0)
        #expect(error.code == .trimmed && error.message.contains("begins at position 7"), "\(error.message)")
    }

    @Test func `a reader halts when what it has not read is trimmed meanwhile`() throws {
        let (stream, session) = try appended("trimming", 1)
        for group in 0..<12 { _ = try session.append((0..<1_000).map { Self.entry(session, group * 1_000 + $0) }) }
        let reader = StreamReader(stream, after: 0)
        #expect(try Self.read(reader, 1, bytes: 1).first?.position == 1)
        // It has asked for fewer entries than that.
        try stream.trim(through: 11_000)
        var last: Int64 = 1
        let error = failure { () throws(ReplicationError) in
            while let entries = try reader.read(bytes: 1 << 20) { last = entries.last?.position ?? last }
        }
        #expect(error?.code == .trimmed, "\(error?.message ?? "")")
        #expect(last < 11_000)
    }

    @Test func `a reader halts when the stream ends before their position`() throws {
        let (stream, _) = try appended("short", 3)
        let error = try halt(StreamReader(stream, after: 8), after: 0)
        #expect(error.code == .endsBefore, "\(error.message)")
        #expect(error.message.contains("ends at position 3") && error.message.contains("lost position 8"))
    }

    @Test func `a reader and a session halt at another stream under the name`() throws {
        let (stream, session) = try appended("another", 3)
        let reader = StreamReader(stream, after: 0)
        #expect(try Self.read(reader, 3).count == 3)
        try stream.remove()
        let other = try cluster.createStream("another")
        let error = try halt(reader, after: 0)
        #expect(error.code == .anotherStream && error.message.contains(other.identity.description))
        let codes = [session, Session(stream)].map { session in
            failure { () throws(ReplicationError) in try session.append([Self.entry(session, 3)]) }?.code
        }
        #expect(codes == [.anotherStream, .anotherStream])
        #expect(try other.status().lastPosition == 0)
    }

    @Test func `a reader halts when the stream was removed`() throws {
        let (stream, session) = try appended("removed", 3)
        let reader = StreamReader(stream, after: 0)
        #expect(try Self.read(reader, 3).count == 3)
        try stream.remove()
        #expect(try halt(reader, after: 0).code == .noStream)
        let error = failure { () throws(ReplicationError) in try session.append([Self.entry(session, 3)]) }
        #expect(error?.code == .noStream)
    }

    @Test func `a reader reads again what was lost on its way`() throws {
        let (stream, session) = try appended("lost", 1)
        let reader = StreamReader(stream, after: 0)
        #expect(try Self.read(reader, 1).count == 1)
        func consumer() throws -> String? {
            try stream.connection.call(
                "$JS.API.CONSUMER.NAMES.lost", patience: 10_000_000,
                read: { $0["consumers"]?.elements.map(\.string).last ?? nil }
            ).get()
        }
        let before = try #require(try consumer())
        // Another client takes some of its deliveries.
        let thief = try cluster.connect("lost")
        natsConnection_PublishRequestString(
            thief.connection, "$JS.API.CONSUMER.MSG.NEXT.lost.\(before)", thief.router.subject(of: SessionID(), 0),
            "{\"batch\": 5}")
        natsConnection_Flush(thief.connection)
        _ = try session.append((1...20).map { Self.entry(session, $0) })
        let entries = try Self.read(reader, 20)
        #expect(entries.map(\.id) == (1...20).map { "job-\($0)" })
        #expect(entries.map(\.position) == (2...21).map { $0 })
        #expect(try consumer() != before, "nothing was lost")
    }

    @Test func `stop ends a reader that waits for entries`() throws {
        let (stream, _) = try appended("stopped", 3)
        let readers = [StreamReader(stream, after: 3), StreamReader(stream, after: 0)]
        _ = try Self.read(readers[1], 3)
        let ended = readers.map { reader in
            let ended = DispatchSemaphore(value: 0)
            Foundation.Thread.detachNewThread {
                let entries = Result { try reader.read(bytes: 1) }
                if case .success(nil) = entries { ended.signal() }
            }
            return ended
        }
        try waitUntil("the readers wait") { readers.allSatisfy { $0.state.server != nil } }
        readers[0].stop()
        #expect(ended[0].wait(timeout: .now() + 2) == .success)
        #expect(try stream.status().lastPosition == 3)
        stream.stop()
        #expect(ended[1].wait(timeout: .now() + 2) == .success)
        #expect(failure { () throws(ReplicationError) in try stream.status() }?.code == .stopped)
        #expect(try readers[0].read(bytes: 1) == nil)
    }
}
#endif
