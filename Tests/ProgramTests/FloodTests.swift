import BrokerJSON
import Foundation
import TestSupport
import Testing

/// The effects of hostile clients on a server and on its other clients.
///
/// The goal is that each job and fetch of another client is answered within a second, and within two while single jobs do as much
/// work as a job may. It holds for release builds: scripts/test --release runs these tests with them, and reports where it is not
/// reached yet (protocol/promises.md, "Overload"). The memory limit holds for every build.
@Suite(.timeLimit(.minutes(5)), .serialized) struct FloodTests {
    /// Bytes of the server's memory: its budgets, and as much again for a build that is not optimized.
    private static let memory = 600 << 20
    /// The largest contents take a build that is not optimized half a minute: they are for CI.
    private static let floods = Flood.allCases.filter {
        Cases.areAll || Programs.releaseFolder != nil || !$0.hasLargestContents
    }

    /// The objects that a job of a flood concerns.
    private static var objects: Int { Programs.releaseFolder == nil ? 5_000 : 200_000 }

    /// A build that is not optimized takes long for each beside the largest contents.
    private static func jobs(beside flood: Flood) -> Int {
        if Programs.releaseFolder != nil { return 5 }
        return flood.hasLargestContents ? 1 : 2
    }

    /// Jobs and fetches of a client that waits for each. Returns the seconds of the slowest.
    private func slowest(_ client: RawClient, beside flood: Flood, _ programs: Programs) throws -> Double {
        var slowest = Duration.zero
        for number in 0..<Self.jobs(beside: flood) {
            let took = try ContinuousClock().measure {
                let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
                #expect(answer.type == "completed", "\(answer.text)")
            }
            let read = try ContinuousClock().measure {
                // The fetches of this process wait for those of the flood, which is a part of it.
                guard !flood.isOfFetches else {
                    let fetch = ["fetch", "Employee", "--object", "\(number)", "--json", "--socket", "broker.sock"]
                    let result = try programs.run("broker", fetch)
                    #expect(result.status == 0 && result.output.contains(#""name":"E""#), "\(result)")
                    return
                }
                let fetch = #"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#
                var answer = try client.ask(fetch)
                // A reload has come between.
                while flood == .reload, answer.code == "busy" { answer = try client.ask(fetch) }
                #expect(answer["objects.0.name"] == "E", "\(answer.text)")
            }
            slowest = max(slowest, took, read)
        }
        return slowest / .seconds(1)
    }

    @Test(arguments: floods)
    func `a client beside a flood is answered in time, and the server stays within its memory`(
        _ flood: Flood
    ) throws {
        let programs = try Programs()
        try programs.write(flood.model, to: "model.json")
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let client = try RawClient(socket)
        client.setPatience(seconds: 120)
        _ = try client.ask(#"{"id": "other", "entity": "Department", "json": [{"id": 1, "name": "A"}]}"#)
        if let preparation = flood.preparation(Self.objects) {
            #expect(try client.ask(preparation).type == "completed")
        }
        let flooding = try Flooding(flood, in: programs.folder, on: socket)
        flooding.waitUntilItFlows()
        let slowest = try slowest(client, beside: flood, programs)
        let sent = flooding.stop()
        let stats = try client.ask(#"{"type": "stats"}"#)
        let resident = stats["memory.residentBytes"].flatMap { Int($0) } ?? .max
        print("\(flood): \(sent), slowest job or fetch \(slowest) s, \(resident >> 20) MiB")
        #expect(sent.frames >= 3)
        if Programs.releaseFolder != nil { #expect(slowest < flood.patience, "\(slowest) s") }
        #expect(resident < Self.memory, "\(resident) bytes")
    }

    @Test
    func `a command is served beside idle connections that take all places, and a stop does not wait for fetches`()
        throws
    {
        let programs = try Programs()
        let server = try programs.startServer(["--connections", "100"])
        let socket = programs.path("broker.sock")
        let idle = try (0..<100).map { _ in try RawClient(socket) }
        for client in idle.prefix(40) { #expect(try client.ask(#"{"type": "ping"}"#).type == "pong") }
        #expect(try idle.last?.next().code == "busy")
        // The places of this process's user are taken, but for one of another process.
        #expect(try programs.run("broker", ["ping", "--socket", socket, "--timeout", "5"]).status == 0)
        let preparation = try #require(Flood.search.preparation(0))
        #expect(try idle[0].ask(preparation).type == "completed")
        for client in idle.prefix(20) {
            for message in Flood.search.messages(programs.folder) { try client.send(message) }
        }
        let took = try ContinuousClock().measure {
            server.terminate()
            for client in idle.prefix(20) { while try client.receive() != nil {} }
            server.waitUntilExit()
        }
        #expect(server.terminationStatus == 0)
        if Programs.releaseFolder != nil { #expect(took < .seconds(5), "\(took)") }
    }
}
