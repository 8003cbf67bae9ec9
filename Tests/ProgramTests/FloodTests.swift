import BrokerJSON
import Foundation
import TestSupport
import Testing

/// The effects of hostile clients on a server and on its other clients.
///
/// Times and memory are held against the same work alone, and so generously that only a server fails which lets one client
/// have what is everybody's.
@Suite(.timeLimit(.minutes(5)), .serialized) struct FloodTests {
    /// Bytes of the server's memory: its budgets, and as much again for a build that is not optimized.
    private static let memory = 600 << 20
    private static let jobs = 3

    /// So many jobs of one who waits for each. Gives back the seconds that they took.
    private func work(_ client: RawClient) throws -> Double {
        let clock = ContinuousClock()
        let took = try clock.measure {
            for number in 0..<Self.jobs {
                let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
                #expect(answer.type == "completed", "\(answer.text)")
            }
        }
        return took / .seconds(1)
    }

    @Test(arguments: Flood.allCases)
    func `one who works beside a flood is served, and the server keeps to its memory`(_ flood: Flood) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let client = try RawClient(socket)
        client.setPatience(seconds: 120)
        _ = try client.ask(#"{"id": "other", "entity": "Department", "json": [{"id": 1, "name": "A"}]}"#)
        let alone = try work(client)
        let flooding = try Flooding(flood, in: programs.folder, on: socket)
        flooding.waitUntilItFlows()
        let beside = try work(client)
        let sent = flooding.stop()
        let stats = try client.ask(#"{"type": "stats"}"#)
        let resident = stats["memory.residentBytes"].flatMap { Int($0) } ?? .max
        print("\(flood): \(sent), alone \(alone) s, beside it \(beside) s, \(resident >> 20) MiB")
        #expect(sent.frames >= 3)
        #expect(beside < 200 * alone + 60, "\(beside) s, alone \(alone) s")
        #expect(resident < Self.memory, "\(resident) bytes")
    }
}
