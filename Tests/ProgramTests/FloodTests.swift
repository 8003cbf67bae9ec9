import BrokerJSON
import Foundation
import TestSupport
import Testing

/// The effects of hostile clients on a server and on its other clients.
///
/// The promise is that each job of another client is answered within a second (protocol/promises.md, "Overload"). It holds for
/// release builds: scripts/test --release runs these tests with them. The memory limit holds for every build.
@Suite(.timeLimit(.minutes(5)), .serialized) struct FloodTests {
    /// Bytes of the server's memory: its budgets, and as much again for a build that is not optimized.
    private static let memory = 600 << 20
    /// The largest contents take a build that is not optimized half a minute: they are for CI.
    private static let floods = Flood.allCases.filter {
        Cases.areAll || Programs.releaseFolder != nil || $0 != .largestContents
    }

    /// A build that is not optimized takes long for each beside the largest contents.
    private static func jobs(beside flood: Flood) -> Int {
        if Programs.releaseFolder != nil { return 5 }
        return flood == .largestContents ? 1 : 2
    }

    /// Jobs of a client that waits for each. Returns the seconds of the slowest.
    private func slowestJob(_ client: RawClient, beside flood: Flood) throws -> Double {
        var slowest = Duration.zero
        for number in 0..<Self.jobs(beside: flood) {
            let took = try ContinuousClock().measure {
                let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
                #expect(answer.type == "completed", "\(answer.text)")
            }
            slowest = max(slowest, took)
        }
        return slowest / .seconds(1)
    }

    @Test(arguments: floods)
    func `a client beside a flood is answered within a second, and the server stays within its memory`(
        _ flood: Flood
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let client = try RawClient(socket)
        client.setPatience(seconds: 120)
        _ = try client.ask(#"{"id": "other", "entity": "Department", "json": [{"id": 1, "name": "A"}]}"#)
        if let preparation = flood.preparation { #expect(try client.ask(preparation).type == "completed") }
        let flooding = try Flooding(flood, in: programs.folder, on: socket)
        flooding.waitUntilItFlows()
        let slowest = try slowestJob(client, beside: flood)
        let sent = flooding.stop()
        let stats = try client.ask(#"{"type": "stats"}"#)
        let resident = stats["memory.residentBytes"].flatMap { Int($0) } ?? .max
        print("\(flood): \(sent), slowest job \(slowest) s, \(resident >> 20) MiB")
        #expect(sent.frames >= 3)
        if Programs.releaseFolder != nil { #expect(slowest < 1, "\(slowest) s") }
        #expect(resident < Self.memory, "\(resident) bytes")
    }
}
