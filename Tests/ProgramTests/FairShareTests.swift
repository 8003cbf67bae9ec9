import Foundation
import TestSupport
import Testing

/// Requests of one process take nothing from another.
@Suite(.timeLimit(.minutes(5))) struct FairShareTests {
    @Test func `fetches and awaits of one process that wait cause no refusal to another process`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let operating = try RawClient(socket)
        #expect(try operating.ask(#"{"entity": "Employee", "json": {"id": 1, "name": "E"}}"#).type == "completed")
        #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
        // Each waits for the job before it, which the pause holds.
        var greedy: [RawClient] = []
        for message in [#"{"type": "fetch", "entity": "Employee"}"#, #"{"type": "await", "id": "held"}"#] {
            var isRefused = false
            for _ in 0..<60 where !isRefused {
                let client = try RawClient(socket)
                greedy.append(client)
                try client.send(#"{"id": "held", "entity": "Employee", "json": {"id": 2}}"#)
                let answer: Message
                do {
                    for _ in 0..<1_000 { try client.send(message) }
                    answer = try client.ask(#"{"type": "await", "id": "nobody"}"#)
                } catch let failure as RawClient.Failure where !failure.isTimeout {
                    // The server has closed the connection before it took all of them.
                    answer = try client.next()
                }
                isRefused = answer.code == "busy"
                #expect(isRefused || answer.code == "unknownJob", "\(answer.text)")
            }
            #expect(isRefused)
        }
        let fetched = try programs.run("broker", ["fetch", "Employee", "--socket", socket])
        #expect(fetched.status == 0, "\(fetched.complaints)")
        #expect(fetched.output.contains("E"))
        #expect(try operating.ask(#"{"type": "admin", "action": "resume"}"#).type == "done")
    }
}
