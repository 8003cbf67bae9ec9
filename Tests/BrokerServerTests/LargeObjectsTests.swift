import TestSupport
import Testing

/// `reply: objects` for many objects: limited, and not at the expense of other clients.
@Suite(.timeLimit(.minutes(5)), .server) struct LargeObjectsTests {
    private let running = RunningServer.current

    /// An object of some size, under the key 1.
    private func store(objectOf bytes: Int, _ client: RawClient) throws {
        let name = String(repeating: "n", count: bytes)
        #expect(try client.ask(#"{"entity": "Department", "json": {"id": 1, "name": "\#(name)"}}"#).type == "completed")
    }

    private func ask(times count: Int) -> String {
        let records = Array(repeating: #"{"id": 1}"#, count: count).joined(separator: ",")
        return #"{"reply": "objects", "entity": "Department", "json": [\#(records)]}"#
    }

    @Test func `a small job that names many objects gets no larger answer than a fetch`() throws {
        let client = try running.connect()
        try store(objectOf: 1 << 20, client)
        let some = try client.ask(ask(times: 30))
        #expect(some["objects.0.29.id"] == "1")
        let much = try client.ask(ask(times: 5_000))
        #expect(much["changes.Department.unchanged"] == "1")
        #expect(much["objects"] == nil)
        #expect(much["warnings.0.key"] == "objects")
        #expect(much["warnings.0.count"] == "5000")
    }

    @Test func `jobs with large answers that are ready together get complete answers in order`() throws {
        let client = try running.connect()
        try store(objectOf: 1 << 19, client)
        let count = 30
        for number in 0..<count {
            try client.send(
                #"{"tag": \#(number), "reply": "objects", "entity": "Department", "json": [{"id": 1}, {"id": \#(number + 2)}]}"#
            )
        }
        for number in 0..<count {
            let answer = try client.next()
            #expect(answer["tag"] == "\(number)")
            #expect(answer["objects.0.0.name"]?.utf8.count == 1 << 19)
            #expect(answer["objects.0.1.id"] == "\(number + 2)")
        }
    }

    @Test func `a client that does not read gets the remaining answers without objects, and delays no other`()
        async throws
    {
        let (slow, other) = (try running.connect(), try running.connect())
        let name = SeededGenerator(seed: 8).text(count: 4 << 20)
        let stored = try other.ask(#"{"entity": "Department", "json": {"id": 1, "name": "\#(name)"}}"#)
        #expect(stored.type == "completed")
        // No more than may be in flight at a time: the server does not read from a client with many unread answers.
        let count = 8
        let locker = try Locker(running.storePath)
        for number in 0..<count {
            try slow.send(#"{"id": "slow-\#(number)", "reply": "objects", "entity": "Department", "json": {"id": 1}}"#)
        }
        while try other.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "\(count)" {}
        try locker.unlock()
        let last = try other.ask(#"{"type": "await", "id": "slow-\#(count - 1)"}"#)
        #expect(last.type == "completed")
        var whole = 0
        for number in 0..<count {
            let answer = try slow.next()
            #expect(answer["id"] == "slow-\(number)")
            #expect(answer["changes.Department.unchanged"] == "1")
            if answer["objects.0.0.id"] == "1" {
                whole += 1
            } else {
                #expect(answer["warnings.0.key"] == "objects")
                #expect(answer["warnings.0.count"] == "1")
            }
        }
        #expect((1..<count).contains(whole))
        #expect(
            try slow.ask(ask(times: 1))["objects.0.0.id"] == "1",
            "a client that reads its answers gets all objects again")
    }

    @Test func `a job of 100000 records gets its complete answer, and others are served meanwhile`() async throws {
        let (client, other) = (try running.connect(), try running.connect())
        #expect(try other.ask(#"{"entity": "Department", "json": {"id": 0, "name": "d"}}"#).type == "completed")
        let count = 100_000
        let records = (1...count).reversed().map { #"{"id": \#($0)}"# }.joined(separator: ",")
        async let large = offThePool {
            try client.ask(#"{"reply": "objects", "entity": "Department", "json": [\#(records)]}"#)
        }
        for _ in 0..<50 {
            #expect(try other.ask(#"{"type": "ping"}"#).type == "pong")
            #expect(try other.ask(#"{"type": "fetch", "entity": "Department", "object": 0}"#).type == "objects")
            #expect(try other.ask(#"{"entity": "Department", "json": {"id": 0}}"#).type == "completed")
        }
        let answer = try await large
        #expect(answer["changes.Department.inserted"] == "\(count)")
        #expect(answer["objects.0.0"] == #"{"id":\#(count),"name":null}"#)
        #expect(answer["objects.0.\(count - 1)"] == #"{"id":1,"name":null}"#)
        #expect(answer["objects.0.\(count)"] == nil)
    }
}
