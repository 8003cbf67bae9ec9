import BrokerCoordinator
import TestSupport
import Testing

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
