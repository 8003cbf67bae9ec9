import BrokerJSON
import TestSupport
import Testing

@testable import BrokerInput

/// CSV that other programs write: its delimiters, its headers, and its ragged rows.
@Suite(.timeLimit(.minutes(5))) struct CSVDialectTests {
    private func records(
        _ text: String, _ csv: CSVOptions = CSVOptions(), _ format: RecordFormat = .csv
    ) throws -> [String] {
        let reading = try #require(Reading.always(format, text, csv: csv))
        #expect(reading.fault == nil, "\(reading.faultText)")
        return reading.records
    }

    @Test(arguments: [
        "a,b\n1,2\n", "a;b\n1;2\n", "a\tb\r\n1\t2\r\n", "a|b\n1|2", "\n\r\n\"a\";b\n\"1\";2\n", "\u{FEFF}a;b\n1;2\n",
        "\u{FEFF}\n\na;b\n1;2\n",
    ])
    func `the delimiter is found in the header`(text: String) throws {
        #expect(try records(text) == [#"{"a":"1","b":"2"}"#])
    }

    @Test(arguments: [
        ("a,b;c\n1,2;3\n", #"{"a":"1","b;c":"2;3"}"#), ("a;b,c;d\n1;2;3\n", #"{"a":"1","b,c":"2","d":"3"}"#),
        ("\"a;b;c\",d\n1,2\n", #"{"a;b;c":"1","d":"2"}"#), ("\"a\"\";\"\";b\",c\n1,2\n", #"{"a\";\";b":"1","c":"2"}"#),
        ("\"a\n;;\",b\n1,2\n", #"{"a\n;;":"1","b":"2"}"#), ("a\n1;2\n", #"{"a":"1;2"}"#),
    ])
    func `the delimiter that divides the header into most fields wins, and then a comma`(
        text: String, expected: String
    ) throws {
        #expect(try records(text) == [expected])
    }

    @Test func `a given delimiter is not searched`() throws {
        #expect(try records("a;b,c\n1;2,3\n", CSVOptions(delimiter: CSVDelimiter(";"))) == [#"{"a":"1","b,c":"2,3"}"#])
        #expect(try records("a b\n1 2\n", CSVOptions(delimiter: CSVDelimiter(" "))) == [#"{"a":"1","b":"2"}"#])
        #expect(try records("a,b\tc\n1,2\t3\n", CSVOptions(), .tsv) == [#"{"a,b":"1,2","c":"3"}"#])
        #expect(try records("a,b\n1,2\n", CSVOptions(delimiter: CSVDelimiter(",")), .tsv) == [#"{"a":"1","b":"2"}"#])
        for text in ["tab", "\\t", "\t"] { #expect(CSVDelimiter(text)?.text == "tab") }
        for text in ["", "\"", ",,", "\n", "\r", "é", "\u{0}"] { #expect(CSVDelimiter(text) == nil) }
    }

    @Test(arguments: [
        (",b\n", #"{"column_1":1,"b":2}"#), ("a,\" \"\n", #"{"a":1,"column_2":2}"#),
        (",column_1\n", #"{"column_1_2":1,"column_1":2}"#), ("a,a,a\n", #"{"a":1,"a_2":2,"a_3":3}"#),
        ("a,a,a_2\n", #"{"a":1,"a_3":2,"a_2":3}"#), ("a.b,a.b\n", #"{"a":{"b":1,"b_2":2}}"#),
        ("x.a,x.a,x.a_2.c\n", #"{"x":{"a":1,"a_3":2,"a_2":{"c":3}}}"#),
        ("a,a.b\n", #"{"a":1,"a_b":2}"#), ("a.b,a\n", #"{"a_b":1,"a":2}"#),
        ("a.b.c,a.b\n", #"{"a_b_c":1,"a":{"b":2}}"#),
        ("a_b,a,a.b\n", #"{"a_b":1,"a":2,"a_b_2":3}"#), ("a.b,a,a_b\n", #"{"a_b_2":1,"a":2,"a_b":3}"#),
        ("No.,St. Name\n", #"{"No_":1,"St_ Name":2}"#), ("a..b,.c\n", #"{"a__b":1,"_c":2}"#),
        ("No.,No_.x\n", #"{"No_":1,"No__x":2}"#), ("a b,A b\n", #"{"a b":1,"A b":2}"#),
    ])
    func `each field of the header has a place of its own`(header: String, expected: String) throws {
        let count = header.count { $0 == "," } + 1
        let row = (1...count).map(String.init).joined(separator: ",")
        let record = try records(header + row)
        #expect(record.first?.replacing(#/:"(\d)"/#) { ":\($0.output.1)" } == expected)
    }

    @Test func `rows are filled where that loses nothing`() throws {
        let fill = CSVOptions(ragged: .fill)
        #expect(
            try records("a,b,c.d\n1\n1,2,3,,\n", fill) == [
                #"{"a":"1","b":null,"c":null}"#, #"{"a":"1","b":"2","c":{"d":"3"}}"#,
            ])
        let surplus = try #require(Reading.always(.csv, "a,b\n1\n1,2,3\n", csv: fill))
        #expect(surplus.records.count == 1)
        #expect(
            surplus.faultText.contains("line 3, column 1 (byte 6): this record has 3 fields, and the header names 2"))
        let failed = Reading(.csv, "a,b\n1\n")
        #expect(failed.faultText.hasSuffix("with --ragged fill, missing fields are null"), "\(failed.faultText)")
    }

    @Test func `where the header is quoted throughout, quotes do not make a text of nothing`() throws {
        #expect(try records("\"a\",\"b\"\n\"1\",\"\"\n") == [#"{"a":"1","b":null}"#])
        #expect(try records("\"a\",b\n\"1\",\"\"\n") == [#"{"a":"1","b":""}"#])
    }

    /// Whatever bytes come, in whatever pieces: the same records and fault, and no key twice.
    @Test func `random CSV`() throws {
        var generator = SeededGenerator()
        let parts = ["a", "a", "b", "a.b", "a_2", "column_1", ".", " ", "", "\"", "\"\"", "é", "\u{0}", "1"]
        let breaks = [",", ",", ";", "\t", "|", "\n", "\n", "\r\n", "\r"]
        var count = 0
        for _ in 0..<2_000 {
            let only = breaks.randomElement(using: &generator)!
            var text = Bool.random(using: &generator) ? "\u{FEFF}" : ""
            for _ in 0..<Int.random(in: 1...14, using: &generator) {
                text += parts.randomElement(using: &generator)!
                text += Bool.random(using: &generator) ? only : breaks.randomElement(using: &generator)!
            }
            let csv = CSVOptions(ragged: Bool.random(using: &generator) ? .fill : .fail)
            let reading = try #require(Reading.always(.csv, text, csv: csv), "\(text.debugDescription)")
            for record in reading.records {
                count += 1
                let document = try JSONDocument(parsing: JSONText(copying: Array(record.utf8)))
                #expect(Self.hasUniqueKeys(document.root), "\(text.debugDescription): \(record)")
            }
        }
        #expect(count > 500)
    }

    private static func hasUniqueKeys(_ value: JSONValue) -> Bool {
        var keys: Set<String> = []
        for (key, value) in value.members {
            guard keys.insert(key.string ?? "").inserted, hasUniqueKeys(value) else { return false }
        }
        return true
    }

    @Test func `a header of many equal names, and one without an end, take linear time and bounded memory`() {
        let count = 100_000
        let reading = Reading(
            .csv, String(repeating: "a,", count: count) + "a\n" + String(repeating: ",", count: count))
        #expect(reading.records.count == 1 && reading.fault == nil)
        let piece = [UInt8](repeating: UInt8(ascii: ";"), count: 1 << 10)
        let endless = Reading(
            .csv, RepeatedBytes("\"a", then: piece, times: 8 << 10), limits: RecordLimits(maximumBytes: 1 << 20))
        #expect(endless.faultText.contains("the record is larger than 1 MiB"), "\(endless.faultText)")
        var blank = CSVDelimiterSearch()
        blank.append(Array("\n\r\n".utf8))
        #expect(blank.takeBlank()?.count == 3 && blank.bytes.isEmpty)
    }
}
