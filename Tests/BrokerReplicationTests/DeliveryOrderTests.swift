#if Replication
import Testing

@testable import BrokerReplication

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
