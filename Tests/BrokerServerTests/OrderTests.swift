import BrokerCoordinator
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct OrderTests {
    private let running = RunningServer.current

    @Test func `a client that ends its sending side gets every answer that is due, in order`() throws {
        let client = try running.connect()
        for number in 1...200 {
            try client.send(#"{"id": "\#(number)", "entity": "Department", "json": {"id": 1, "name": "\#(number)"}}"#)
        }
        client.endSending()
        for number in 1...200 {
            let completed = try client.next()
            #expect(completed["id"] == "\(number)")
            #expect(completed.sequence == number)
        }
        #expect(try client.receive() == nil)
    }

    @Test func `200 jobs of four connections that write one row leave the last ticket's value`() throws {
        let clients = try (0..<4).map { _ in try running.connect() }
        for number in 0..<200 {
            try clients[number % 4].send(
                #"{"id": "\#(number)", "entity": "Department", "json": {"id": 1, "name": "name \#(number)"}}"#)
        }
        var names: [Int: String] = [:]
        for client in clients {
            var last = 0
            for _ in 0..<50 {
                let completed = try client.next()
                #expect(completed.sequence > last, "a connection's completions come in sequence order")
                last = completed.sequence
                names[completed.sequence] = "name \(completed["id"] ?? "")"
            }
        }
        #expect(names.keys.sorted() == Array(1...200))
        // The same value again changes nothing, so the store holds it.
        let name = names[200] ?? ""
        let check = try clients[0].ask(#"{"entity": "Department", "json": {"id": 1, "name": "\#(name)"}}"#)
        #expect(check["changes.Department.unchanged"] == "1")
    }

    private static let narrow: CoordinatorLimits = {
        var limits = CoordinatorLimits(workers: 1)
        limits.bytes = 64 << 10
        limits.jobs = 4
        return limits
    }()

    @Test(.server(limits: narrow)) func `stats are answered while a client fills the server`() throws {
        let greedy = try running.connect()
        let records = (0..<2_000).map { #"{"id": \#($0), "name": "department number \#($0)"}"# }.joined(separator: ",")
        let jobs = 24
        // Fire and forget: all the answers fit the socket, so sending alone is what waits.
        for number in 0..<jobs {
            try greedy.send(#"{"id": "\#(number)", "reply": "none", "entity": "Department", "json": [\#(records)]}"#)
            if number % 8 == 0 {
                let stats = try running.connect().ask(#"{"type": "stats"}"#)
                #expect(stats.type == "stats")
            }
        }
        greedy.endSending()
        for number in 0..<jobs { #expect(try greedy.next()["id"] == "\(number)") }
    }
}
