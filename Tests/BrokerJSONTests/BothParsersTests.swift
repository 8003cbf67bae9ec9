import BrokerFastJSON
import BrokerJSON
import Synchronization
import TestSupport
import Testing

/// The parser in Swift and simdjson build the same tape, and refuse the same texts with the same fault. (All other tests of this
/// target parse by both, too.)
@Suite(.timeLimit(.minutes(5))) struct BothParsersTests {
    @Test func `both parsers agree on random documents and on random changes of them`() throws {
        var generator = SeededGenerator()
        for number in 0..<4_000 {
            var text = Self.document(depth: 4, using: &generator)
            for _ in 0..<Int.random(in: 0...3, using: &generator) { Self.change(&text, using: &generator) }
            _ = try? BothParsers.parse(JSONText(copying: text)) {
                Issue.record("case \(number): \($0): \(String(decoding: text, as: UTF8.self).debugDescription)")
            }
        }
    }

    @Test(arguments: [0, 1, 2, 511, 512, 513]) func `both parsers have one limit of depth`(depth: Int) throws {
        let text = JSONText(
            copying: Array((String(repeating: "[", count: depth) + "1" + String(repeating: "]", count: depth)).utf8))
        for maximumDepth in [0, 1, 512, 600] {
            let document = try? BothParsers.parse(text, maximumDepth: maximumDepth) { Issue.record("\(depth): \($0)") }
            #expect((document != nil) == (depth <= maximumDepth))
        }
    }

    @Test func `both parsers agree on long texts, however many containers are open or empty`() throws {
        let openings = ["[", "{\"a\":"].map { String(repeating: $0, count: 600) }
        let deep = ["[[],[]]", "{\"a\":{}}"]
        for element in ["1", "[]", "{}", "[1]"] + deep {
            let elements = Array(repeating: element, count: 9_000).joined(separator: ",")
            for rest in ["]", "", ",", ",]", ",\(openings[0])", ",\(openings[1])", ",\(openings[0])1", "]]"] {
                let text = JSONText(copying: Array("[\(elements)\(rest)".utf8))
                for maximumDepth in [2, 512, 1_000] {
                    let document = try? BothParsers.parse(text, maximumDepth: maximumDepth) {
                        Issue.record("\(element) \(rest): \($0)")
                    }
                    let isShallow = maximumDepth > 2 || !deep.contains(element)
                    #expect((document != nil) == (rest == "]" && isShallow))
                }
            }
        }
    }

    @Test func `both parsers find the end of a string wherever it lies in a word of eight bytes`() throws {
        for ending in ["\"", "\\\"\"", "é\"", "\\u00e9\"", "\u{1F600}\"", "\u{7F}\"", "\\", "\n\"", ""] {
            for count in 0..<20 {
                let text = "[\"" + String(repeating: "x", count: count) + ending + "]"
                _ = try? BothParsers.parse(JSONText(copying: Array(text.utf8))) { Issue.record("\(text): \($0)") }
            }
        }
    }

    private static let scalars = [
        "null", "true", "false", "0", "-0", "12", "-1.5", "1e5", "2.50E-3", "9223372036854775808", "1e400", "0.1e-400",
        #""""#, #""a""#, #""a long text without any escape""#, #""\"\\\/\b\f\n\r\t""#, #""\u0000\u00e9\ud83d\ude00""#,
        #""éß漢😀""#,
    ]
    private static let spaces = ["", "", "", " ", "\n", " \t\r\n "]
    /// The text that a change may put somewhere.
    private static let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "1", "-", ".", "e", " ", "\n", "\u{0}", "\u{1F}", "é", "\\u",
        "\\ud83d", "nul", "/*",
    ]

    private static func document(depth: Int, using generator: inout SeededGenerator) -> [UInt8] {
        var text: [UInt8] = []
        append(depth, &text, using: &generator)
        return text
    }

    private static func append(_ depth: Int, _ text: inout [UInt8], using generator: inout SeededGenerator) {
        func space(_ text: inout [UInt8]) { text += Array(spaces.randomElement(using: &generator)!.utf8) }
        space(&text)
        let count = Int.random(in: 0...4, using: &generator)
        switch depth == 0 ? 0 : Int.random(in: 0...2, using: &generator) {
        case 0: text += Array(scalars.randomElement(using: &generator)!.utf8)
        case 1:
            text.append(UInt8(ascii: "["))
            for index in 0..<count {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                append(depth - 1, &text, using: &generator)
            }
            space(&text)
            text.append(UInt8(ascii: "]"))
        default:
            text.append(UInt8(ascii: "{"))
            for index in 0..<count {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                space(&text)
                text += Array(scalars.filter { $0.hasPrefix("\"") }.randomElement(using: &generator)!.utf8)
                space(&text)
                text.append(UInt8(ascii: ":"))
                append(depth - 1, &text, using: &generator)
            }
            space(&text)
            text.append(UInt8(ascii: "}"))
        }
        space(&text)
    }

    private static func change(_ text: inout [UInt8], using generator: inout SeededGenerator) {
        let place = Int.random(in: 0...text.count, using: &generator)
        let end = min(text.count, place + Int.random(in: 0...2, using: &generator))
        switch Int.random(in: 0...3, using: &generator) {
        case 0: text.removeSubrange(place..<end)
        case 1: text.removeSubrange(end...)
        case 2: text.insert(UInt8.random(in: 0...255, using: &generator), at: place)
        default: text.replaceSubrange(place..<end, with: Array(pieces.randomElement(using: &generator)!.utf8))
        }
    }
}

