import Foundation
import Testing

@testable import BrokerInput

@Suite(.timeLimit(.minutes(5))) struct RecordFormatTests {
    @Test(
        arguments: [
            ("a.json", .json), ("a.ndjson", .ndjson), ("a.jsonl", .ndjson), ("dir.xml/a.CSV", .csv),
            ("a.b.form", .form),
            ("a.xml.gz", .xml), ("/x/a.csv.lz4", .csv), ("a.JSONL.GZ", .ndjson), ("a.gz", nil), ("a", nil),
            ("a.txt", nil),
            (".csv", nil), ("-", nil), ("", nil), ("a.csv.gz.gz", nil), ("x.csv/", .csv), ("a.TSV.gz", .tsv),
        ] as [(String, RecordFormat?)])
    func `a file's name determines its format, packed or not`(name: String, format: RecordFormat?) {
        #expect(RecordFormat(fileName: name) == format)
    }

    @Test(arguments: [
        (
            #"{"data": {"children": [{"data": {"id": 1}}, {"data": [2, 3]}]}}"#, "data.children.data",
            [#"{"id": 1}"#, "2", "3"]
        ),
        (#"{"pages": [[{"id": 1}, {"id": 2}], [{"id": 3}]]}"#, "pages", [#"{"id": 1}"#, #"{"id": 2}"#, #"{"id": 3}"#]),
        (#"{"a": {"x": {"n": 1}, "y\"": [2]}}"#, "a.*", [#"{"x":{"n": 1}}"#, #"{"y\"":[2]}"#]),
        (#"{"x": 1, "y": 2}"#, "/*", [#"{"x":1}"#, #"{"y":2}"#]),
        (#"{"*": [1, 2], "y": 2}"#, "*", ["1", "2"]),
        (#"{"a": [{"b": {"x": 1}}, {"b": {"y": 2}}]}"#, "a.b.*", [#"{"x":1}"#, #"{"y":2}"#]),
    ])
    func `a root leads through arrays, and an asterisk takes the members of an object`(
        json: String, root: String, expected: [String]
    ) {
        #expect(Reading(.json, json, root: root).records == expected)
    }

    @Test func `positions and faults of records under a root are those of the input`() {
        let members = Reading(.json, "{\"a\": {\n\"x\": 1,\n\n\"y\": 2}}", root: "a.*")
        #expect(members.lines == [2, 4])
        for (json, root, fault) in [
            (#"{"a": [{"b": 1}, {"c": 2}]}"#, "a.b", "there is no \"b\" at \"a\"; there is \"c\""),
            (#"{"a": [1]}"#, "a.*", "there is no \"*\" at \"a\", only a number"),
            (#"{"a": [{"b": 1}]}"#, "/a/b", "there is no \"b\" at /a, only an array"),
        ] {
            #expect(
                Reading(.json, json, root: root).faultText.contains(fault),
                "\(Reading(.json, json, root: root).faultText)")
        }
    }

    @Test(
        arguments: [
            ("<a/>", "a"), ("<a b='1'/>", "a"), ("<?xml version=\"1.0\"?>\n<!-- <no> -->\n<x:a>", "x:a"),
            ("<!DOCTYPE a [<!ELEMENT b (c)> <!-- > --> <!ATTLIST a x CDATA \">\">]><a>", "a"),
            ("<!DOCTYPE a SYSTEM 'x.dtd'><a>", "a"), ("<!-- ", nil), ("text", nil), ("<", nil), ("<abc", nil),
        ] as [(String, String?)])
    func `the name of a document's element is found after its declarations`(text: String, name: String?) {
        #expect(XMLDocumentName.find(in: PiecedBytes(Array(text.utf8), 3)) == name)
    }

    @Test func `a root is looked for in the records of each format`() {
        #expect(Reading(.csv, "a.b\n1\n", root: "a").records == [#"{"b":"1"}"#])
        #expect(Reading(.form, "a[][b]=1&a[][b]=2\na[][b]=3", root: "a").lines == [1, 1, 2])
        let json = Reading(.ndjson, "{\"a\": [1,\n2]}\n{\"b\": 1}", root: "a")
        #expect(json.records == ["1", "2"] && json.lines == [1, 2])
        #expect(
            json.faultText.contains(#"line 3, column 1 (byte 14): there is no "a"; there is "b""#), "\(json.faultText)"
        )
        #expect(Reading(.csv, "a\n1\n", root: "b").faultText.contains("line 2, column 1 (byte 2): there is no \"b\""))
    }

    @Test func `XML read as JSON is reported with the option to read it`() {
        #expect(Reading(.json, "<r/>").faultText.contains("saw '<' (is it XML? then: --type xml)"))
    }

    private func file(_ text: String) throws -> String {
        let path = NSTemporaryDirectory() + "broker-\(UUID().uuidString)"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    @Test func `a stream hands over every record in its order, and then the fault`() async throws {
        let path = try file("id\n" + (1...200_000).map { "\($0)\n" }.joined() + "1,2\n")
        defer { unlink(path) }
        let stream = RecordStream(path: path, format: .csv, root: nil)
        var count = 0
        var bytes = 0
        let fault = await #expect(throws: InputFault.self) {
            while let batch = try await stream.next() {
                for record in batch.records {
                    count += 1
                    #expect(record.json.elementsEqual("{\"id\":\"\(count)\"}".utf8))
                }
                #expect(batch.bytesRead >= bytes)
                bytes = batch.bytesRead
            }
        }
        #expect(count == 200_000 && fault?.place?.line == 200_002)
    }

    @Test func `a stream whose task ends stops reading, at any position`() async throws {
        let path = try file("id\n" + (1...200_000).map { "\($0)\n" }.joined())
        defer { unlink(path) }
        for taken in 0..<4 {
            weak var ended: RecordStream?
            do {
                let stream = RecordStream(path: path, format: .csv, root: nil)
                ended = stream
                for _ in 0..<taken { _ = try await stream.next() }
                // Once it is abandoned at once, and else where it waits.
                while taken > 0, !stream.isWaiting { await Task.yield() }
                stream.abandon()
            }
            // Its thread holds it for as long as it runs.
            while ended != nil { await Task.yield() }
        }
    }

    @Test func `a missing file, and a folder, are reported`() async {
        for (path, message) in [("/nowhere/a.csv", "No such file"), ("/tmp", "Is a directory")] {
            let stream = RecordStream(path: path, format: .csv, root: nil)
            let fault = await #expect(throws: InputFault.self) { _ = try await stream.next() }
            #expect(fault?.reason.contains(message) == true && fault?.place == nil)
        }
    }
}
