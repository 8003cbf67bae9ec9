import BrokerJSON
import Foundation
import TestSupport
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

/// Random values against another reader and writer of JSON: Foundation's.
@Suite(.timeLimit(.minutes(5))) struct JSONRoundTripTests {
    private indirect enum Value: Equatable {
        case null
        case bool(Bool)
        case integer(Int64)
        case double(Double)
        case string(String)
        case array([Value])
        case object([String: Value])
    }

    @Test func `random values come back from our parser, through our writer and through Foundation's`() throws {
        var generator = SeededGenerator(for: "values there and back")
        for _ in 0..<400 {
            let value = Self.random(&generator, depth: 5)
            var writer = JSONWriter()
            Self.write(value, to: &writer)
            #expect(try withRoot(of: writer.bytes, Self.read) == value)
            let object = try JSONSerialization.jsonObject(with: Data(writer.bytes), options: .fragmentsAllowed)
            let theirs = try JSONSerialization.data(
                withJSONObject: object, options: [.fragmentsAllowed, .prettyPrinted])
            #expect(try withRoot(of: theirs, Self.read) == value)
        }
    }

    @Test func `a damaged text is accepted only where Foundation accepts it`() throws {
        var generator = SeededGenerator(for: "damaged texts")
        var accepted = 0
        for _ in 0..<2_000 {
            var writer = JSONWriter()
            Self.write(Self.random(&generator, depth: 3), to: &writer)
            var bytes = writer.bytes
            let place = Int.random(in: bytes.indices, using: &generator)
            // No exponents: Foundation refuses numbers beyond a double, which the grammar allows.
            bytes[place] = Array("{}[],:\"\\0-. tu\u{1}\u{80}".utf8).randomElement(using: &generator)!
            guard refusal(of: bytes) == nil else { continue }
            accepted += 1
            #expect(throws: Never.self, "\(String(decoding: bytes, as: UTF8.self))") {
                _ = try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
            }
        }
        #expect(accepted > 0)
    }

    // MARK: - Values

    private static func random(_ generator: inout SeededGenerator, depth: Int) -> Value {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &generator) {
        case 0: return .null
        case 1: return .bool(.random(using: &generator))
        case 2: return .integer(Int64.random(in: .min ... .max, using: &generator))
        case 3: return .integer(Int64.random(in: -100...100, using: &generator))
        // Halves are no integers in any writer, and exact in every reader.
        case 4: return .double(Double(Int32.random(in: .min ... .max, using: &generator)) + 0.5)
        case 5: return .string(randomString(&generator))
        case 6: return .object([:])
        case 7:
            return .array(
                (0..<Int.random(in: 0...4, using: &generator)).map { _ in random(&generator, depth: depth - 1) })
        default:
            let members = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                (randomString(&generator), random(&generator, depth: depth - 1))
            }
            return .object(Dictionary(members, uniquingKeysWith: { $1 }))
        }
    }

    private static func randomString(_ generator: inout SeededGenerator) -> String {
        let scalars = (0..<Int.random(in: 0...20, using: &generator)).map { _ -> UnicodeScalar in
            let ranges: [ClosedRange<UInt32>] = [
                // Without U+FEFF, which Foundation takes for a byte order mark also where a string begins.
                0...0x1F, 0x20...0x7E, 0xA0...0xD7FF, 0xE000...0xFEFE, 0xFF00...0xFFFD, 0x1_0000...0x10_FFFF,
            ]
            // Precomposed and decomposed keys would be one key in a Swift dictionary, so no combining marks.
            let value = UInt32.random(in: ranges.randomElement(using: &generator)!, using: &generator)
            return UnicodeScalar(value).flatMap { $0.properties.canonicalCombiningClass == .notReordered ? $0 : nil }
                ?? "x"
        }
        return String(String.UnicodeScalarView(scalars))
    }

    private static func write(_ value: Value, to writer: inout JSONWriter) {
        switch value {
        case .null: writer.null()
        case .bool(let value): writer.bool(value)
        case .integer(let value): writer.integer(value)
        case .double(let value): writer.double(value)
        case .string(let value): writer.string(value)
        case .array(let values):
            writer.array { writer in
                for value in values { write(value, to: &writer) }
            }
        case .object(let members):
            writer.object { writer in
                for (key, value) in members {
                    writer.key(key)
                    write(value, to: &writer)
                }
            }
        }
    }

    private static func read(_ value: JSONValue) -> Value {
        switch value.kind {
        case .null: return .null
        case .true, .false: return .bool(value.bool!)
        case .number: return value.int64.map(Value.integer) ?? .double(value.double!)
        case .string: return .string(value.string!)
        case .array: return .array(value.elements.map(read))
        case .object:
            return .object(Dictionary(value.members.map { ($0.key.string!, read($0.value)) }, uniquingKeysWith: { $1 }))
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct PrintableTextTests {
    @Test(arguments: [
        ("plain, \"quoted\" \\ text", "plain, \"quoted\" \\ text"),
        ("Grüße 日本 👍🏽", "Grüße 日本 👍🏽"),
        ("a\nb\r\tc", #"a\u{A}b\u{D}\u{9}c"#),
        ("\u{1B}[2Jx\u{7F}\u{9B}", #"\u{1B}[2Jx\u{7F}\u{9B}"#),
        ("a\u{2028}b\u{2029}c", #"a\u{2028}b\u{2029}c"#),
        ("\u{202E}gnp\u{2066}\u{200B}\u{FEFF}", #"\u{202E}gnp\u{2066}\u{200B}\u{FEFF}"#),
        ("a\r\nb", #"a\u{D}\u{A}b"#), ("\0", #"\u{0}"#), ("", ""),
    ])
    func `characters that a terminal interprets are replaced and all others stay`(_ text: String, _ printable: String) {
        #expect(text.printable == printable)
    }

    @Test(arguments: [
        ("job-1", "job-1"), ("/var/lib/a.sqlite", "/var/lib/a.sqlite"), ("", "\"\""), ("two words", "\"two words\""),
        ("a=b", "\"a=b\""), (#"say "x" \n"#, #""say \"x\" \\n""#), ("x\ny", #""x\u{A}y""#), ("ü", "\"ü\""),
    ])
    func `a token of a log line is quoted unless it is plain`(_ text: String, _ token: String) {
        #expect(text.quotedForLog == token)
    }

    @Test func `no scalar passes that starts a line or an escape sequence`() {
        var wrong: [String] = []
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(Character(scalar))
            let isDangerous =
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: true
                default: false
                }
            if (text.printable != text) != isDangerous { wrong.append("U+\(String(value, radix: 16))") }
        }
        #expect(wrong == [])
    }
}

@Suite(.timeLimit(.minutes(5))) struct ShortListTests {
    @Test func `it has the elements of an array with the same changes`() {
        var generator = SeededGenerator()
        for _ in 0..<2_000 {
            var list = ShortList<String>()
            var array: [String] = []
            for step in 0..<Int.random(in: 0...8, using: &generator) {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0 where !array.isEmpty:
                    let place = Int.random(in: 0..<array.count, using: &generator)
                    #expect(list.remove(at: place) == array.remove(at: place))
                case 1 where !array.isEmpty:
                    let place = Int.random(in: 0..<array.count, using: &generator)
                    list[place] += "!"
                    array[place] += "!"
                case 2:
                    list.append(contentsOf: ["\(step)a", "\(step)b"])
                    array += ["\(step)a", "\(step)b"]
                default:
                    list.append("\(step)")
                    array.append("\(step)")
                }
                #expect(list.count == array.count && list.isEmpty == array.isEmpty)
                #expect(Array(list) == array && list.indices.map { list[$0] } == array)
                #expect(list.firstIndex { $0 == array.last } == array.firstIndex { $0 == array.last })
            }
        }
    }

    @Test func `it is made of a literal and of a sequence`() {
        #expect(Array([] as ShortList<Int>) == [])
        #expect(Array([1] as ShortList) == [1])
        #expect(Array(ShortList(1...3)) == [1, 2, 3])
    }
}
