import CLZ4
import CZlib
import Foundation
import TestSupport
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
            ("a.csv.zst", .csv),
        ] as [(String, RecordFormat?)])
    func `a file's name determines its format, packed or not`(name: String, format: RecordFormat?) {
        #expect(RecordFormat(fileName: name) == format)
    }

    @Test func `the time for which a pipe was looked at counts, when its records are read`() async throws {
        let path = NSTemporaryDirectory() + "broker-pipe-\(UInt64.random(in: 0...UInt64.max))"
        #expect(mkfifo(path, 0o600) == 0)
        defer { unlink(path) }
        let writer = open(path, O_RDWR)
        defer { close(writer) }
        #expect(write(writer, "{\"id\":1}\n{\"id\":", 15) == 15)
        // To find the format, nothing is waited for.
        for patience: Int32 in [0, 1, 0] {
            #expect(PipeInput.readAhead(path, 1 << 20, patience: patience).bytes.count == 15)
        }
        // It is over long before this patience is.
        let stream = RecordStream(path: path, InputReading(format: .ndjson), patience: 3_600_000)
        let first = try #require(await stream.next())
        #expect(first.records.count == 1 && !first.isIdle)
        #expect(try #require(await stream.next()).isIdle)
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

    @Test(
        arguments: [
            ("id,name\n1,a\n", "a.txt", .csv), ("id\tname\n1\ta\n", "a", .csv), ("id;name\n", "a.json", .csv),
            ("# x\nid|name\n", "a", .csv), ("sep=;\n", "a", .csv), ("{\"a\": 1}", "a", .json),
            (" [ {}]", "a.csv", .json),
            ("[1, 2]", "a.txt", .json), ("[price],[total]\n1,2\n", "a.txt", .csv), ("{x},y\n1,2\n", "a.csv", .csv),
            ("<r/>", "a.json", .xml), ("\u{FEFF}<?xml version='1.0'?><r/>", "a", .xml), ("<5,x\n", "a.csv", .csv),
            ("a=1&b=2", "a.form", .form), ("name\nAda\n", "a.txt", .json), ("name\nAda\n", "a.csv", .csv),
            ("a,b\n1,2\n", "a.tsv", .tsv), ("{\"a\": 1}", "a.jsonl", .ndjson), ("", "a.csv", .csv), ("", "a", .json),
            ("\"a,b\" \"c\"\n", "a", .json), ("1 2 3\n", "a", .json),
        ] as [(String, String, RecordFormat)])
    func `the content determines the format, and the name where the content does not`(
        text: String, name: String, format: RecordFormat
    ) throws {
        let path = try file(text)
        defer { unlink(path) }
        let named = RecordFormat(fileName: name)
        #expect(RecordFormat.found(atPath: path, named: named, encoding: nil) == format)
    }

    private func table(_ text: String, pieces size: Int = 1 << 16) -> Reading {
        Reading(.json, PiecedBytes(Array(text.utf8), size), readsTables: true)
    }

    @Test(
        arguments: [
            ("[1, \"a\"]", [#"{"value":1}"#, #"{"value":"a"}"#], nil),
            (
                "[[\"id\",\"a.b\"],[1,{\"x\":[2]}],[2,null]]", [#"{"id":1,"a.b":{"x":[2]}}"#, #"{"id":2,"a.b":null}"#],
                nil
            ),
            ("[\"id\",\"a\"]\n[1,\"]\"]\n[2,[3]]\n", [#"{"id":1,"a":"]"}"#, #"{"id":2,"a":[3]}"#], nil),
            ("[[1,\"x\"],[2,\"y\"]]", [#"{"column_1":1,"column_2":"x"}"#, #"{"column_1":2,"column_2":"y"}"#], nil),
            ("[[\"id\"],[1],[1,2],[3]]", [#"{"id":1}"#], "this row has 2 values, and the first one has 1"),
            ("[\"id\"]\n[1]\n{}\n", [#"{"id":1}"#], "expected an array, as the rows before it are"),
            ("[{\"a\":1}, 5]", [#"{"a":1}"#, "5"], nil), ("[[{\"a\":1}]]", [#"[{"a":1}]"#], nil), ("[]", [], nil),
            ("[1, {\"a\": 2}]", ["1", #"{"a": 2}"#], nil), ("{\"a\": [1]}", [#"{"a": [1]}"#], nil),
            ("[1", [#"{"value":1}"#], "ends before the array"),
        ] as [(String, [String], String?)])
    func `JSON of rows and of values is a table`(text: String, records: [String], fault: String?) {
        for size in 1...9 {
            let reading = table(text, pieces: size)
            #expect(reading.records == records && (reading.fault == nil) == (fault == nil), "\(reading.faultText)")
            #expect(fault.map(reading.faultText.contains) ?? true, "\(reading.faultText)")
        }
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
        let stream = RecordStream(path: path, InputReading(format: .csv))
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

    @Test(arguments: [
        ("{\"a\": [1]}\n{\"a\":\n2}\n", true), ("{\"a\": 1}\n{\"a\": 01}\n", false), ("{\"a\": 1}\n", false),
    ])
    func `a stream that parses has an array of several records, if all are valid`(
        text: String, isParsed: Bool
    ) async throws {
        let path = try file(text)
        defer { unlink(path) }
        let batch = try #require(await RecordStream(path: path, InputReading(format: .ndjson), parses: true).next())
        #expect((batch.document != nil) == isParsed)
        batch.document?.withRoot { root in
            #expect(batch.records.map { Array($0.json) } == root.elements.map { Array($0.bytes) })
        }
    }

    @Test(arguments: RecordFormat.allCases)
    func `a stream without an end of its last line has each record once`(format: RecordFormat) async throws {
        let text = [RecordFormat.csv: "a\n1", .tsv: "a\n1", .form: "a=1", .xml: "<a>1</a>"][format] ?? "1"
        let path = try file(text)
        defer { unlink(path) }
        let stream = RecordStream(path: path, InputReading(format: format))
        #expect(try await stream.next()?.records.count == 1)
        for _ in 0..<2 { #expect(try await stream.next() == nil) }
    }

    @Test func `a missing file, and a folder, are reported`() async {
        for (path, message) in [("/nowhere/a.csv", "No such file"), ("/tmp", "Is a directory")] {
            let stream = RecordStream(path: path, InputReading(format: .csv))
            let fault = await #expect(throws: InputFault.self) { _ = try await stream.next() }
            #expect(fault?.reason.contains(message) == true && fault?.place == nil)
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct UnpackingTests {
    /// As gzip packs it.
    private static func gzip(_ bytes: [UInt8]) throws -> [UInt8] {
        let path = NSTemporaryDirectory() + "broker-\(UUID().uuidString).gz"
        defer { unlink(path) }
        let file = try #require(gzopen(path, "wb"))
        let written = bytes.isEmpty ? 0 : gzwrite(file, bytes, UInt32(bytes.count))
        try #require(Int(written) == bytes.count && gzclose(file) == Z_OK)
        return [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    /// As lz4 packs it, with a checksum.
    private static func lz4(_ bytes: [UInt8]) -> [UInt8] {
        var preferences = LZ4F_preferences_t()
        preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled
        var packed = [UInt8](repeating: 0, count: LZ4F_compressFrameBound(bytes.count, &preferences))
        let count = LZ4F_compressFrame(&packed, packed.count, bytes, bytes.count, &preferences)
        return Array(packed.prefix(count))
    }

    private static func pack(_ bytes: [UInt8], _ name: String) throws -> [UInt8] {
        switch name {
        case "gzip": return try gzip(bytes)
        case "lz4": return lz4(bytes)
        default:
            let file = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")
            try Data(bytes).write(to: file)
            defer { try? FileManager.default.removeItem(at: file) }
            let (process, output) = (Process(), Pipe())
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["zstd", "--check", "-q", "-c", file.path]
            process.standardOutput = output
            try process.run()
            let packed = try output.fileHandleForReading.readToEnd()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
            return Array(packed ?? Data())
        }
    }

    private func read(_ bytes: [UInt8], _ format: RecordFormat = .csv, pieces size: Int = 1 << 16) -> Reading {
        Reading(format, UnpackedBytes(PiecedBytes(bytes, size)))
    }

    private let table = Array(("id,name\n" + (1...5000).map { "\($0),n\($0)\n" }.joined()).utf8)

    @Test(arguments: ["gzip", "lz4", "zstd"]) func `packed bytes are known by their first ones, in pieces of any size`(
        name: String
    ) throws {
        let plain = read(table)
        #expect(plain.records.count == 5000 && plain.fault == nil)
        let packed = try Self.pack(table, name)
        for size in [1, 2, 3, 1000, 1 << 20] {
            let unpacked = read(packed, pieces: size)
            #expect(unpacked.records == plain.records && unpacked.places == plain.places && unpacked.fault == nil)
        }
    }

    @Test(arguments: ["gzip", "lz4", "zstd"]) func `a file packed in parts is read as one`(name: String) throws {
        let parts =
            try Self.pack(Array(table[..<1000]), name) + Self.pack([], name) + Self.pack(Array(table[1000...]), name)
        for size in [1, 1 << 20] {
            let reading = read(parts, pieces: size)
            #expect(reading.records.count == 5000 && reading.fault == nil, "\(reading.faultText)")
        }
    }

    @Test(arguments: ["gzip", "lz4", "zstd"])
    func `a truncated file is reported, after the complete records before its end`(
        name: String
    ) throws {
        let packed = try Self.pack(table, name)
        for count in [7, packed.count / 2, packed.count - 5, packed.count - 1] {
            let reading = read(Array(packed[..<count]))
            #expect(reading.faultText.contains("data ends in the middle (\(count) bytes of the file were read)"))
            // A last line without its end may be a half one.
            #expect(reading.records.count < 5000 || count > packed.count / 2)
            #expect(reading.fault?.place?.line == max(1, reading.records.count + 2) || reading.records.isEmpty)
        }
    }

    @Test(arguments: ["gzip", "lz4", "zstd"]) func `a changed byte is reported, wherever it is`(name: String) throws {
        let packed = try Self.pack(table, name)
        for index in stride(from: 20, to: packed.count, by: packed.count / 37) {
            var damaged = packed
            damaged[index] ^= 0x55
            let reading = read(damaged)
            #expect(reading.fault != nil, "\(index)")
        }
    }

    @Test func `after gzip there may be zeros, and nothing else`() throws {
        let packed = try Self.gzip(table)
        #expect(read(packed + [0, 0, 0]).fault == nil)
        let reading = read(packed + Array("x,y\n".utf8))
        #expect(reading.records.count == 5000)
        #expect(reading.faultText.contains("the gzip data is followed by something else, from 'x' on"))
        #expect(read(packed + [0] + packed).fault != nil)
        #expect(
            read(Self.lz4(table) + Array("id,name\n1,2\n".utf8)).faultText.contains(
                "damaged or followed by something else"))
    }

    @Test(
        arguments: [
            (Array("PAR1".utf8) + [0x15], "FORMAT json"), (Array("Obj".utf8) + [0x01], "fastavro FILE"),
            (Array("SQLite format 3".utf8) + [0], "broker model import"),
            ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], "xz -dc"),
            (Array("BZh91AY&SY".utf8), "bzip2 -dc"), ([0x50, 0x4B, 0x03, 0x04], "xlsx2csv FILE"),
            ([0x02, 0x21, 0x4C, 0x18, 0x00], "lz4 -dc"),
        ] as [([UInt8], String)])
    func `other compression formats are reported by name, with the remedy`(bytes: [UInt8], message: String) {
        for size in [1, 100] {
            let reading = read(bytes, .json, pieces: size)
            #expect(reading.faultText.contains(message), "\(reading.faultText)")
        }
    }

    @Test func `gigabytes of zeros in a small file are a fault at the first one`() throws {
        // Packed once more: the packer makes the same bytes of the same zeros again and again.
        let member = try Self.gzip([UInt8](repeating: 0, count: 64 << 20))
        var bomb: [UInt8] = []
        for _ in 0..<160 { bomb += member }
        for format in RecordFormat.allCases {
            let source = UnpackedBytes(PiecedBytes(bomb, 1 << 16))
            let reading = Reading(format, source)
            #expect(reading.faultText.contains("line 1, column 1"), "\(reading.faultText)")
            #expect(source.bytesRead <= 1 << 18)
        }
    }

    @Test func `megabytes of empty lines in a small file are read without holding them`() throws {
        let member = try Self.gzip([UInt8](repeating: UInt8(ascii: "\n"), count: 4 << 20))
        let bomb = try Self.gzip(Array("id\n".utf8)) + member
        let reading = read(bomb)
        #expect(reading.records.isEmpty && reading.fault == nil, "\(reading.faultText)")
    }
}

/// Inputs with lines that are no records, which are skipped.
@Suite(.timeLimit(.minutes(5))) struct RecoveryTests {
    private func read(
        _ text: String, _ format: RecordFormat = .ndjson, most: Int = 100, root: String? = nil,
        pieces size: Int = 1 << 16
    ) -> Reading {
        Reading(format, PiecedBytes(Array(text.utf8), size), root: root, mostRejects: most)
    }

    @Test(
        arguments: [
            // Half a record takes no other one with it.
            (
                "{\"a\":1}\n{\"a\":\n{\"a\":2}\n{\"a\":3}\n", .ndjson, ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"],
                ["{\"a\":"], [2]
            ),
            ("{\"a\":[1,\r\n{\"a\":2}\r\n", .ndjson, ["{\"a\":2}"], ["{\"a\":[1,"], [1]),
            ("{\"a\":\"x\n{\"a\":2}\n{\"a\"", .ndjson, ["{\"a\":2}"], ["{\"a\":\"x", "{\"a\""], [1, 3]),
            ("{\n\"a\" 1\n}\n{\"a\":2}", .ndjson, ["{\"a\":2}"], ["{\n\"a\" 1\n}"], [1]),
            (
                "{\"a\":\"\\ud800\"}\n{\"a\":01}\n{\"a\":2}", .ndjson, ["{\"a\":2}"],
                ["{\"a\":\"\\ud800\"}", "{\"a\":01}"], [1, 2]
            ),
            ("Oops!\n{\"a\":2}", .ndjson, ["{\"a\":2}"], ["Oops", "!"], [1, 1]),
            ("[1,2\n[3]\n[4]", .ndjson, ["1", "2"], [], []),
            (
                "id,b\n1,2\n3\n4,5,6\n\"7\n8\",9,10\n11,12\n", .csv,
                [#"{"id":"1","b":"2"}"#, #"{"id":"11","b":"12"}"#], ["3", "4,5,6", "\"7\n8\",9,10"], [3, 4, 5]
            ),
            ("id,b\n1,\"x\"y\n2,\"z\n3,c\n", .csv, [#"{"id":"3","b":"c"}"#], ["1,\"x\"y", "2,\"z"], [2, 3]),
            ("a=1\na=%\na=3\n", .form, [#"{"a":"1"}"#, #"{"a":"3"}"#], ["a=%"], [2]),
        ] as [(String, RecordFormat, [String], [String], [Int])])
    func `a bad line is a reject with its place, and the next one is read`(
        text: String, format: RecordFormat, records: [String], rejects: [String], lines: [Int]
    ) {
        for size in [1, 2, 3, 5, 7, 11, 100] {
            let reading = read(text, format, pieces: size)
            #expect(
                reading.records == records && (reading.fault == nil) == !lines.isEmpty, "\(size): \(reading.faultText)")
            #expect(reading.rejects.map { String(decoding: $0.text, as: UTF8.self) } == rejects)
            #expect(reading.rejects.map { ($0.fault.recordPlace ?? $0.fault.place)?.line } == lines)
        }
    }

    @Test func `invalid UTF-8 is a reject, and so is a value without the root`() {
        let bytes = Array("{\"a\":\"é".utf8) + [0xFF] + Array("\"}\n{\"a\":2}\n".utf8)
        for size in 1...9 {
            let reading = Reading(.ndjson, PiecedBytes(bytes, size), mostRejects: 5)
            #expect(reading.records == ["{\"a\":2}"] && reading.rejects.count == 1)
            let csv = Reading(
                .csv, PiecedBytes(Array("a,é\n1,".utf8) + [0xFF] + Array("\n3,4\n".utf8), size), mostRejects: 5)
            #expect(csv.records == [#"{"a":"3","é":"4"}"#] && csv.rejects.count == 1, "\(csv.faultText)")
        }
        let reading = read("{\"r\":[1]}\n{\"x\":1}\n{\"r\":[2]}\n", root: "r")
        #expect(reading.records == ["1", "2"] && reading.rejects.count == 1 && reading.fault == nil)
    }

    @Test func `only so many lines are skipped, and none of an array or after a long record`() {
        let bad = read(String(repeating: "{\n", count: 20), most: 9)
        #expect(
            bad.rejects.count == 9 && bad.faultText.contains("more than 9 lines that cannot be read"),
            "\(bad.faultText)")
        #expect(read("[{\"a\":1},\n{\"a\" 2},\n{\"a\":3}]").faultText.contains("line 2, column 6"))
        let long = read("{\"a\":\"" + String(repeating: "x", count: 5 << 20) + "\n{\"a\":1}\n")
        #expect(long.rejects.isEmpty && long.fault != nil)
        #expect(read("{\"a\" 1}\n{\"a\":2}\n", most: 0).fault != nil)
    }

    /// Whatever bytes come, in whatever pieces: the same records and rejects.
    @Test func `random bad lines`() {
        var generator = SeededGenerator()
        let parts = [
            "{\"a\":1}", "{", "}", "[", "]", "\"", ",", "a", "1", "\n", "\n", "\r\n", "\\", "é", "{\"b\":[2]}\n",
        ]
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 1...16, using: &generator)).map { _ in
                parts.randomElement(using: &generator)!
            }
            .joined()
            for format in [RecordFormat.ndjson, .csv, .form] {
                let whole = read(text, format)
                for size in 1...5 {
                    let other = read(text, format, pieces: size)
                    #expect(
                        whole.records == other.records && whole.faultText == other.faultText
                            && whole.rejects.map(\.text) == other.rejects.map(\.text),
                        "\(format) \(text.debugDescription) \(size)")
                }
            }
        }
    }
}

/// The records and the end of an input.
struct Reading {
    var records: [String] = []
    var places: [InputPlace] = []
    var notes: [String] = []
    var rejects: [InputReject] = []
    var fault: InputFault?

    var lines: [Int] { places.map(\.line) }
    /// The fault as a person sees it, without its sentence's end.
    var faultText: String {
        fault.map { "\($0.place.map(String.init(describing:)) ?? "nowhere"): \($0.text)" } ?? "no fault"
    }

    /// - Parameter size: of the pieces in which the bytes come.
    init(_ format: RecordFormat, _ bytes: some Sequence<UInt8>, root: String? = nil, pieces size: Int = 1 << 16) {
        self.init(format, PiecedBytes(Array(bytes), size), root: root)
    }

    init(_ format: RecordFormat, _ text: String, root: String? = nil, pieces size: Int = 1 << 16) {
        self.init(format, text.utf8, root: root, pieces: size)
    }

    init(
        _ format: RecordFormat, _ source: any ByteSource, root: String? = nil, csv: CSVOptions = CSVOptions(),
        encoding: TextEncoding? = nil, mostRejects: Int = 0, readsTables: Bool = false, limits: RecordLimits = .ofJobs
    ) {
        var records: [InputRecord] = []
        var reading = InputReading(format: format, root: root.flatMap(RecordRoot.init))
        (reading.csv, reading.encoding) = (csv, encoding)
        (reading.mostRejects, reading.readsTables) = (mostRejects, readsTables)
        let reader = InputReader(source, reading, limits: limits)
        defer { (notes, rejects) = (reader.takeNotes(), reader.takeRejects()) }
        do throws(InputFault) {
            while try reader.next({ records.append($0) }) {}
        } catch {
            fault = error
        }
        self.records = records.map { String(decoding: $0.json, as: UTF8.self) }
        places = records.map(\.place)
    }

    /// All records, however the bytes are cut into pieces; nil when that makes a difference.
    static func always(
        _ format: RecordFormat, _ text: String, root: String? = nil, csv: CSVOptions = CSVOptions()
    ) -> Reading? {
        let whole = Reading(format, PiecedBytes(Array(text.utf8), 1 << 16), root: root, csv: csv)
        for size in 1...9 {
            let other = Reading(format, PiecedBytes(Array(text.utf8), size), root: root, csv: csv)
            guard other.records == whole.records, other.lines == whole.lines, other.notes == whole.notes,
                other.faultText == whole.faultText
            else {
                return nil
            }
        }
        return whole
    }
}

/// Bytes in pieces of one size.
final class PiecedBytes: ByteSource {
    private let bytes: [UInt8]
    private let size: Int
    private(set) var bytesRead = 0

    init(_ bytes: [UInt8], _ size: Int) {
        self.bytes = bytes
        self.size = size
    }

    func next() throws(InputFault) -> [UInt8] {
        defer { bytesRead = min(bytes.count, bytesRead + size) }
        return Array(bytes[bytesRead..<min(bytes.count, bytesRead + size)])
    }
}

/// One piece again and again, so that an input larger than memory needs none.
final class RepeatedBytes: ByteSource {
    private let beginning: [UInt8]
    private let piece: [UInt8]
    private var pieces: Int
    private(set) var bytesRead = 0

    init(_ beginning: String, then piece: [UInt8], times: Int) {
        self.beginning = Array(beginning.utf8)
        self.piece = piece
        pieces = times
    }

    func next() throws(InputFault) -> [UInt8] {
        let next = bytesRead == 0 ? beginning : pieces > 0 ? piece : []
        if bytesRead > 0 { pieces -= 1 }
        bytesRead += next.count
        return next
    }
}
