import BrokerJSON
import Testing

@Suite(.timeLimit(.minutes(5))) struct JSONWriterTests {
    private func written(_ body: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        body(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func `commas are written only between members and elements`() {
        let json = written { writer in
            writer.object { writer in
                writer.key("a")
                writer.array { writer in
                    writer.integer(1)
                    writer.object { _ in }
                    writer.array { _ in }
                    writer.null()
                }
                writer.key("b")
                writer.bool(true)
                writer.rawMembers(Array(#""c":3"#.utf8))
                writer.rawMembers([UInt8]())
                writer.key("d")
                writer.double(0.5)
            }
        }
        #expect(json == #"{"a":[1,{},[],null],"b":true,"c":3,"d":0.5}"#)
    }

    @Test func `a string is escaped where RFC 8259 asks for it, and nowhere else`() {
        let json = written { $0.string("\"\\/\u{8}\u{C}\n\r\t\u{0}\u{1F}\u{7F}é😀\u{2028}") }
        #expect(json == #""\"\\/\u0008\u000c\n\r\t\u0000\u001f"# + "\u{7F}é😀\u{2028}\"")
    }

    @Test func `every scalar below U+0080 comes back from the parser`() throws {
        let all = String(String.UnicodeScalarView((0..<0x80).map { UnicodeScalar(UInt8($0)) }))
        #expect(try withRoot(of: written { $0.string(all) }) { $0.string } == all)
    }

    @Test func `64-bit integers are exact, and what is no number is null`() {
        let json = written { writer in
            writer.array { writer in
                writer.integer(Int64.min)
                writer.integer(Int64.max)
                for number in [0, -1, 9, 10, -1_000, 123_456_789] { writer.integer(Int64(number)) }
                writer.integer(UInt64.max)
                writer.double(.infinity)
                writer.double(.nan)
                writer.double(-0.0)
            }
        }
        #expect(
            json == "[-9223372036854775808,9223372036854775807,0,-1,9,10,-1000,123456789,"
                + "18446744073709551615,null,null,-0.0]")
    }

    @Test(arguments: [Double.greatestFiniteMagnitude, .leastNonzeroMagnitude, 0.1, 1e21, -1e-7, 5e300])
    func `a finite double comes back the same`(value: Double) throws {
        #expect(try withRoot(of: written { $0.double(value) }) { $0.double } == value)
    }

    @Test func `a value of a document is written unchanged, a string in the shortest escapes`() throws {
        let json = #"[1.50, "\u0041\u000a", {"a" : 1e5}]"#
        try withRoot(of: json) { root in
            #expect(written { $0.value(root) } == json)
            let elements = root.elements.map { value in written { $0.value(value) } }
            #expect(elements == ["1.50", #""A\n""#, #"{"a" : 1e5}"#])
        }
    }
}
