import BrokerCoordinator
import TestSupport
import Testing

@testable import BrokerServer

@Suite(.timeLimit(.minutes(5)), .server) struct FetchTests {
    private let running = RunningServer.current
    private let client: RawClient

    init() throws { client = try running.connect() }

    @Test func `a fetch sees the jobs before it on its connection`() throws {
        // Nothing is awaited between the two, so the fetch must wait for the job itself.
        for number in 1...200 {
            try client.send(#"{"entity": "Department", "notify": [], "json": {"id": 1, "name": "\#(number)"}}"#)
            try client.send(#"{"type": "fetch", "entity": "Department", "tag": \#(number)}"#)
        }
        var seen: [Int: Int] = [:]
        for _ in 1...200 {
            let objects = try client.next()
            seen[try #require(objects["tag"].flatMap { Int($0) })] = objects["objects.0.name"].flatMap { Int($0) }
        }
        // Later jobs may be seen, too.
        for number in 1...200 { #expect(seen[number] ?? 0 >= number) }
    }

    @Test func `a fetch sees what became of a failed job: nothing`() throws {
        try client.send(#"{"entity": "Employee", "json": {"id": 1}}"#)
        try client.send(#"{"type": "fetch", "entity": "Employee"}"#)
        let answers = [try client.next(), try client.next()]
        #expect(answers.contains { $0.code == "missingValue" })
        #expect(answers.contains { $0["objects"] == "[]" }, "answers may overtake each other")
    }

    @Test(arguments: [
        (#""entity": "Employe""#, "unknownEntity", "/entity"),
        (#""names": "both", "entity": "Employee""#, "unsupportedMessage", "/names"),
        (#""entity": "Employee", "limit": 100001"#, "unsupportedMessage", "/limit"),
        (#""entity": "Employee", "limit": -1"#, "unsupportedMessage", "/limit"),
        (#""entity": "Employee", "offset": 1.5"#, "unsupportedMessage", "/offset"),
        (#""entity": "Employee", "sort": ["nam"]"#, "unsupportedMessage", "/sort/0"),
        (#""entity": "Employee", "sort": "name""#, "unsupportedMessage", "/sort"),
        (#""entity": "Employee", "include": ["department", "department.boss"]"#, "unknownRelationship", "/include/1"),
        (#""entity": "Employee", "object": "x""#, "invalidValue", "/object"),
        (#""entity": "Employee", "where": "nam == 1""#, "invalidPredicate", "/where"),
        (#""entity": "Employee", "where": "name == %@""#, "invalidPredicate", "/where"),
        (#""entity": "Employee", "arguments": []"#, "unsupportedMessage", "/arguments"),
        (#""sort": ["name"]"#, "unsupportedMessage", "/entity"),
    ])
    func `a fault of a fetch is reported with its code and its position`(
        fields: String, code: String, path: String
    ) throws {
        let error = try client.ask(#"{"type": "fetch", "tag": "t", \#(fields)}"#)
        #expect(error.type == "error")
        #expect(error.code == code)
        #expect(error["error.path"] == path)
        #expect(error["tag"] == "t")
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `a long fetch does not hold back a short one, not even on its connection`() throws {
        let records = (1...50_000).map { #"{"id": \#($0), "name": "employee number \#($0)", "department": 1}"# }
            .joined(separator: ",")
        #expect(try client.ask(#"{"entity": "Employee", "json": [\#(records)]}"#).type == "completed")
        try client.send(#"{"type": "fetch", "tag": "long", "entity": "Employee", "limit": 50000, "sort": ["-name"]}"#)
        try client.send(#"{"type": "fetch", "tag": "short", "entity": "Employee", "object": 7}"#)
        let first = try client.next()
        #expect(first["tag"] == "short")
        #expect(first["objects.0.name"] == "employee number 7")
        let second = try client.next()
        #expect(second["tag"] == "long")
        #expect(second["objects.0.name"] == "employee number 9999")
        #expect(second["more"] == nil)
    }

    @Test func `many long answers to a client that reads late all come`() throws {
        let records = (1...8_000).map { #"{"id": \#($0), "name": "employee number \#($0)"}"# }
            .joined(separator: ",")
        #expect(try client.ask(#"{"entity": "Employee", "json": [\#(records)]}"#).type == "completed")
        for number in 1...12 {
            try client.send(#"{"type": "fetch", "tag": \#(number), "entity": "Employee", "limit": 8000}"#)
        }
        var tags: [String] = []
        for _ in 1...12 {
            let objects = try client.next()
            #expect(objects["objects.7999.id"] == "8000")
            tags.append(objects["tag"] ?? "")
        }
        #expect(Set(tags).count == 12)
    }
}

/// Subscriptions, as clients see them.
@Suite(.timeLimit(.minutes(5)), .server) struct FeedTests {
    private let running = RunningServer.current

    private func write(_ client: RawClient, _ number: Int, name: String = "x") throws {
        let json = #"{"id": \#(number), "name": "\#(name)"}"#
        let answer = try client.ask(#"{"id": "job-\#(number)", "entity": "Department", "json": \#(json)}"#)
        #expect(answer.type == "completed")
    }

    @Test func `a subscription sends each commit once, in order, with the tag`() throws {
        let (writer, follower) = (try running.connect(), try running.connect())
        try write(writer, 1)
        let subscribed = try follower.ask(#"{"type": "subscribe", "tag": "t", "reply": "keys"}"#)
        #expect(subscribed.text == #"{"type":"subscribed","after":1,"oldest":0,"tag":"t"}"#)
        for number in 2...30 {
            try write(writer, number)
            #expect(
                try follower.next().text
                    == #"{"type":"committed","id":"job-\#(number)","sequence":\#(number),"#
                    + #""changes":{"Department":{"inserted":1}},"#
                    + #""keys":{"Department":{"inserted":[\#(number)]}},"tag":"t"}"#)
        }
        // The same job again is a duplicate, and a failed one changes nothing.
        let again = #"{"id": "job-2", "entity": "Department", "json": {"id": 2, "name": "x"}}"#
        #expect(try writer.ask(again)["duplicate"] == "true")
        #expect(try writer.ask(#"{"entity": "Employee", "json": {"id": 1}}"#).type == "failed")
        try write(writer, 31)
        #expect(try follower.next()["id"] == "job-31")
        #expect(try follower.ask(#"{"type": "stats"}"#)["subscriptions"] == "1")
        #expect(try follower.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `a follower goes on after any sequence, and gets the entities that it names`() throws {
        let writer = try running.connect()
        for number in 1...20 {
            try write(writer, number)
            _ = try writer.ask(#"{"entity": "Employee", "json": {"id": \#(number), "name": "n"}}"#)
        }
        for after in 0...40 {
            let follower = try running.connect()
            let message = #"{"type": "subscribe", "entities": ["Employee"], "after": \#(after)}"#
            #expect(try follower.ask(message).text == #"{"type":"subscribed","after":\#(after),"oldest":0}"#)
            for number in stride(from: 2, through: 40, by: 2) where number > after {
                let commit = try follower.next()
                #expect(commit.sequence == number)
                #expect(commit["changes.Employee.inserted"] == "1")
                #expect(commit["changes.Department"] == nil)
                #expect(commit["keys"] == nil)
            }
            #expect(try follower.ask(#"{"type": "ping"}"#).type == "pong", "nothing else follows")
        }
    }

    private static let hierarchy = """
        {"entities": {
          "Thing": {"identity": "id", "attributes": {"id": "integer64"}},
          "Car": {"parent": "Thing"}, "Van": {"parent": "Car"}, "Ship": {"parent": "Thing"}
        }}
        """

    @Test(.server(model: hierarchy)) func `an entity is followed with its subentities, and a subentity alone`() throws {
        let (writer, follower) = (try running.connect(), try running.connect())
        for (entity, number) in zip(["Thing", "Car", "Van", "Ship"], 1...) {
            _ = try writer.ask(#"{"entity": "\#(entity)", "json": {"id": \#(number)}}"#)
        }
        for (entity, sequences) in [("Thing", [1, 2, 3, 4]), ("Car", [2, 3]), ("Van", [3]), ("Ship", [4])] {
            let message = #"{"type": "subscribe", "tag": "\#(entity)", "entities": ["\#(entity)"], "after": 0}"#
            #expect(try follower.ask(message).type == "subscribed")
            for sequence in sequences { #expect(try follower.next().sequence == sequence, "of \(entity)") }
            #expect(try follower.ask(#"{"type": "ping"}"#).type == "pong", "nothing else follows")
        }
    }

    @Test(.server(outcomesKept: 10)) func `what is not there is gone, with the oldest that is`() throws {
        let client = try running.connect()
        for number in 1...60 { try write(client, number) }
        let gone = try client.ask(#"{"type": "subscribe", "after": 1, "tag": 7}"#)
        #expect(gone.type == "error")
        #expect(gone.code == "gone")
        #expect(gone["tag"] == "7")
        let oldest = try #require(gone["error.oldest"].flatMap { Int($0) })
        #expect((45...50).contains(oldest))
        #expect(try client.ask(#"{"type": "subscribe", "after": \#(oldest - 1)}"#).code == "gone")
        #expect(try client.ask(#"{"type": "subscribe", "after": 61}"#).code == "gone")
        let subscribed = try client.ask(#"{"type": "subscribe", "after": \#(oldest)}"#)
        #expect(subscribed.type == "subscribed")
        #expect(subscribed["oldest"] == "\(oldest)")
        #expect(try client.next().sequence == oldest + 1)
    }

    @Test(arguments: [
        (#""entities": ["Employee", "Nobody"]"#, "unknownEntity", "/entities/1"),
        (#""entities": []"#, "unsupportedMessage", "/entities"),
        (#""entities": "Employee""#, "unsupportedMessage", "/entities"),
        (#""entities": [1]"#, "unsupportedMessage", "/entities/0"),
        (#""after": -1"#, "unsupportedMessage", "/after"), (#""after": "1""#, "unsupportedMessage", "/after"),
        (#""after": 9223372036854775808"#, "unsupportedMessage", "/after"),
        (#""after": 9007199254740992"#, "gone", "/after"), (#""after": 9223372036854775807"#, "gone", "/after"),
        (#""reply": "objects""#, "unsupportedMessage", "/reply"),
    ])
    func `a subscription that cannot be is refused, and the connection goes on`(
        _ fields: String, _ code: String, _ path: String
    ) throws {
        let client = try running.connect()
        let error = try client.ask(#"{"type": "subscribe", "tag": 1, \#(fields)}"#)
        #expect(error.code == code)
        #expect(error["error.path"] == path)
        #expect(error["tag"] == "1")
        #expect(try client.ask(#"{"type": "stats"}"#)["subscriptions"] == "0")
    }

    @Test func `a connection has sixteen subscriptions, which end with it`() throws {
        let (client, other) = (try running.connect(), try running.connect())
        let names = Array(repeating: "\"Employee\"", count: 100_000).joined(separator: ",")
        #expect(try client.ask(#"{"type": "subscribe", "entities": [\#(names)]}"#).code == "unsupportedMessage")
        for number in 1...1_000 {
            let answer = try client.ask(#"{"type": "subscribe", "tag": \#(number)}"#)
            #expect(answer.type == (number <= 16 ? "subscribed" : "error"))
        }
        try write(other, 1)
        let tags = try (1...16).map { _ in try #require(try client.next()["tag"]) }
        #expect(tags.sorted() == (1...16).map(String.init).sorted())
        client.endSending()
        #expect(try client.receive() == nil, "the server closes when everything is answered")
        while try other.ask(#"{"type": "stats"}"#)["subscriptions"] != "0" {}
        try write(other, 2)
    }

    @Test func `a client that does not read costs little, and gets everything when it reads`() async throws {
        let (writer, follower) = (try running.connect(), try running.connect())
        #expect(try follower.ask(#"{"type": "subscribe", "after": 0, "reply": "keys"}"#).type == "subscribed")
        let (jobs, records) = (40, 2_000)
        var generator = SeededGenerator()
        for job in 0..<jobs {
            let ids = (0..<records).map { _ in Int.random(in: 0...Int.max, using: &generator) }
            let json = ids.map { #"{"id": \#($0)}"# }.joined(separator: ",")
            let answer = try writer.ask(#"{"id": "j\#(job)", "entity": "Department", "json": [\#(json)]}"#)
            #expect(answer.type == "completed")
        }
        let connections = running.server.connections
        let held = try await running.server.group.next().submit { connections.value.answers.held }.get()
        #expect(held < 1 << 20, "of \(jobs * records * 20) bytes of keys")
        for job in 0..<jobs {
            let commit = try follower.next()
            #expect(commit["id"] == "j\(job)")
            #expect(commit["changes.Department.inserted"] == "\(records)")
        }
    }

    @Test func `a follower learns how far nothing concerned it, once in a thousand sequences`() throws {
        let (writer, follower) = (try running.connect(), try running.connect())
        _ = try follower.ask(#"{"type": "subscribe", "entities": ["Employee"], "tag": 1}"#)
        for number in 1...2_100 {
            try writer.send(#"{"entity": "Department", "json": {"id": \#(number)}, "reply": "none"}"#)
        }
        for _ in 1...2_100 { #expect(try writer.next().type == "completed") }
        var (sequence, count) = (0, 0)
        while sequence < 1_100 {
            let commit = try follower.next()
            #expect(commit["changes"] == "{}")
            #expect(commit["id"] == nil)
            let next = commit.sequence
            #expect(next >= sequence + 1_000)
            (sequence, count) = (next, count + 1)
        }
        #expect(count <= 2)
    }
}

/// Questions that name a sequence, which another server of the same log may have given.
@Suite(.timeLimit(.minutes(5)), .server) struct SequenceTests {
    private let running = RunningServer.current
    private let fetch = #""type": "fetch", "entity": "Department", "tag": "f""#

    @Test func `a question waits until everything up to its sequence is applied`() async throws {
        let asking = try running.connect()
        let working = try running.connect()
        let sequence = try working.ask(#"{"entity": "Department", "json": {"id": 1, "name": "1"}}"#).sequence
        // Another connection's job: only the sequence connects the two.
        try asking.send("{\(fetch), \"afterSequence\": \(sequence + 1)}")
        try asking.send(#"{"type": "await", "id": "later", "after": \#(sequence + 1), "tag": "a"}"#)
        try working.send(#"{"id": "later", "entity": "Department", "json": {"id": 1, "name": "2"}}"#)
        let answers = [try asking.next(), try asking.next()]
        #expect(answers.contains { $0["tag"] == "f" && $0["objects.0.name"] == "2" })
        #expect(answers.contains { $0["tag"] == "a" && $0.type == "completed" && $0.sequence == sequence + 1 })
        // A question about applied jobs does not wait.
        #expect(try asking.ask("{\(fetch), \"afterSequence\": \(sequence)}").type == "objects")
        #expect(try asking.ask("{\(fetch), \"afterSequence\": 0}").type == "objects")
    }

    @Test(.server({ $0.applicationSeconds = 0 }))
    func `a sequence that is not applied in time is an error, and the connection goes on`() async throws {
        let client = try running.connect()
        for question in [
            "{\(fetch), \"afterSequence\": 1000000}",
            #"{"type": "await", "id": "x", "after": 1000000, "tag": "f"}"#,
        ] {
            let error = try client.ask(question)
            #expect(error.type == "error" && error.code == "notYet" && error["tag"] == "f")
            #expect(error["error.retryAfterMilliseconds"].flatMap { Int($0) } ?? 0 > 0)
            #expect(error["error.message"]?.contains("not up to 1000000") == true)
        }
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `questions that wait are limited for each process, like others`() throws {
        let client = try running.connect()
        let tag = String(repeating: "t", count: 900)
        // More than the budget of all fetches has room for.
        for _ in 1...40_000 {
            do {
                try client.send(
                    #"{"type": "fetch", "entity": "Department", "afterSequence": 1000000, "tag": "\#(tag)"}"#)
            } catch { break }
        }
        #expect(try client.next().code == "busy")
    }
}
