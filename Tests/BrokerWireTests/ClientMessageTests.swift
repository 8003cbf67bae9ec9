import Broker
import BrokerJSON
import Foundation
import TestSupport
import Testing

@testable import BrokerWire

@Suite(.timeLimit(.minutes(5))) struct ClientMessageTests {
    private func refused(_ json: String, at location: SourceLocation = #_sourceLocation) -> WireError? {
        refusal(
            { () throws(WireError) in _ = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json))) },
            at: location)
    }

    private func expect(
        _ json: String, _ code: BrokerError.Code, at path: String?, _ fact: String,
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
        guard case .hello(client: "tests") = said.message else { throw TestFault("\(said.message)") }
        guard case .hello(client: nil) = try message(#"{"type":"hello"}"#).message else {
            throw TestFault("a bare hello was read otherwise")
        }
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
            let written = String(decoding: MessageWriter.message("admin") { wanted.write(to: &$0) }, as: UTF8.self)
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

    @Test func `the last of duplicate keys wins`() throws {
        guard
            case .await(id: "b", after: nil) = try message(#"{"type":"ping","type":"await","id":"a","id":"b"}"#).message
        else {
            throw TestFault("an earlier key won")
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct EnvelopeScanTests {
    private func scan(_ text: String, inPiecesOf count: Int = 7) -> EnvelopeScan {
        var scan = EnvelopeScan()
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: count) {
            Array(bytes[start..<min(start + count, bytes.count)]).withUnsafeBytes { scan.scan($0) }
        }
        return scan
    }

    private func described(_ scan: EnvelopeScan) -> String {
        let type = scan.hasType ? scan.type ?? "?" : "-"
        return "\(type) \(scan.id ?? "-") \(scan.tag.map { String(decoding: $0, as: UTF8.self) } ?? "-")"
    }

    @Test(arguments: [
        (#"{"id":"a","tag":[1, {"id":"x"}],"type":"job"}"#, #"job a [1, {"id":"x"}]"#),
        (#"  { "\u0069\u0064" : "\u0061\"b" , "t\u0061g" : 1.50 }  "#, #"- a"b 1.50"#),
        (#"{"json":[{"id":"x","tag":1}],"s":"\"id\":\"y\"\\","id":"a"}"#, "- a -"),
        (#"{"id":"a","id":"b","tag":1,"tag":null,"type":1}"#, "? b null"),
        (#"{"id":"a","id":7}"#, "- - -"),
        (#"{"id":"","tag":""}"#, #"- - """#),
        (#"{"id":"a","x":}"#, "- a -"), (#"{"id":"a""#, "- a -"), (#"{"id":"a"#, "- - -"), (#"{"id":7"#, "- - -"),
        (#"[{"id":"a"}]"#, "- - -"), (#"{"a":1]"id":"b"}"#, "- - -"), (#"{"a":{},"id":"b"}"#, "- b -"), ("{}", "- - -"),
        (#"{"a" "id":"b"}"#, "- - -"), (#"{"id":"a"}{"id":"b"}"#, "- a -"), ("", "- - -"),
        (#"{"tag":  {"a" : 1}}"#, #"- - {"a" : 1}"#),
    ])
    func `type, id and tag are those of the message, the last of each`(_ text: String, _ expected: String) {
        for count in [1, 2, 3, 1_000] { #expect(described(scan(text, inPiecesOf: count)) == expected) }
    }

    @Test func `long values are not stored`() {
        let long = String(repeating: "x", count: 100_000)
        #expect(described(scan(#"{"id":"\#(long)","tag":"\#(long)","\#(long)":1,"type":"\#(long)"}"#)) == "? - -")
        #expect(described(scan(#"{"id":"\#(long)","id":"a","tag":"\#(long)","tag":5}"#)) == "- a 5")
        let most = String(repeating: "x", count: 1_022)
        #expect(scan(#"{"tag":"\#(most)"}"#).tag?.count == 1_024)
        #expect(scan(#"{"tag":"\#(most)x"}"#).tag == nil)
        #expect(scan(#"{"id":"\#(String(repeating: "\\u0061", count: 128))"}"#).id?.utf8.count == 128)
        #expect(scan(#"{"id":"\#(String(repeating: "x", count: 129))"}"#).id == nil)
    }

    @Test func `it finds what the message itself says, in random messages`() throws {
        var generator = SeededGenerator(seed: 271)
        let values = [
            #""a""#, #""b\"}""#, "7", "null", "[]", #"{"id":"n"}"#, #"[[1],{"tag":2}]"#, #""""#, "-1.5e3", "true",
        ]
        let keys = ["id", "tag", "type", "x", "json", #"i\u0064"#, "ids"]
        for _ in 0..<2_000 {
            let count = Int.random(in: 0..<6, using: &generator)
            let members = (0..<count).map { _ in
                let space = [" ", "\n", "", "\t "].randomElement(using: &generator)!
                return "\(space)\"\(keys.randomElement(using: &generator)!)\"\(space):\(space)"
                    + values.randomElement(using: &generator)! + space
            }
            let text = "{\(members.joined(separator: ","))}"
            let document = try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
            let found = scan(text, inPiecesOf: Int.random(in: 1...9, using: &generator))
            withExtendedLifetime(document) {
                let root = document.root
                #expect(found.id == root["id"]?.returnableID, "\(text)")
                #expect(found.tag == root["tag"].flatMap { ClientEnvelope.returnableTag($0) }, "\(text)")
                #expect(found.hasType == (root["type"] != nil), "\(text)")
                #expect(found.type == root["type"]?.string, "\(text)")
            }
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct FetchResultTests {
    @Test func `the result of a fetch is read as it was written`() throws {
        for (more, last) in [(true, nil), (false, nil), (nil, nil), (true, #"{"a":1}"#), (false, "7")] {
            let hasMore = more ?? false
            let json =
                MessageWriter.objectsBeginning + utf8(#"[{"id":1}]"#)
                + MessageWriter.objectsEnding(more: more, last: last.map(utf8), tag: utf8("7"))
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
}

/// The schema of the server's messages, as clients check answers with it.
@Suite(.timeLimit(.minutes(5))) struct SchemaCodesTests {
    /// A member of the schema by its path.
    private func member(_ path: [String]) throws -> [String: Any] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let data = try Data(contentsOf: folder.appending(path: "protocol/server-messages.schema.json"))
        var member = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        for name in path { member = try #require(member[name] as? [String: Any], "\(name)") }
        return member
    }

    @Test(arguments: [["$defs", "code"], ["$defs", "warning", "properties", "code"]])
    func `a code of a later server is valid, so a schema lists the known ones as examples only`(_ path: [String]) throws
    {
        let code = try member(path)
        #expect(code["type"] as? String == "string")
        #expect((code["examples"] as? [String])?.isEmpty == false)
        #expect(Set(code.keys) == ["type", "examples", "description"])
    }
}
