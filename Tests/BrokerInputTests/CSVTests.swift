import BrokerJSON
import TestSupport
import Testing

@testable import BrokerInput

@Suite(.timeLimit(.minutes(5))) struct CSVTests {
    @Test func `the header names the fields, and values stay texts`() throws {
        let reading = try #require(Reading.always(.csv, "id,name\r\n1,Ada\r\n02,Grace Hopper\r\n"))
        #expect(reading.records == [#"{"id":"1","name":"Ada"}"#, #"{"id":"02","name":"Grace Hopper"}"#])
        #expect(reading.lines == [2, 3] && reading.fault == nil)
        #expect(reading.places.map(\.offset) == [9, 16])
    }

    @Test(arguments: [",", "x"])
    func `an endless header ends after so many fields or bytes, and so does an endless row`(text: String) {
        let piece = Array(String(repeating: text, count: 256 << 10).utf8)
        let bytes = RepeatedBytes(text, then: piece, times: 40)
        let reading = Reading(.csv, bytes, csv: CSVOptions(delimiter: .comma))
        #expect(reading.records.isEmpty)
        #expect(reading.faultText.contains("more than"), "\(reading.faultText)")
        #expect(bytes.bytesRead <= 5 << 20)
        let row = Reading(.csv, RepeatedBytes("a\n", then: piece, times: 2))
        #expect(text != "," || row.faultText.contains("more than 131072 fields"), "\(row.faultText)")
    }

    @Test func `the last line may lack its end, empty lines say nothing, and a byte order mark is no text`() throws {
        let reading = try #require(Reading.always(.csv, "\u{FEFF}\"id\",ä\n\n1,x\n\r\n2,é"))
        #expect(reading.records == [#"{"id":"1","ä":"x"}"#, #"{"id":"2","ä":"é"}"#])
        #expect(reading.lines == [3, 5])
    }

    @Test func `quotes keep commas, line ends, carriage returns and quotes`() throws {
        let reading = try #require(Reading.always(.csv, "a,b\n\"1,2\",\"x\r\ny\n\"\"z\"\"\"\n\"\",\"\t\"\n"))
        #expect(reading.records == [#"{"a":"1,2","b":"x\r\ny\n\"z\""}"#, #"{"a":"","b":"\t"}"#])
        #expect(reading.lines == [2, 5])
    }

    @Test func `an empty field is null, and an empty text is in quotes`() throws {
        let reading = try #require(Reading.always(.csv, "a,b,c\n,\"\",x\n,,\n\"\",\"\",\"\"\n"))
        #expect(
            reading.records == [
                #"{"a":null,"b":"","c":"x"}"#, #"{"a":null,"b":null,"c":null}"#, #"{"a":"","b":"","c":""}"#,
            ])
        #expect(try #require(Reading.always(.csv, "a\n\"\"\n")).records == [#"{"a":""}"#])
    }

    @Test func `dotted headers are nested objects, and one of nothing is null`() throws {
        let text =
            "id,contact.email,name,contact.home.city,contact.home.zip\n1,a@b,Ada,London,\n2,c@d,Bob,,\n3,,Eve,,\n"
        let reading = try #require(Reading.always(.csv, text))
        #expect(
            reading.records == [
                #"{"id":"1","contact":{"email":"a@b","home":{"city":"London","zip":null}},"name":"Ada"}"#,
                #"{"id":"2","contact":{"email":"c@d","home":null},"name":"Bob"}"#,
                #"{"id":"3","contact":null,"name":"Eve"}"#,
            ])
    }

    @Test(arguments: [
        ("", "line 1, column 1 (byte 0): there is no header"),
        ("\n\r\n", "there is no header"),
        ("a,b\n1,2\n3\n4,5\n", "line 3, column 1 (byte 8): this record has 1 field, and the header names 2"),
        ("a,b\n1,2,3\n", "has 3 fields, and the header names 2; a comma inside of a field needs quotes"),
        ("a,b\n1,2\"3\n4,5,6\n", "line 3, column 1 (byte 10): this record has 3 fields"),
        ("a,b\n1,\"2\"3\n", "line 2, column 6 (byte 9): expected a comma or the end of the line after the closing"),
        ("a,b\n1,\"2\n3\n", "a quote is opened at line 2, column 3, and never closed"),
        ("a,b\n1,2\r3,4\n", "line 2, column 5 (byte 8): a carriage return without a line feed"),
        ("a,b\n1,2\r", "a carriage return without a line feed"),
        ("a,b\n1,\u{0}\n", "line 2, column 3 (byte 6): the byte 0x00 (is it UTF-16?"),
        ("a,b\n1,\"\u{0}\n", "line 2, column 4 (byte 7): the byte 0x00"),
        ("a;b\n1;\"2\"3\n", "expected a semicolon or the end of the line after the closing"),
        ("\"a\n", "a quote is opened at line 1, column 1, and never closed"),
    ])
    func `a fault is reported with its position`(text: String, message: String) throws {
        let reading = try #require(Reading.always(.csv, text))
        #expect(reading.faultText.contains(message), "\(reading.faultText)")
    }

    @Test func `invalid UTF-8 is reported at its position, after the records before it`() {
        let bytes = Array("a,b\n1,2\n\"x\"\"\ny\"\"é".utf8) + [0xFF] + Array("\",3\n".utf8)
        for size in 1...9 {
            let reading = Reading(.csv, bytes, pieces: size)
            #expect(reading.records == [#"{"a":"1","b":"2"}"#])
            #expect(reading.fault?.place == InputPlace(line: 4, column: 6, offset: 18), "\(reading.faultText)")
            #expect(
                reading.faultText.contains("the text is not UTF-8: a byte")
                    && reading.faultText.contains("begins at line 3"))
        }
        #expect(bytes[18] == 0xFF)
    }

    @Test func `a header may be as deep as a record, and no deeper`() {
        let deepest = (1...507).map { "k\($0)" }.joined(separator: ".")
        #expect(Reading(.csv, "\(deepest)\n1\n").records.count == 1)
        #expect(Reading(.csv, "\(deepest).x\n1\n").faultText.contains("nested deeper than 508 levels"))
    }

    @Test func `a field without an end is refused at the size of the largest record`() {
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 16)
        for beginning in ["a\n1\n\"", "a\n1\n"] {
            let reading = Reading(
                .csv, RepeatedBytes(beginning, then: piece, times: 1024), limits: RecordLimits(maximumBytes: 2 << 20))
            #expect(reading.records == [#"{"a":"1"}"#])
            #expect(reading.faultText.contains("the record is larger than 2 MiB"), "\(reading.faultText)")
        }
    }

    @Test func `rows of many fields take linear time`() {
        let columns = Cases.count(30_000, of: 100_000)
        let header = (0..<columns).map { "group\($0 % 300).column\($0)" }.joined(separator: ",")
        let row = String(repeating: ",", count: columns - 1)
        let reading = Reading(.csv, "\(header)\n\(row)\n\(row)x\n")
        #expect(reading.records.count == 2 && reading.fault == nil)
    }
}

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
        ("a,a.b\n", #"{"a":1,"a.b":2}"#), ("a.b,a\n", #"{"a.b":1,"a":2}"#),
        ("a.b.c,a.b\n", #"{"a.b.c":1,"a":{"b":2}}"#),
        ("a_b,a,a.b\n", #"{"a_b":1,"a":2,"a.b":3}"#), ("a.b,a,a.b\n", #"{"a.b":1,"a":2,"a.b_2":3}"#),
        ("No.,St. Name\n", #"{"No.":1,"St. Name":2}"#), ("a..b,.c\n", #"{"a..b":1,".c":2}"#),
        ("No.,No_.x\n", #"{"No.":1,"No_":{"x":2}}"#), ("a b,A b\n", #"{"a b":1,"A b":2}"#),
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

    @Test func `a row may have more fields than the header where these are empty`() throws {
        #expect(try records("a,b\n1,2,,\n3,4\n") == [#"{"a":"1","b":"2"}"#, #"{"a":"3","b":"4"}"#])
        #expect(Reading(.csv, "a,b\n1,2,,\"\"\n").faultText.contains("this record has 4 fields"))
        #expect(Reading(.csv, "id,name\n1,a\n2,b,EXTRA\n").faultText.contains("line 3, column 1"))
    }

    @Test(arguments: [
        ("sep=;\na,b;c\n1,2;3\n", #"{"a,b":"1,2","c":"3"}"#),
        ("\u{FEFF}\"sep=|\"\r\na|b\r\n1|2\r\n", #"{"a":"1","b":"2"}"#),
        ("SEP=\t\na\tb\n1\t2\n", #"{"a":"1","b":"2"}"#), ("# a, b\n#\n\na,b\n1,2\n", #"{"a":"1","b":"2"}"#),
        ("sep=;\n# x\na;b\n1;2\n", #"{"a":"1","b":"2"}"#), ("##x\n#a\tb\n1\t2\n", ##"{"#a":"1","b":"2"}"##),
        ("#,b\n1,2\n", ##"{"#":"1","b":"2"}"##), ("a,b\r1,2", #"{"a":"1","b":"2"}"#),
        ("a,b\r1,2\r", #"{"a":"1","b":"2"}"#),
        ("a;b\r\r\"1\r\";2\r", #"{"a":"1\r","b":"2"}"#),
    ])
    func `lines before the header, and the ends of lines, are found`(text: String, expected: String) throws {
        #expect(try records(text) == [expected])
    }

    @Test func `blanks around quotes are no text`() throws {
        #expect(
            try records("id, \"a\" ,b\n1,  \"x, \"\"y\" ,z\n2, , z\n") == [
                #"{"id":"1","a":"x, \"y","b":"z"}"#, #"{"id":"2","a":" ","b":" z"}"#,
            ])
        #expect(Reading(.csv, "a,b\n1,\"x\" \"y\"\n").faultText.contains("after the closing quote, saw '\"'"))
        #expect(try records("a,b\n1,x \"y\"\n") == [#"{"a":"1","b":"x \"y\""}"#])
    }

    @Test(
        arguments: [
            ("Sales\nid|price\n1|2\n", [#"{"id":"1","price":"2"}"#], "the first line is left out as a title (Sales)"),
            ("Sales,,\nof today\n\nid,a,b\n1,x,y\n", [#"{"id":"1","a":"x","b":"y"}"#], "title (Sales,,; of today)"),
            ("id,a;b;c;d,e\n1,x,y\n", [#"{"id":"1","a;b;c;d":"x","e":"y"}"#], nil),
            (
                "id,a\n1,\"x \\\"y\\\", z\"\n", [#"{"id":"1","a":"x \"y\", z"}"#],
                "a backslash before a quote is its escape"
            ),
            (
                "id,a\n1,'x, y'\n2,'it''s'\n", [#"{"id":"1","a":"x, y"}"#, #"{"id":"2","a":"it's"}"#],
                "in single quotes"
            ),
            ("id,a\n1,'x'\n", [#"{"id":"1","a":"'x'"}"#], nil),
            ("id,a\n1,6\" pipe\n", [#"{"id":"1","a":"6\" pipe"}"#], nil),
            ("a;b\n1;2,50\n", [#"{"a":"1","b":"2,50"}"#], "numbers such as 2,50 are texts; --decimal ,"),
            ("a,b\n1,NULL\n", [#"{"a":"1","b":"NULL"}"#], "NULL is a text; --null 'NULL'"),
            ("a,b\nNA,2\nx,NA\n", [#"{"a":"NA","b":"2"}"#, #"{"a":"x","b":"NA"}"#], "NA is a text"),
            ("a,b\nNA,2\n", [#"{"a":"NA","b":"2"}"#], nil), ("a^b\n1^2\n", [#"{"a^b":"1^2"}"#], "--delimiter '^'"),
            ("tags\na\nb;c\n", [#"{"tags":"a"}"#, #"{"tags":"b;c"}"#], nil),
        ] as [(String, [String], String?)])
    func `what the first lines show of a dialect is found, and said`(text: String, expected: [String], note: String?)
        throws
    {
        let reading = try #require(Reading.always(.csv, text))
        #expect(reading.records == expected, "\(reading.faultText)")
        #expect(reading.notes.count == (note == nil ? 0 : 1) && reading.notes.allSatisfy { $0.contains(note ?? "") })
    }

    @Test(arguments: [
        ("name\nDoe, John\nRoe, Jane\n", "line 2"), ("Sales\nid,price\n1,2,3\n", "line 2"),
        ("a,b\n1,\"x\" 'y'\n", "after the closing quote"), ("a,b\n1,'x\n2\n", "line 3"),
        ("a,b\n1,2\n# x\n", "if it is a comment, --comment '#'"),
    ])
    func `a dialect that is not certain is none, and the fault is reported`(text: String, fault: String) {
        let reading = Reading(.csv, text)
        #expect(reading.faultText.contains(fault) && reading.notes.isEmpty, "\(reading.faultText) \(reading.notes)")
    }

    @Test func `rows without any value at the end are left out, and those before another row are records`() throws {
        #expect(
            try records("a,b\n,\n1,2\n,\n,,\n") == [#"{"a":null,"b":null}"#, #"{"a":"1","b":"2"}"#])
        #expect(Reading(.csv, "a,b\n1,2\n,\n").notes == ["a row without any value at the end is left out"])
    }

    @Test(arguments: [
        "1,Ada,1815-12-10\n2,Bob,\n", "Ada,36,London\nBob,41,Paris\n", "52.5,13.4\n48.1,11.5\n",
        "2024-01-01T10:00:00Z;a;1\n2024-01-02T10:00:00Z;b;2\n", "7\n9\n",
    ])
    func `a first line that is certainly a record is one, and that is said`(text: String) throws {
        let reading = try #require(Reading.always(.csv, text))
        #expect(reading.records.count == 2 && reading.records[0].hasPrefix("{\"column_1\":"), "\(reading.faultText)")
        #expect(reading.notes.count == 1 && reading.notes[0].contains("is read as a record"))
        let header = try records(text, CSVOptions(hasHeader: true))
        #expect(header.count == 1)
    }

    @Test(arguments: [
        ("country,2019,2020\nCH,1,2\n", true), (",0,1\n0,5,6\n", false), ("id,name\n1,a\n", false),
        ("0,1,2\n5,6,7\n", true), ("country,2020-01-01\nCH,5\n", true),
        ("country,2020-01-01,2020-01-02\nCH,5,6\n", true),
        ("red,small\nred,large\n", true), ("a,b\nred,x\na,b\n", false), ("ann@example.com,x\nb,y\n", true),
        ("colour,size\nred,large\n", false), ("2019,total\nx,1\n", false), ("a,1st\nb,2nd\n", false),
        ("1,Ada\n", false),
    ])
    func `a first line that may be names is a header, and that is said where it looks like a record`(
        text: String, isSaid: Bool
    ) throws {
        let reading = try #require(Reading.always(.csv, text))
        #expect(reading.records.count == text.count { $0 == "\n" } - 1)
        #expect(reading.notes.contains { $0.hasSuffix("--no-header reads it as a record") } == isSaid)
        let rows = try records(text, CSVOptions(hasHeader: false))
        #expect(rows.count == reading.records.count + 1)
    }

    @Test func `quotes, escapes, comments, nulls and decimal marks are those of the options`() throws {
        var csv = CSVOptions()
        csv.quote = try #require(CSVCharacter("'"))
        #expect(try records("'a;b','c'\n'1''2','x\ny'\n", csv) == [#"{"a;b":"1'2","c":"x\ny"}"#])
        csv = CSVOptions()
        csv.quote = .none
        #expect(try records("a,b\n5\",\"x\n", csv) == [#"{"a":"5\"","b":"\"x"}"#])
        csv = CSVOptions()
        csv.escape = try #require(CSVCharacter("\\"))
        #expect(
            try records("a,b\n\"x\\\"y\\\\\",1\\,2\n\\N,a\\\nb\n", csv) == [
                #"{"a":"x\"y\\","b":"1,2"}"#, #"{"a":"\\N","b":"a\nb"}"#,
            ])
        csv = CSVOptions()
        csv.comment = CSVCharacter("%")
        #expect(try records("% x,y\na,b\n1,2\n%3\n4,%5\n", csv) == [#"{"a":"1","b":"2"}"#, #"{"a":"4","b":"%5"}"#])
        csv = CSVOptions()
        csv.nulls = ["NA", "\\N"]
        #expect(try records("a,b,c\nNA,\\N,\"NA\"\n", csv) == [#"{"a":null,"b":null,"c":"NA"}"#])
        csv = CSVOptions()
        csv.skipLines = 2
        #expect(try records("Report, of\nsales\na,b\n1,2\n", csv) == [#"{"a":"1","b":"2"}"#])
        #expect(Reading(.csv, PiecedBytes(Array("x\n\na\n1\n".utf8), 1), csv: csv).lines == [4])
        for text in ["", "ab", "é", " ", "\t"] { #expect(CSVCharacter(text) == nil) }
    }

    @Test(
        arguments: [
            ("1,5", "1.5"), ("-1.234,50", "-1234.50"), ("1.234", "1234"), ("0,07", "0.07"), ("12", "12"),
            ("24.09.2012", nil),
            ("1.23", nil), ("079,12", nil), ("1,2,3", nil), ("1,", nil), (",5", nil), ("1.2345,6", nil), ("x,5", nil),
            ("1234,5", "1234.5"),
        ] as [(String, String?)])
    func `a decimal comma is read in numbers alone`(text: String, number: String?) throws {
        var csv = CSVOptions(delimiter: CSVDelimiter(";"))
        csv.decimal = .comma
        #expect(try records("a;b\n\(text);x\n", csv) == [#"{"a":"\#(number ?? text)","b":"x"}"#])
        csv.decimal = .point
        let swapped = String(text.map { $0 == "," ? "." : $0 == "." ? "," : $0 })
        let expected = number ?? swapped
        #expect(try records("a;b\n\(swapped);x\n", csv) == [#"{"a":"\#(expected)","b":"x"}"#])
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
            .csv, String(repeating: "a,", count: count) + "a\n" + String(repeating: ",", count: count) + "x")
        #expect(reading.records.count == 1 && reading.fault == nil)
        let piece = [UInt8](repeating: UInt8(ascii: ";"), count: 1 << 10)
        let endless = Reading(
            .csv, RepeatedBytes("\"a", then: piece, times: 8 << 10), limits: RecordLimits(maximumBytes: 1 << 20))
        #expect(endless.faultText.contains("the record is larger than 1 MiB"), "\(endless.faultText)")
    }
}

extension CSVOptions {
    fileprivate init(hasHeader: Bool) {
        self.init()
        self.hasHeader = hasHeader
    }
}

/// Texts that are not UTF-8.
@Suite(.timeLimit(.minutes(5))) struct EncodingTests {
    private func read(
        _ bytes: [UInt8], _ name: String? = nil, _ format: RecordFormat = .csv, pieces size: Int = 1 << 16
    ) throws -> Reading {
        let encoding = try name.map { try #require(TextEncoding($0)) }
        return Reading(format, PiecedBytes(bytes, size), encoding: encoding)
    }

    @Test(arguments: [true, false]) func `UTF-16 is known by its byte order mark`(isLittle: Bool) throws {
        let units = Array("\u{FEFF}id,näme\n1,é😀\n".utf16)
        let bytes = units.flatMap {
            isLittle ? [UInt8($0 & 0xFF), UInt8($0 >> 8)] : [UInt8($0 >> 8), UInt8($0 & 0xFF)]
        }
        for size in 1...9 {
            #expect(try read(bytes, pieces: size).records == [#"{"id":"1","näme":"é😀"}"#])
            #expect(try read(Array(bytes.dropLast()), pieces: size).fault?.reason.contains("no UTF-16") ?? false)
        }
        let json = Array("\u{FEFF}{\"a\": \"é\"}".utf16).flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        #expect(try read(json, nil, .json).records == ["{\"a\": \"é\"}"])
    }

    @Test func `CSV that is no UTF-8 is Windows-1252, and that is said`() throws {
        let bytes = Array("id,name\n1,Z".utf8) + [0xFC] + Array("rich\n2,".utf8) + [0x80, 0x31] + Array("\n".utf8)
        for size in 1...9 {
            let reading = try read(bytes, pieces: size)
            #expect(reading.records == [#"{"id":"1","name":"Zürich"}"#, #"{"id":"2","name":"€1"}"#])
            #expect(reading.notes.count == 1 && reading.notes[0].contains("from byte 11 on"), "\(reading.notes)")
        }
        // An undefined byte, and a text in which the bytes beyond ASCII are not single ones.
        #expect(try read(Array("a\n".utf8) + [0x81]).faultText.contains("no WINDOWS-1252"))
        for size in 1...9 {
            let reading = try read(Array("a\nx\n".utf8) + [0x93, 0xFA, 0x96, 0x7B, 0x8C, 0xEA, 0xEA], pieces: size)
            #expect(reading.faultText.contains("neither UTF-8 nor Windows-1252"), "\(reading.faultText)")
        }
        // UTF-8 with a damaged byte.
        for size in 1...9 {
            let reading = try read(Array("a\n".utf8) + [0xE9] + Array("x\nZürich\n".utf8), pieces: size)
            #expect(reading.records == [#"{"a":"éx"}"#], "\(reading.records)")
            #expect(reading.faultText.contains("neither UTF-8 nor Windows-1252"), "\(reading.faultText)")
        }
        #expect(try read([0x7B, 0x22, 0xFC, 0x22, 0x7D], nil, .json).notes.isEmpty)
    }

    @Test func `a given encoding counts`() throws {
        let bytes = Array("a\n".utf8) + [0x93, 0xFA, 0x96, 0x7B] + Array("\n".utf8)
        for size in 1...5 { #expect(try read(bytes, "SHIFT_JIS", pieces: size).records == [#"{"a":"日本"}"#]) }
        #expect(try read(Array("a\n".utf8) + [0xB9], "ISO-8859-2").records == [#"{"a":"š"}"#])
        #expect(try read(bytes, "UTF-8").faultText.contains("is no UTF-8"))
        #expect(TextEncoding("NO-SUCH") == nil)
    }
}

@Suite(.timeLimit(.minutes(5))) struct FormTests {
    @Test(arguments: [
        ("a=1&b=x+y&c=%C3%A9%26%3d", #"{"a":"1","b":"x y","c":"é&="}"#),
        ("a=&b&&c=1=2", #"{"a":"","b":null,"c":"1=2"}"#),
        ("b.c=2&b.d.e=3", #"{"b":{"c":"2","d":{"e":"3"}}}"#),
        ("a[b]=2&a%5Bc%5D[d]=3", #"{"a":{"b":"2","c":{"d":"3"}}}"#),
        ("a=1&a=2&a=3", #"{"a":["1","2","3"]}"#),
        ("a[]=1&a[]=2", #"{"a":["1","2"]}"#),
        ("a[]=1", #"{"a":["1"]}"#),
        ("a[1]=y&a[0]=x&a[10]=z", #"{"a":["x","y","z"]}"#),
        ("a[0][x]=1&a[0][y]=2&a[1][x]=3", #"{"a":[{"x":"1","y":"2"},{"x":"3"}]}"#),
        ("a[][x]=1&a[][y]=2&a[][x]=3", #"{"a":[{"x":"1","y":"2"},{"x":"3"}]}"#),
        ("a[][t][]=1&a[][t][]=2&a[][x]=3", #"{"a":[{"t":["1","2"],"x":"3"}]}"#),
        ("a[999999999]=1", #"{"a":["1"]}"#),
    ])
    func `names with dots and brackets are objects and arrays`(text: String, json: String) throws {
        let reading = try #require(Reading.always(.form, text))
        #expect(reading.records == [json], "\(reading.faultText)")
    }

    @Test func `each line is a record, and empty ones are none`() throws {
        let reading = try #require(Reading.always(.form, "\u{FEFF}a=1\r\n\r\n\na=2\na=3"))
        #expect(reading.records == [#"{"a":"1"}"#, #"{"a":"2"}"#, #"{"a":"3"}"#])
        #expect(reading.lines == [1, 4, 5] && reading.fault == nil)
        #expect(Reading(.form, "").records.isEmpty && Reading(.form, "").fault == nil)
    }

    @Test(arguments: [
        ("a=1\nb=%4", "line 2, column 3 (byte 6): a percent sign needs two hexadecimal digits"),
        ("b=%zz", "column 3 (byte 2): a percent sign needs"),
        ("a=%FF", "column 3 (byte 2): what is written here is not UTF-8; percent-encode"),
        ("a=x y", "column 4 (byte 3): a space must be percent-encoded"),
        ("a=\u{0}", "column 3 (byte 2): the byte 0x00 (is it UTF-16?"),
        ("=1", "a value without a name"),
        ("a=1&a[b]=2", #"column 5 (byte 4): "a[b]" contradicts a name before it"#),
        ("a[b]=1&a[]=2", "contradicts a name before it"),
        ("a[b]=1&a=2", "contradicts a name before it"),
        ("a[b=1", "has a bracket that is never closed"),
        ("[a]=1", "begins with a bracket"),
        ("a[b]c=1", "continues after a closing bracket"),
        ("a..b=1", "has an empty part"),
        ("a.=1", "has an empty part"),
    ])
    func `a fault is reported with its position`(text: String, message: String) throws {
        let reading = try #require(Reading.always(.form, text))
        #expect(reading.faultText.contains(message), "\(reading.faultText)")
    }

    @Test func `nested values are never deeper than a record may be`() throws {
        let deepest = "a" + String(repeating: "[b]", count: 506)
        let reading = Reading(.form, "\(deepest)=1&\(deepest)=2")
        let record = try #require(reading.records.first)
        #expect(InputRecord(json: Array(record.utf8), place: InputPlace()).fault == nil)
        #expect(Reading(.form, "\(deepest)[b]=1").faultText.contains("nested deeper than 508 levels"))
    }

    @Test func `many pairs take linear time`() {
        let count = Cases.count(20_000, of: 100_000)
        let pairs = (0..<count).map { "a[]=\($0)&b[k\($0)]=1&c=\($0)&d[][x]=\($0)&e[\(count - 1 - $0)]=1" }
        let reading = Reading(.form, pairs.joined(separator: "&"))
        #expect(reading.records.count == 1 && reading.fault == nil)
    }

    @Test(arguments: ["a&", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p%u=1&"])
    func `a form of too many names and values is refused before they are stored`(pair: String) {
        var text = ""
        for number in 0..<(pair.contains("%u") ? 70_000 : 1 << 20) {
            text += pair.contains("%u") ? pair.replacing("a.", with: "a\(number).").replacing("%u", with: "") : pair
        }
        #expect(Reading(.form, text).faultText.contains("more than 1048576 names and values"))
    }

    @Test func `a line without an end is refused at the size of the largest record`() {
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 16)
        let reading = Reading(
            .form, RepeatedBytes("a=1\nb=", then: piece, times: 1024), limits: RecordLimits(maximumBytes: 2 << 20))
        #expect(reading.records == [#"{"a":"1"}"#])
        #expect(reading.faultText.contains("the record is larger than 2 MiB"), "\(reading.faultText)")
    }
}
