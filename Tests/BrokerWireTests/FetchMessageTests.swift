import BrokerJSON
import BrokerWire
import Testing

@Suite(.timeLimit(.minutes(5))) struct FetchMessageTests {
    private func fetch(_ json: String) throws -> (fetch: FetchMessage, document: JSONDocument) {
        let envelope = try message(json)
        guard case .fetch(let fetch) = envelope.message else { throw TestFault("no fetch: \(envelope.message)") }
        return (fetch, envelope.document)
    }

    @Test func `a fetch of an entity alone asks for an array with remote names`() throws {
        let (fetch, _) = try fetch(#"{"type": "fetch", "entity": "Employee"}"#)
        #expect(fetch.entity == "Employee")
        #expect(fetch.condition == nil && fetch.object == nil && fetch.arguments == nil)
        #expect(
            fetch.sort == [] && fetch.include == [] && fetch.select == [] && fetch.limit == nil && fetch.offset == 0)
        #expect(fetch.names == .remote && fetch.result == .collection)
        #expect(fetch.after == nil && !fetch.isStreamed)
    }

    @Test func `a fetch has all its fields`() throws {
        let (fetch, document) = try fetch(
            """
            {"type": "fetch", "entity": "Employee", "where": "name == %@", "arguments": ["x"], "object": {"id": 1},
             "sort": ["-hiredAt", "name"], "limit": 10, "offset": 20, "include": ["a.b", "c"], "select": ["d", "e.f"], "names": "local",
             "result": "dictionary", "after": {"id": 2}, "stream": true}
            """)
        #expect(fetch.isStreamed)
        withExtendedLifetime(document) {
            #expect(fetch.condition == "name == %@")
            #expect(fetch.arguments?.jsonText == utf8(#"["x"]"#))
            #expect(fetch.object?.jsonText == utf8(#"{"id": 1}"#))
            #expect(fetch.after?.jsonText == utf8(#"{"id": 2}"#))
        }
        #expect(fetch.sort == ["-hiredAt", "name"])
        #expect(fetch.limit == 10 && fetch.offset == 20)
        #expect(fetch.include == ["a.b", "c"] && fetch.select == ["d", "e.f"])
        #expect(fetch.names == .local && fetch.result == .dictionary)
    }

    @Test(arguments: [
        (#""limit": 1"#, "/entity"), (#""entity": 7"#, "/entity"), (#""entity": "E", "where": 7"#, "/where"),
        (#""entity": "E", "arguments": [1]"#, "/arguments"), (#""entity": "E", "sort": "name""#, "/sort"),
        (#""entity": "E", "sort": ["a", 1]"#, "/sort/1"), (#""entity": "E", "include": [null]"#, "/include/0"),
        (#""entity": "E", "select": ["a", 1]"#, "/select/1"), (#""entity": "E", "limit": -1"#, "/limit"),
        (#""entity": "E", "limit": "1""#, "/limit"),
        (#""entity": "E", "offset": 99999999999999999999"#, "/offset"), (#""entity": "E", "names": "x""#, "/names"),
        (#""entity": "E", "result": []"#, "/result"), (#""entity": "E", "stream": 1"#, "/stream"),
        (#""entity": "E", "stream": "true""#, "/stream"),
    ])
    func `an invalid field is unsupportedMessage with its path`(fields: String, path: String) {
        let error = refusal { () throws(WireError) in
            _ = try ClientEnvelope.decode(
                parsing: JSONText(copying: utf8(#"{"type": "fetch", "tag": 1, \#(fields)}"#)))
        }
        #expect(error?.code == .unsupportedMessage)
        #expect(error?.path == path)
        #expect(error?.tag == utf8("1"))
    }

    @Test func `the result of a fetch is read as it was written`() throws {
        for (more, last) in [(true, nil), (false, nil), (nil, nil), (true, #"{"a":1}"#), (false, "7")] {
            let hasMore = more ?? false
            let json =
                ServerMessageWriter.objectsBeginning + utf8(#"[{"id":1}]"#)
                + ServerMessageWriter.objectsEnding(more: more, last: last.map(utf8), tag: utf8("7"))
            let envelope = try ServerEnvelope.decode(parsing: JSONText(copying: json))
            guard case .objects(let objects, hasMore, _) = envelope.message, objects == utf8(#"[{"id":1}]"#) else {
                throw TestFault("\(envelope.message)")
            }
            #expect(envelope.tag == utf8("7"))
            withExtendedLifetime(envelope.document) {
                #expect(envelope.document.root["more"]?.bool == more)
                #expect(envelope.document.root["last"]?.jsonText == last.map(utf8))
            }
        }
    }

    @Test func `a fetch is read as it was written`() throws {
        let json = ClientMessageWriter.fetch(
            members: [("entity", .string("E")), ("limit", .integer(3))], tag: .integer(2))
        let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: json))
        guard case .fetch(let fetch) = envelope.message else { throw TestFault("\(envelope.message)") }
        #expect(fetch.entity == "E" && fetch.limit == 3)
        #expect(envelope.tag == utf8("2"))
    }
}
