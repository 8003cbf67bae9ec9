import BrokerCoordinator
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct FetchTests {
    private let running = RunningServer.current

    @Test func `a fetch sees the jobs before it on its connection`() throws {
        let client = try running.connect()
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
        let client = try running.connect()
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
        let client = try running.connect()
        let error = try client.ask(#"{"type": "fetch", "tag": "t", \#(fields)}"#)
        #expect(error.type == "error")
        #expect(error.code == code)
        #expect(error["error.path"] == path)
        #expect(error["tag"] == "t")
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `a long fetch does not hold back a short one, not even on its connection`() throws {
        let client = try running.connect()
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
        let client = try running.connect()
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
