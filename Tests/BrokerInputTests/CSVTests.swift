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
        ("a,b\n1,2\"3\n", "line 2, column 4 (byte 7): a quote inside of a field"),
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
        #expect(Reading(.csv, [0xFF, 0xFE, 0x61, 0x00]).faultText.contains("iconv -f UTF-16"))
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
        let reading = Reading(.csv, "\(header)\n\(row)\n\(row)\n")
        #expect(reading.records.count == 2 && reading.fault == nil)
    }
}
