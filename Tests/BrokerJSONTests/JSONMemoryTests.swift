import BrokerFastJSON
import BrokerJSON
import Synchronization
import Testing

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
            piece.withUnsafeBytes { builder.append($0) }
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
