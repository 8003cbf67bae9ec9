import BrokerJSON
import BrokerWire
import Testing

/// Texts that would take minutes if they were compared as Unicode, because normalisation takes time by the square of a
/// run of combining marks.
@Suite(.timeLimit(.minutes(5))) struct HostileTextTests {
    private static let text = "a" + String(repeating: "\u{301}\u{316}", count: 200_000)

    private func refusal(_ json: String) -> WireError? {
        do throws(WireError) {
            _ = try ClientEnvelope.decode(parsing: JSONText(copying: Array(json.utf8)))
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        #"{"type": "#, #"{"entity": "E", "json": [], "reply": "#, #"{"entity": "E", "json": [], "onInvalid": "#,
        #"{"entity": "E", "json": [], "op": "#,
    ])
    func `an unknown word is refused at once, and quoted briefly`(start: String) throws {
        let error = try #require(refusal(start + "\"\(Self.text)\"}"))
        #expect(error.code == .unsupportedMessage)
        #expect(error.message.utf8.count < 1_000)
    }

    @Test func `an unknown word of notify is refused at once`() throws {
        let error = try #require(refusal(#"{"entity": "E", "json": [], "notify": [""# + Self.text + "\"]}"))
        #expect(error.path == "/notify/0")
        #expect(error.message.utf8.count < 1_000)
    }

    @Test func `entities with such names are distinguished by their bytes`() throws {
        let other = "a" + String(repeating: "\u{316}\u{301}", count: 200_000)
        let json = "{\"collections\": {\"\(Self.text)\": [1], \"\(other)\": [2], \"\(Self.text)\": [3]}}"
        let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: Array(json.utf8)))
        guard case .job(let job) = envelope.message else {
            Issue.record("no job")
            return
        }
        try withExtendedLifetime(envelope) {
            #expect(job.operations.map { $0.json.elements.map(\.int64) } == [[3], [2]])
            // A text too long for a model's name is not copied.
            #expect(job.operations.allSatisfy { $0.entity.utf8.count < 2_000 && $0.entityPointer == "/collections" })
            _ = try #require(job.operations.first)
        }
    }
}
