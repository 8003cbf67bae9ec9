#if Replication
import Testing

@testable import BrokerReplication

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
#endif
