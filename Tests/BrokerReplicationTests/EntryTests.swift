#if Replication
import TestSupport
import Testing

@testable import BrokerReplication

@Suite(.timeLimit(.minutes(5))) struct EntryTests {
    let identity = StreamIdentity()

    func decode(_ bytes: [UInt8], _ identity: StreamIdentity) throws(ReplicationError) -> ReplicatedEntry {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(ReplicationError) in try EntryEncoding.decode(bytes, at: 7, of: identity) }
        }
        return try result.get()
    }

    @Test func `an entry is decoded as it was encoded`() throws {
        var generator = SeededGenerator()
        for round in 0..<500 {
            let kind = try #require(ReplicatedEntry.Kind.allCases.randomElement(using: &generator))
            let entry = ReplicatedEntry(
                kind, session: SessionID(number: generator.next()),
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
        var entry = ReplicatedEntry(
            .job, session: SessionID(), id: String(repeating: "a", count: 128),
            payload: [UInt8](repeating: 7, count: 16 << 20))
        let bytes = try EntryEncoding.encode(entry, for: identity)
        #expect(bytes.count == ReplicatedEntry.largest)
        #expect(try decode(bytes, identity) == entry)
        entry.payload.append(0)
        let larger = entry
        let error = failure { () throws(ReplicationError) in try EntryEncoding.encode(larger, for: identity) }
        #expect(error?.code == .tooLarge)
    }

    @Test func `a changed bit, a missing byte and a further byte are errors`() throws {
        let entry = ReplicatedEntry(.model, session: SessionID(), id: "id", payload: Array("payload".utf8))
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
        let bytes = try EntryEncoding.encode(ReplicatedEntry(.job, session: SessionID()), for: StreamIdentity())
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
#endif
