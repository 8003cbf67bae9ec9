import Foundation
import Testing

/// A single nats-server with JetStream on the disk.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .serialized, .timeLimit(.minutes(5)))
struct NATSTests {
    private static let count = 300

    @Test(arguments: [0, 1, 2, 3] as [UInt64])
    func `Acknowledged messages survive with sync_interval always`(seed: UInt64) throws {
        let disk = try MountedDisk(seed: seed, unsynced: seed == 0 ? "none" : "some", size: 256 << 20)
        for round in 1...2 {
            let server = try NATSServer(on: disk, syncInterval: "always")
            if round == 1 { try server.makeStream() }
            try server.publish(from: (round - 1) * Self.count, count: Self.count)
            server.strike()
            try disk.cut()
        }
        let server = try NATSServer(on: disk, syncInterval: "always")
        #expect(try server.messageCount() == 2 * Self.count)
        for number in 0..<2 * Self.count { #expect(try server.message(number + 1) == NATSServer.payload(number)) }
        server.strike()
    }

    @Test func `Acknowledged messages are lost with the default sync_interval`() throws {
        let disk = try MountedDisk(unsynced: "none", size: 256 << 20)
        let first = try NATSServer(on: disk, syncInterval: nil)
        try first.makeStream()
        try first.publish(from: 0, count: Self.count)
        first.strike()
        try disk.cut()
        let second = try NATSServer(on: disk, syncInterval: nil)
        #expect(try second.messageCount() < Self.count)
        second.strike()
    }
}
