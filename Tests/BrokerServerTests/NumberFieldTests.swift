import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct NumberFieldTests {
    private let running = RunningServer.current

    @Test(arguments: ["1", "1.0", "1e0", "10e-1"])
    func `a whole number of a message may be written with a fraction of zero`(_ one: String) throws {
        let client = try running.connect()
        #expect(try client.ask(#"{"type": "hello", "version": \#(one)}"#).type == "welcome")
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}"#)
        let found = try client.ask(#"{"type": "fetch", "entity": "Department", "limit": \#(one), "offset": \#(one)}"#)
        #expect(found["objects"] == #"[{"id":2,"name":null,"employees":[]}]"# || found["objects.0.id"] == "2")
        #expect(found["objects.1"] == nil)
        #expect(found["more"] == "true")
    }

    @Test(arguments: ["1.5", "-1", "1e30", "\"1\""])
    func `any other number is refused`(_ number: String) throws {
        let client = try running.connect()
        for field in ["limit", "offset"] {
            let error = try client.ask(#"{"type": "fetch", "entity": "Department", "\#(field)": \#(number)}"#)
            #expect(error.code == "unsupportedMessage")
            #expect(error["error.path"] == "/\(field)")
        }
        let hello = try client.ask(#"{"type": "hello", "version": \#(number)}"#)
        #expect(hello.code == (number.hasPrefix("\"") ? "unsupportedMessage" : "unsupportedVersion"))
    }

    private static let lengths = """
        {"entities": {"Word": {"identity": "text", "attributes": {
          "text": {"type": "string", "minLength": 2.0, "maxLength": 30e-1}}}}}
        """

    @Test(.server(model: lengths)) func `the lengths of a model may be written with a fraction of zero`() throws {
        let client = try running.connect()
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "abc"}}"#).type == "completed")
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "abcd"}}"#).type == "failed")
        #expect(try client.ask(#"{"entity": "Word", "json": {"text": "a"}}"#).type == "failed")
    }

    @Test func `a fetch with the limit 0 leaves nothing out`() throws {
        let client = try running.connect()
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1}, {"id": 2}]}"#)
        for limit in ["0", "0.0"] {
            let found = try client.ask(#"{"type": "fetch", "entity": "Department", "limit": \#(limit)}"#)
            #expect(found["objects"] == "[]")
            #expect(found["more"] == nil)
        }
        #expect(try client.ask(#"{"type": "fetch", "entity": "Department", "limit": 1}"#)["more"] == "true")
    }
}
