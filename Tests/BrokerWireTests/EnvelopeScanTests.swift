import BrokerJSON
import TestSupport
import Testing

@testable import BrokerWire

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
