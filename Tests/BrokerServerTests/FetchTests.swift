import BrokerCoordinator
import Foundation
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
        (#""entity": "Employee", "sort": ["nam"]"#, "unknownAttribute", "/sort/0"),
        (#""entity": "Employee", "sort": ["departmnt.name"]"#, "unknownRelationship", "/sort/0"),
        (#""entity": "Employee", "select": ["nam"]"#, "unknownAttribute", "/select/0"),
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

/// Streamed fetches, as clients see them.
@Suite(.timeLimit(.minutes(5)), .server) struct StreamTests {
    private let running = RunningServer.current
    private let client: RawClient

    init() throws { client = try running.connect() }

    /// As many objects as fill some frames, with names that cannot be compressed much: so a client that does not read
    /// stops a stream.
    static let count = 12_000

    static func fill(_ running: RunningServer, _ count: Int = count) throws {
        let client = try running.connect()
        // More different texts than LZ4 looks back at.
        let texts = (0..<400).map { SeededGenerator(seed: UInt64($0)).text(count: 400) }
        for start in stride(from: 1, through: count, by: 6_000) {
            let records = (start..<min(start + 6_000, count + 1)).map {
                #"{"id": \#($0), "age": \#($0 % 100), "name": "\#($0) \#(texts[$0 % 400])"}"#
            }
            let answer = try client.ask(#"{"entity": "Employee", "json": [\#(records.joined(separator: ","))]}"#)
            #expect(answer.type == "completed")
        }
    }

    /// The objects of a frame: their ids.
    private func ids(_ frame: Message) -> [Int] {
        frame.text.components(separatedBy: #""id":"#).dropFirst().compactMap { Int($0.prefix(while: \.isNumber)) }
    }

    private func expectIDs(
        _ frames: [Message], _ expected: ClosedRange<Int>, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        // Not the arrays themselves, which a failure would print.
        let isEqual = frames.flatMap(ids) == Array(expected)
        #expect(isEqual, "\(frames.map { $0.text.prefix(200) })", sourceLocation: sourceLocation)
    }

    /// Reads frames until each of so many streams has ended; other messages are listed, too.
    private static func read(_ client: RawClient, streams: Int) throws -> [Message] {
        var frames: [Message] = []
        var ended = 0
        while ended < streams {
            let frame = try client.next()
            frames.append(frame)
            if frame["more"] == "false" || frame.type == "error" { ended += 1 }
        }
        return frames
    }

    @Test func `a stream has all objects, in frames of which only the last has no more`() throws {
        try Self.fill(running)
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true, "tag": "t"}"#)
        let frames = try Self.read(client, streams: 1)
        #expect(frames.count >= 5)
        #expect(frames.allSatisfy { $0.type == "objects" && $0["tag"] == "t" })
        #expect(frames.map { $0["more"] } == frames.indices.map { $0 < frames.count - 1 ? "true" : "false" })
        #expect(frames.allSatisfy { $0.text.utf8.count <= 1 << 20 + 100 })
        expectIDs(frames, 1...Self.count)
        for frame in frames { #expect(frame["last"].flatMap { Int($0) } == ids(frame).last) }
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong", "no message follows")
    }

    @Test func `a stream has what a fetch has`() throws {
        try Self.fill(running)
        for fields in [
            #""where": "age == 7""#, #""where": "age < %@", "arguments": [50], "limit": 5000, "offset": 5"#,
            #""sort": ["age", "-id"], "limit": 9000"#, #""limit": 0"#, #""where": "FALSEPREDICATE""#,
            #""after": 11000"#, #""after": 100, "where": "age == 3", "names": "local""#, #""object": 77"#,
            #""include": ["department"], "sort": ["name"], "limit": 6000"#,
        ] {
            let whole = try client.ask(
                #"{"type": "fetch", "entity": "Employee", \#(fields)\#(fields.contains("limit") ? "" : #", "limit": 100000"#)}"#
            )
            try client.send(#"{"type": "fetch", "entity": "Employee", \#(fields), "stream": true, "tag": 1}"#)
            let frames = try Self.read(client, streams: 1)
            #expect(frames.last?["more"] == "false")
            let objects = frames.flatMap { frame in
                let text = frame["objects"] ?? ""
                return text == "[]" ? [] : [text.dropFirst().dropLast()]
            }
            #expect(whole["objects"] == "[\(objects.joined(separator: ","))]")
            for frame in frames { #expect((frame["last"] == nil) == (frame["objects"] == "[]")) }
        }
    }

    @Test func `a stream is of one moment, whatever is written while its client reads`() throws {
        try Self.fill(running)
        let before = try client.ask(#"{"type": "fetch", "entity": "Employee", "limit": 100000, "offset": 11000}"#)
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true, "tag": 1}"#)
        var frames = [try client.next()]
        let writer = try running.connect()
        while frames.last?["more"] == "true" {
            // The last objects are changed, the first are deleted, and others come at both ends.
            let round = frames.count
            let changed = (11_001...12_000).map { #"{"id": \#($0), "name": "\#(round)"}"# }.joined(separator: ",")
            for job in [
                #"{"entity": "Employee", "json": [\#(changed), {"id": \#(50_000 + round), "name": "n"}, {"id": -\#(round), "name": "n"}]}"#,
                #"{"op": "delete", "entity": "Employee", "objects": [\#(round), \#(11_000 - round)]}"#,
            ] { #expect(try writer.ask(job).type == "completed") }
            frames.append(try client.next())
        }
        expectIDs(frames, 1...Self.count)
        let end = try #require(before["objects"]).dropFirst().dropLast()
        let objects = frames.map { ($0["objects"] ?? "").dropFirst().dropLast() }.joined(separator: ",")
        #expect(objects.hasSuffix(end))
    }

    @Test func `other messages of a connection are answered while a stream of it waits for its client`() throws {
        try Self.fill(running)
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true, "tag": "stream"}"#)
        let first = try client.next()
        for message in [
            #"{"type": "fetch", "entity": "Employee", "object": 7, "tag": "one"}"#,
            #"{"type": "fetch", "entity": "Employee", "limit": 6000, "tag": "long"}"#,
            #"{"entity": "Department", "json": {"id": 1}, "tag": "job"}"#,
        ] { try client.send(message) }
        // Answered by now, though the client has read nothing of it.
        let other = try running.connect()
        while try other.ask(#"{"type": "fetch", "entity": "Department"}"#)["objects.0.id"] == nil {}
        let rest = try Self.read(client, streams: 1)
        let tags = rest.map { $0["tag"] ?? "" }
        #expect(tags.filter { $0 == "stream" }.count > 2)
        #expect(tags.contains("one") && tags.contains("job"))
        expectIDs(([first] + rest).filter { $0["tag"] == "stream" }, 1...Self.count)
        if !tags.contains("long") { #expect(try client.next()["tag"] == "long") }
    }

    /// Among many other tests, the clients here are slow.
    private static let patient: CoordinatorLimits = {
        var limits = CoordinatorLimits(workers: 2)
        limits.streams.wait = 120_000_000
        limits.streams.frameWait = 120_000_000
        return limits
    }()

    @Test(.server(limits: patient)) func `streams of one connection and of several take turns`() async throws {
        let count = 6_000
        try Self.fill(running, count)
        let clients = try (0..<3).map { _ in try running.connect() }
        for client in clients {
            for tag in 1...4 {
                try client.send(
                    #"{"type": "fetch", "entity": "Employee", "stream": true, "tag": \#(tag), "offset": \#(tag)}"#)
            }
        }
        // Twelve streams, and fewer places.
        async let first = offThePool { try Self.read(clients[0], streams: 4) }
        async let second = offThePool { try Self.read(clients[1], streams: 4) }
        async let third = offThePool { try Self.read(clients[2], streams: 4) }
        for frames in try await [first, second, third] {
            for tag in 1...4 {
                let own = frames.filter { $0["tag"] == "\(tag)" }
                expectIDs(own, (tag + 1)...count)
                #expect(own.dropLast().allSatisfy { $0["more"] == "true" })
            }
        }
    }

    @Test(arguments: [
        (#""entity": "Employee", "stream": 1"#, "unsupportedMessage", "/stream"),
        (#""entity": "Employee", "stream": true, "result": "object""#, "unsupportedMessage", "/stream"),
        (#""entity": "Employee", "stream": true, "result": "dictionary""#, "unsupportedMessage", "/stream"),
        (#""entity": "Employee", "stream": true, "limit": -1"#, "unsupportedMessage", "/limit"),
        (#""entity": "Employee", "stream": true, "after": 1, "sort": ["name"]"#, "invalidValue", "/after"),
        (#""entity": "Employee", "stream": true, "after": "x""#, "invalidValue", "/after"),
        (#""entity": "Employee", "after": null"#, "invalidValue", "/after"),
        (#""entity": "Employees", "stream": true"#, "unknownEntity", "/entity"),
    ])
    func `a fault of a stream is reported, and the connection goes on`(
        fields: String, code: String, path: String
    ) throws {
        let error = try client.ask(#"{"type": "fetch", "tag": "t", \#(fields)}"#)
        #expect(error.type == "error")
        #expect(error.code == code)
        #expect(error["error.path"] == path)
        #expect(error["tag"] == "t")
        let empty = try client.ask(#"{"type": "fetch", "entity": "Employee", "stream": true, "limit": 9999999999}"#)
        #expect(empty.text == #"{"type":"objects","objects":[],"more":false}"#)
    }

    @Test(arguments: [[], ["-id"], ["name", "-age", "id"]])
    func `an answer that has more has the position of its last object, after which the rest comes`(sort: [String])
        throws
    {
        try Self.fill(running, 25)
        let fields = #""type": "fetch", "entity": "Employee", "sort": \#(sort)"#
        let whole = ids(try client.ask("{\(fields)}"))
        var last: String?
        var found: [Int] = []
        repeat {
            let after = last.map { #", "after": \#($0)"# } ?? ""
            let page = try client.ask(#"{\#(fields), "limit": 7\#(after)}"#)
            found += ids(page)
            last = page["last"]
            #expect((page["more"] == "true") == (last != nil))
        } while last != nil
        #expect(whole.count == 25)
        #expect(found == whole)
    }
}

/// Streams of clients that are slow or leave, and what they cost others.
@Suite(.timeLimit(.minutes(5))) struct SlowStreamTests {
    private let stream = #"{"type": "fetch", "entity": "Employee", "stream": true, "tag": "s"}"#

    /// How long streams may wait for their clients, in milliseconds.
    private static func limits(
        open: Int = 8, wait: Int64 = 60_000, frameWait: Int64 = 60_000, snapshotBytes: Int = 1 << 30
    ) -> CoordinatorLimits {
        var limits = CoordinatorLimits(workers: 2)
        limits.streams.open = open
        limits.streams.wait = wait * 1_000
        limits.streams.frameWait = frameWait * 1_000
        limits.streams.snapshotBytes = snapshotBytes
        return limits
    }

    /// Pages of the WAL that no checkpoint can copy, because a reader needs the old ones.
    private func heldPages(_ client: RawClient) throws -> Int {
        let done = try client.ask(#"{"type": "admin", "action": "checkpoint"}"#)
        return try #require(done["wal.uncheckpointedPages"].flatMap { Int($0) }, "\(done.text)")
    }

    private func write(_ client: RawClient, _ number: Int) throws {
        let records = (1...100).map { #"{"id": \#($0), "name": "\#(number)"}"# }.joined(separator: ",")
        #expect(try client.ask(#"{"entity": "Employee", "json": [\#(records)]}"#).type == "completed")
    }

    /// The messages of a client that reads again, to the error.
    private func readToError(_ client: RawClient) throws -> [Message] {
        var messages: [Message] = []
        repeat { messages.append(try client.next()) } while messages.last?.type != "error"
        return messages
    }

    @Test(.server(limits: limits(frameWait: 300)))
    func `a stream whose client takes no frame ends with snapshotExpired, and the WAL is copied`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        try client.send(stream)
        _ = try client.next()
        try write(other, 1)
        var rounds = 0
        while try heldPages(other) > 0 { rounds += 1 }
        #expect(rounds > 0, "the stream held the WAL")
        let messages = try readToError(client)
        #expect(messages.dropLast().allSatisfy { $0["more"] == "true" })
        let error = try #require(messages.last)
        #expect(error.code == "snapshotExpired")
        #expect(error["tag"] == "s")
        #expect(error["frame"] == "1")
        // The connection goes on, and so does the client after the last key.
        let last = try #require(messages.dropLast().last?["last"])
        let rest = try client.ask(#"{"type": "fetch", "entity": "Employee", "after": \#(last), "limit": 1}"#)
        #expect(rest["last"] == "\(Int(last)! + 1)")
    }

    @Test(.server(limits: limits(wait: 300), walPages: 32))
    func `a slow stream ends soon when the writer waits to copy the WAL`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        try client.send(stream)
        _ = try client.next()
        var number = 0
        try write(other, number)
        #expect(try heldPages(other) > 0)
        while try heldPages(other) > 0 {
            number += 1
            try write(other, number)
        }
        #expect(try readToError(client).last?.code == "snapshotExpired")
    }

    @Test(.server(limits: limits(snapshotBytes: 2 << 20), walPages: 32), arguments: [[], ["name"]])
    func `a stream ends with snapshotExpired when the WAL has grown by a limit`(sort: [String]) throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        let sort = sort.isEmpty ? "" : #", "sort": ["name"]"#
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true\#(sort)}"#)
        _ = try client.next()
        var number = 0
        repeat {
            number += 1
            try write(other, number)
        } while try heldPages(other) > 0
        let messages = try readToError(client)
        #expect(messages.last?.code == "snapshotExpired")
        #expect(messages.last?["error.message"]?.contains("WAL") == true)
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong", "the connection goes on")
    }

    @Test func `a server that stops ends the streams that are open`() async throws {
        let running = try await RunningServer { $0.drainSeconds = 1_000 }
        try StreamTests.fill(running)
        let client = try running.connect()
        try client.send(stream)
        #expect(try client.next()["more"] == "true")
        async let stopped: Void = running.stop()
        let end = try readToError(client).last
        #expect(end?.code == "draining")
        #expect(end?["tag"] == "s")
        try await stopped
    }

    @Test(.server(limits: limits(open: 2, wait: 200))) func `slow streams do not prevent other clients from streaming`()
        throws
    {
        let running = RunningServer.current
        try StreamTests.fill(running)
        // Two places: the second is opened while one is free.
        let slow = try (0..<2).map { _ in try running.connect() }
        for client in slow {
            try client.send(stream)
            _ = try client.next()
        }
        let other = try running.connect()
        try other.send(stream)
        var frame: Message
        repeat { frame = try other.next() } while frame["more"] == "true"
        #expect(frame["more"] == "false")
        var codes: [String] = []
        for client in slow { codes.append(try readToEnd(client)) }
        #expect(codes.contains("snapshotExpired"))
    }

    /// The code of the error, or an empty text for a stream that is whole.
    private func readToEnd(_ client: RawClient) throws -> String {
        while true {
            let message = try client.next()
            if message.type == "error" { return message.code }
            if message["more"] == "false" { return "" }
        }
    }

    @Test(.server(limits: limits())) func `a client that leaves ends its streams and their transactions`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let other = try running.connect()
        for round in 1...5 {
            do {
                let client = try running.connect()
                for _ in 0..<12 { try client.send(stream) }
                if round > 1 { _ = try client.next() }
            }
            try write(other, round)
            var isHeld = true
            for _ in 0..<10_000 where isHeld { isHeld = try heldPages(other) > 0 }
            #expect(!isHeld)
        }
        for _ in 0..<10_000 where running.server.connectionCount > 1 { _ = try other.ask(#"{"type": "ping"}"#) }
        #expect(running.server.connectionCount == 1)
    }

    @Test(.server(limits: limits())) func `streams that are not read hold little memory, and others are answered`()
        async throws
    {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let slow = try (0..<30).map { _ in try running.connect() }
        for client in slow { for _ in 0..<3 { try client.send(stream) } }
        let other = try running.connect()
        var most = 0
        for number in 1...300 {
            _ = try other.ask(#"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#)
            most = max(most, try await running.server.unreadBytes)
        }
        // Five places of one process, and two parts for each.
        #expect(most < 10 << 20, "\(most)")
        try write(other, 1)
    }

    @Test func `a server that stops ends its streams, and says so`() async throws {
        let running = try await RunningServer(limits: Self.limits())
        try StreamTests.fill(running)
        let client = try running.connect()
        try client.send(stream)
        _ = try client.next()
        async let stopped: Void = running.stop()
        let code = try await offThePool { () throws -> String? in
            var last: Message?
            while let message = try client.receive() { last = message }
            return last?.code
        }
        #expect(code == "draining")
        try await stopped
    }
}