/// An allowance of so many bytes.
final class Allowance: MemoryAllowance {
    private let state: Mutex<(left: Int, mostTaken: Int, taken: Int, asked: Int)>

    init(_ bytes: Int) { state = Mutex((bytes, 0, 0, 0)) }

    /// How often it was asked.
    var asked: Int { state.withLock { $0.asked } }

    var taken: Int { state.withLock { $0.taken } }
    var mostTaken: Int { state.withLock { $0.mostTaken } }

    func take(_ bytes: Int) -> Bool {
        state.withLock { state in
            state.asked += 1
            guard bytes <= state.left else { return false }
            state.left -= bytes
            state.taken += bytes
            state.mostTaken = max(state.mostTaken, state.taken)
            return true
        }
    }

    func giveBack(_ bytes: Int) {
        state.withLock { state in
            state.left += bytes
            state.taken -= bytes
        }
    }
}

/// The memory of a tape is requested before it is used.
@Suite(.timeLimit(.minutes(5))) struct JSONMemoryTests {
    private func document(_ json: String, _ allowance: Allowance) throws(JSONRefusal) -> JSONDocument {
        try JSONDocument(fast: JSONText(copying: Array(json.utf8)), allowance: allowance)
    }

    private func refusal(_ json: String, _ allowance: Allowance) -> String? {
        do throws(JSONRefusal) {
            _ = try document(json, allowance)
            return nil
        } catch {
            if case .noRoom = error { return "no room" }
            return "fault"
        }
    }

    private static func list(_ element: String, _ count: Int) -> String {
        "[" + String(repeating: element + ",", count: count) + "1]"
    }

    /// A text with the name that is printed for it.
    struct Text: CustomTestStringConvertible {
        let testDescription: String
        let json: String

        init(_ name: String, _ json: String) { (testDescription, self.json) = (name, json) }
    }

    private static let texts = [
        Text("empty array", "[]"), Text("small object", "{\"a\": [1, 2, {\"b\": null}]}"),
        Text("200,000 objects", list("{}", 200_000)), Text("100,000 escaped strings", list(#""\n""#, 100_000)),
        Text("string of 600,000 bytes", "\"" + String(repeating: "x", count: 600_000) + "\""),
        Text("50,000 strings with structural characters", list(#""a,b: {}" "# + "\n", 50_000)),
    ]

    @Test(arguments: texts) func `a tape's memory is the granted memory`(text: Text) throws {
        let allowance = Allowance(.max)
        let document = try document(text.json, allowance)
        #expect(allowance.taken == document.memory)
        #expect(document.memory >= 16)
        #expect(allowance.mostTaken >= allowance.taken)
    }

    @Test(arguments: texts) func `a refusal leaves no granted memory`(text: Text) throws {
        let json = text.json
        let needed = Allowance(.max)
        _ = try document(json, needed)
        for bytes in [0, 15, needed.mostTaken / 2, needed.mostTaken - 1] {
            let allowance = Allowance(bytes)
            #expect(refusal(json, allowance) == "no room")
            #expect(allowance.taken == 0)
        }
        #expect(throws: Never.self) { try document(json, Allowance(needed.mostTaken)) }
    }

    @Test(arguments: [
        Text("no end", "[1,"), Text("a bracket too many", list("{}", 200_000) + "]"), Text("escape", #""\x""#),
        Text("half a surrogate pair", #"["\n", "\ud800"]"#), Text("empty", ""),
    ])
    func `a text with a fault keeps nothing`(text: Text) {
        let allowance = Allowance(.max)
        #expect(refusal(text.json, allowance) == "fault")
        #expect(allowance.taken == 0)
    }

    @Test(arguments: [1_000, 300_000, 20_000_000])
    func `a text near its limit requests memory now and then, not for each byte`(limit: Int) {
        let allowance = Allowance(limit)
        var builder = JSONTextBuilder(maximumCount: .max, allowance: allowance)
        while builder.reserve(1) { builder.withFreeSpace(atLeast: 1) { $0.count } }
        #expect(allowance.asked < 100, "\(allowance.asked)")
        #expect(builder.count > limit / 2)
    }

    @Test func `a text that grows takes its bytes, and a bit while it grows`() {
        let allowance = Allowance(3_000_000)
        var builder = JSONTextBuilder(maximumCount: 10_000_000, capacity: 10, allowance: allowance)
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 1_000)
        for _ in 0..<2_500 {
            let hasRoom = builder.reserve(piece.count)
            #expect(hasRoom)
            builder.withFreeSpace(atLeast: piece.count) { free in
                free.copyBytes(from: piece)
                return piece.count
            }
        }
        let hasMore = builder.reserve(600_000)
        #expect(!hasMore)
        let text = builder.finish()
        #expect(text.count == 2_500_000)
        #expect(allowance.taken == 2_500_000)
        var other = JSONTextBuilder(maximumCount: 1_000, capacity: 100, allowance: allowance)
        let hasRoom = other.reserve(1)
        #expect(hasRoom)
        _ = consume other
        #expect(allowance.taken == 2_500_000)
    }
}
