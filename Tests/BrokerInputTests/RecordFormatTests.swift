import CLZ4
import CZlib
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

    @Test(arguments: RecordFormat.allCases)
    func `a stream without an end of its last line has each record once`(format: RecordFormat) async throws {
        let text = [RecordFormat.csv: "a\n1", .tsv: "a\n1", .form: "a=1", .xml: "<a>1</a>"][format] ?? "1"
        let path = try file(text)
        defer { unlink(path) }
        let stream = RecordStream(path: path, format: format, root: nil)
        #expect(try await stream.next()?.records.count == 1)
        for _ in 0..<2 { #expect(try await stream.next() == nil) }
    }

    @Test func `a missing file, and a folder, are reported`() async {
        for (path, message) in [("/nowhere/a.csv", "No such file"), ("/tmp", "Is a directory")] {
            let stream = RecordStream(path: path, format: .csv, root: nil)
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
        name == "gzip" ? try gzip(bytes) : lz4(bytes)
    }

    private func read(_ bytes: [UInt8], _ format: RecordFormat = .csv, pieces size: Int = 1 << 16) -> Reading {
        Reading(format, UnpackedBytes(PiecedBytes(bytes, size)))
    }

    private let table = Array(("id,name\n" + (1...5000).map { "\($0),n\($0)\n" }.joined()).utf8)

    @Test(arguments: ["gzip", "lz4"]) func `packed bytes are known by their first ones, in pieces of any size`(
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

    @Test(arguments: ["gzip", "lz4"]) func `a file packed in parts is read as one`(name: String) throws {
        let parts =
            try Self.pack(Array(table[..<1000]), name) + Self.pack([], name) + Self.pack(Array(table[1000...]), name)
        for size in [1, 1 << 20] {
            let reading = read(parts, pieces: size)
            #expect(reading.records.count == 5000 && reading.fault == nil, "\(reading.faultText)")
        }
    }

    @Test(arguments: ["gzip", "lz4"]) func `a truncated file is reported, after the complete records before its end`(
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

    @Test(arguments: ["gzip", "lz4"]) func `a changed byte is reported, wherever it is`(name: String) throws {
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
            ([0x28, 0xB5, 0x2F, 0xFD, 0x00], "zstd -dc"), ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], "xz -dc"),
            (Array("BZh91AY&SY".utf8), "bzip2 -dc"), ([0x50, 0x4B, 0x03, 0x04], "save it as CSV"),
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

/// The records and the end of an input.
struct Reading {
    var records: [String] = []
    var places: [InputPlace] = []
    var notes: [String] = []
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
        encoding: TextEncoding? = nil, limits: RecordLimits = .ofJobs
    ) {
        var records: [InputRecord] = []
        let reader = InputReader(
            format, source, root: root.flatMap(RecordRoot.init), csv: csv, encoding: encoding, limits: limits)
        defer { notes = reader.takeNotes() }
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
