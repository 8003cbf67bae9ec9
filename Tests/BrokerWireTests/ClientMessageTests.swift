import BrokerJSON
import BrokerWire
import Testing

@Suite(.timeLimit(.minutes(5))) struct ClientMessageTests {
    private func refused(_ json: String, at location: SourceLocation = #_sourceLocation) -> WireError? {
        refusal(
            { () throws(WireError) in _ = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json))) },
            at: location)
    }

    private func expect(
        _ json: String, _ code: WireCode, at path: String?, _ fact: String,
        source: SourceLocation = #_sourceLocation
    ) {
        let error = refused(json, at: source)
        #expect(error?.code == code, sourceLocation: source)
        #expect(error?.path == path, sourceLocation: source)
        #expect(error?.message.contains(fact) == true, "\(error?.message ?? "-")", sourceLocation: source)
        #expect(error?.endsConnection == false, sourceLocation: source)
    }

    @Test func `messages without fields are read`() throws {
        for (json, wanted) in [
            (#"{"type":"ping"}"#, "ping"), (#"{"type":"stats"}"#, "stats"), (#"{"type":"model","x":[]}"#, "model"),
        ] {
            #expect("\(try message(json).message)" == wanted)
        }
    }

    @Test func `a hello may say version and client`() throws {
        let said = try message(#"{"type":"hello","version":1,"client":"tests"}"#)
        guard case .hello(version: 1, client: "tests") = said.message else { throw TestFault("\(said.message)") }
        guard case .hello(version: 1, client: nil) = try message(#"{"type":"hello"}"#).message else {
            throw TestFault("a bare hello was read otherwise")
        }
    }

    @Test func `another version is refused by its own code`() {
        expect(
            #"{"type":"hello","version":2}"#, .unsupportedVersion, at: "/version", "version 1 of the protocol, not 2")
        expect(#"{"type":"hello","version":1.5}"#, .unsupportedVersion, at: "/version", "not 1.5")
        expect(#"{"type":"hello","version":"1"}"#, .unsupportedMessage, at: "/version", "must be a number")
        expect(#"{"type":"hello","client":1}"#, .unsupportedMessage, at: "/client", "must be a string")
    }

    @Test func `an await names its job`() throws {
        guard case .await(id: "a", after: nil) = try message(#"{"type":"await","id":"a"}"#).message else {
            throw TestFault("no await")
        }
        expect(#"{"type":"await"}"#, .unsupportedMessage, at: "/id", "needs the `id`")
        expect(#"{"type":"await","id":7}"#, .unsupportedMessage, at: "/id", "must be a string")
    }

    @Test func `a migrate refuses what it does not understand, since it would change a store`() throws {
        for (fields, wanted) in [
            ("", MigrateMessage(isDryRun: false, removedParts: .refuse)),
            (#","dryRun":true,"removedParts":"drop""#, MigrateMessage(isDryRun: true, removedParts: .drop)),
            (#","dryRun":false,"removedParts":"keep""#, MigrateMessage(isDryRun: false, removedParts: .keep)),
        ] {
            guard case .migrate(let read) = try message(#"{"type":"admin","action":"migrate"\#(fields)}"#).message
            else {
                throw TestFault("no migrate")
            }
            #expect(read == wanted)
            let written = String(decoding: ClientMessageWriter.migrate(wanted), as: UTF8.self)
            guard case .migrate(wanted) = try message(written).message else { throw TestFault(written) }
        }
        for (fields, path, fact) in [
            (#""dryRun":"true""#, "/dryRun", "must be true or false"),
            (#""dryRun":null"#, "/dryRun", "must be true or false"),
            (#""removedParts":"lose""#, "/removedParts", "`refuse`, `keep` and `drop`"),
            (#""removedParts":true"#, "/removedParts", "must be a string"),
        ] {
            expect(#"{"type":"admin","action":"migrate",\#(fields)}"#, .unsupportedMessage, at: path, fact)
        }
        expect(#"{"type":"admin","action":"move"}"#, .unsupportedMessage, at: "/action", "`backup` and `migrate`")
    }

    @Test func `a tag comes back as JSON, whatever it is`() throws {
        for tag in ["7", "null", #""a\"b""#, #"{"a":[1,2]}"#, "[1.50]", "true"] {
            #expect(try message(#"{"type":"ping","tag":\#(tag)}"#).tag == utf8(tag))
        }
        #expect(try message(#"{"type":"ping"}"#).tag == nil)
    }

    @Test func `content that is no JSON is refused with its place`() {
        let error = refused("{\"a\":\n  tru}")
        #expect(error?.code == .malformedJSON)
        #expect(error?.position == JSONPosition(offset: 8, in: JSONText(copying: utf8("{\"a\":\n  tru}"))))
        #expect(error?.position?.line == 2)
        #expect(refused("")?.code == .malformedJSON)
    }

    @Test func `content that is no object is malformedJSON`() {
        for (json, noun) in [("[1]", "an array"), ("\"a\"", "a string"), (" 7", "a number"), ("null", "null")] {
            expect(json, .malformedJSON, at: nil, "no JSON object but \(noun)")
        }
    }

    @Test func `an unknown type is refused with a list of the types`() {
        expect(
            #"{"type":"jobb"}"#, .unsupportedMessage, at: "/type",
            "`hello`, `job`, `await`, `cancel`, `fetch`, `bookmark`, `subscribe`, `ping`, `stats`, `jobs`, "
                + "`model` and `admin`"
        )
        expect(#"{"type":7}"#, .unsupportedMessage, at: "/type", "must be a string, not a number")
        let long = refused(#"{"type":"\#(String(repeating: "x", count: 100_000))"}"#)
        #expect((long?.message.count ?? .max) < 300)
    }

    @Test(arguments: ["unsubscribe"])
    func `features of later versions are refused as such`(type: String) {
        expect(#"{"type":"\#(type)"}"#, .unsupportedMessage, at: "/type", "This server does not do `\(type)` yet")
    }

    @Test func `an error bears the id and the tag of its message`() {
        let error = refused(#"{"type":"job","id":"emp-1","tag":{"n":1},"entity":"A"}"#)
        #expect(error?.id == "emp-1")
        #expect(error?.tag == utf8(#"{"n":1}"#))
        #expect(refused(#"{"id":7,"entity":"A"}"#)?.id == nil)
        #expect(refused(#"{"id":"\#(String(repeating: "x", count: 129))","entity":"A"}"#)?.id == nil)
    }

    @Test func `the last of duplicate keys wins`() throws {
        guard
            case .await(id: "b", after: nil) = try message(#"{"type":"ping","type":"await","id":"a","id":"b"}"#).message
        else {
            throw TestFault("an earlier key won")
        }
    }
}
