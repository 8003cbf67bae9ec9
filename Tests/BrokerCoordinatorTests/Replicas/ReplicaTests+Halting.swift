import BrokerModel
import BrokerStore
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The ends of a server's part in a log.
extension ReplicaTests {
    @Test func `a server whose store differs halts, serves reads, and is halted after a start`() throws {
        let folder = TemporaryFolder()
        var replicas = try [Replica("a", log, in: folder), Replica("b", log), Replica("c", log)]
        replicas[1].test.submit(Self.row(7), id: "first")
        for replica in replicas { _ = replica.test.events.ends(1) }
        // Another program writes to the store of one.
        try Locker(replicas[0].test.storePath).execute("DELETE FROM Row; COMMIT")
        for number in 0..<1_500 { replicas[1].test.submit(Self.row(7, number), id: "\(number)") }
        #expect(replicas[0].reason.contains("that of most others"))
        #expect(replicas[0].test.statistics.contains(#""halted":true,"reason":"At position 1000"#))
        let position = replicas[0].position
        // The end of another cause changes nothing.
        replicas[0].view.report(nil)
        replicas[0].test.submit(Self.row(8), id: "refused")
        replicas[0].test.waitUntil("a refusal") { replicas[0].test.events.all.contains("ended refused -") }
        #expect(replicas[0].position == position)
        #expect(replicas[1].halt.withLock { $0 } == nil && replicas[2].halt.withLock { $0 } == nil)
        _ = replicas[1].test.events.ends(1_501)
        try expectEqual([replicas[1], replicas[2]])
        replicas.removeFirst()
        let again = try Replica("a", log, in: folder)
        #expect(again.reason.contains("that of most others"))
        #expect(again.position == position)
        #expect(try again.test.rows("SELECT count(*) FROM Row") == ["1"])
    }

    @Test func `a server that has halted reads, however many jobs it had in flight`() throws {
        let replica = try Replica("a", log) { $0.limits.jobs = 4 }
        replica.wait(for: log.count)
        replica.view.hold(true)
        for number in 0..<4 { replica.test.submit(Self.row(number), id: "\(number)") }
        replica.test.waitUntil("appended jobs") { log.count >= 6 }
        #expect(!replica.test.coordinator.hasRoom())
        let isRoom = Monitor(false)
        replica.test.coordinator.whenRoom { isRoom.update { $0 = true } }
        replica.test.coordinator.halt(StoreError(.unavailable, "for a test")) {}
        isRoom.patiently("room for a question") { $0 ? () : nil }
        #expect(replica.test.coordinator.hasRoom())
    }

    @Test func `a server that was removed halts, and takes part again when it is started again`() throws {
        let folder = TemporaryFolder()
        do {
            let replica = try Replica("a", log, in: folder)
            replica.wait(for: log.count)
            log.append(.left("a"))
            #expect(replica.reason.contains("was removed from the log"))
        }
        let replica = try Replica("a", log, in: folder)
        replica.test.submit(Self.row(1), id: "1")
        #expect(replica.test.events.ends(1)[0].code == nil)
        #expect(replica.test.statistics.contains(#""replicas":{"a":"#))
    }

    @Test func `of two servers of one name, the earlier halts`() throws {
        let first = try Replica("a", log)
        first.wait(for: log.count)
        let second = try Replica("a", log)
        #expect(first.reason.contains("Another server takes part under the name a"))
        second.test.submit(Self.row(1), id: "1")
        #expect(second.test.events.ends(1)[0].code == nil)
    }

    @Test func `servers halt where the log goes over to a fingerprint that they do not have`() throws {
        let folder = TemporaryFolder()
        let digits: String
        do {
            let replica = try Replica("a", log, in: folder)
            digits = try #require(replica.test.coordinator.statistics.now.fingerprint)
            // Its own changes nothing.
            log.append(.upgrade(fingerprint: digits))
            replica.test.submit(Self.row(1), id: "1")
            #expect(replica.test.events.ends(1)[0].code == nil)
            log.append(.upgrade(fingerprint: "0123456789abcdef"))
            #expect(replica.reason.contains("went over to the fingerprint 0123456789abcdef"))
        }
        do {
            let replica = try Replica("a", log, in: folder)
            #expect(replica.reason.contains("is 0123456789abcdef, and this server has \(digits)"))
            replica.test.submit(Self.row(2), id: "2")
            #expect(replica.test.events.ends(1)[0].code == "storeUnavailable")
        }
    }

    @Test func `an entry that cannot be opened halts, and is applied by a later start`() throws {
        let folder = TemporaryFolder()
        let first = try Replica("a", log)
        do {
            let second = try Replica("b", log, in: folder)
            first.test.coordinator.admit(
                payloadBytes: 1, payload: { Array("x".utf8) },
                open: { _ in .job(TestCoordinator.job(Array(Self.row(1).utf8), id: "odd") { _ in }) }, refuse: { _ in })
            #expect(second.reason.contains(#"Job 4 of the log (id "odd") cannot be applied"#), "\(second.reason)")
        }
        let second = try Replica("b", log, in: folder)
        #expect(second.reason.contains("cannot be applied"))
    }
}
