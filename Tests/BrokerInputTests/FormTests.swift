import BrokerJSON
import TestSupport
import Testing

@testable import BrokerInput

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
        ("a=%FF", "column 3 (byte 2): what is written here is not UTF-8; convert it"),
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
