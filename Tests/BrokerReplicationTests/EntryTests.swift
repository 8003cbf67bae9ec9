#if Replication
import BrokerJournal
import TestSupport
import Testing

@testable import BrokerReplication

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
