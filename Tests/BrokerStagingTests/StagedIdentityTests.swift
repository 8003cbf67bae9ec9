import BrokerModel
import Testing
import TestSupport

@testable import BrokerStaging

/// Finding rows by identity, and the order in which rows are merged.
@Suite(.timeLimit(.minutes(5))) struct StagedIdentityTests {
    private static func staging(_ identity: String) throws -> Staging {
        try Staging(
            """
            {"entities": {"Thing": {"identity": \(identity), "attributes": {
              "number": "integer64", "text": "string", "value": "integer64", "other": "integer64"}}}}
            """)
    }

    @Test(arguments: [#""number""#, #""text""#, #"["text", "number"]"#])
    func `each identity has one row with its last value, for any number of records`(identity: String) throws {
        let staging = try Self.staging(identity)
        var generator = SeededGenerator(for: "rows by identity \(identity)")
        var expected: [String: Int] = [:]
        var order: [String] = []
        let records = (0..<20_000).map { value in
            let key = Int.random(in: 0..<6_000, using: &generator)
            let (number, text) = (
                Int64(key) &* 0x5851_F42D_4C95_7F2D, String(repeating: "é", count: key % 40) + "\(key)"
            )
            let row = "number=\(number) text=\(text)"
            if expected.updateValue(value, forKey: row) == nil { order.append(row) }
            return #"{"number":\#(number),"text":"\#(text)","value":\#(value)}"#
        }
        let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")
        #expect(staged("Thing") == order.map { "\($0) value=\(expected[$0]!)" })
    }

    @Test func `an identity has one row among any number of rows without identity`() throws {
        let staging = try Staging(
            """
            {"entities": {"Thing": {"identity": "number", "identityOptional": true, "attributes": {
              "number": "integer64", "value": "integer64"}}}}
            """)
        var generator = SeededGenerator(for: "rows with and without identity")
        for count in 0..<200 {
            var expected: [Int: Int] = [:]
            var nameless = 0
            let records = (0..<count % 40).map { value in
                let number = Int.random(in: -6..<6, using: &generator)
                guard number >= 0 else {
                    nameless += 1
                    return #"{"number": null, "value": \#(value)}"#
                }
                expected[number] = value
                return #"{"number": \#(number), "value": \#(value)}"#
            }
            let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")("Thing")
            let named = staged.filter { !$0.hasPrefix("number=nil") }
            #expect(named.sorted() == expected.map { "number=\($0) value=\($1)" }.sorted())
            #expect(staged.count - named.count == nameless)
        }
    }

    @Test func `rows are merged in groups of the same columns, each in the order of its identity`() throws {
        let staged = try Self.staging(#""number""#).stage(
            """
            {"Thing": [{"number": 5, "value": 1}, {"number": -2, "value": 1}, {"number": 3},
              {"number": 4, "value": null},
              {"number": 9, "other": 1}, {"number": 1}, {"number": 3, "other": 2}]}
            """)
        #expect(
            staged.merged("Thing") == [
                ["number=-2 value=1", "number=4 value=nil", "number=5 value=1"],
                ["number=1"], ["number=3 other=2", "number=9 other=1"],
            ])
    }

    @Test func `texts are ordered by their bytes, compound identities by their first difference`() throws {
        let records = ["b", "", "a\\u0000", "é", "a", "B"].map { #"{"text": "\#($0)", "number": 1}"# }
        let texts = try Self.staging(#""text""#).stage("{\"Thing\": [\(records.joined(separator: ","))]}")
        #expect(texts.merged("Thing") == [["", "B", "a", "a\u{0}", "b", "é"].map { "number=1 text=\($0)" }])
        let pairs = try Self.staging(#"["text", "number"]"#).stage(
            #"{"Thing": [{"text": "b", "number": 1}, {"text": "a", "number": 9}, {"text": "a", "number": -9}]}"#)
        #expect(pairs.merged("Thing") == [["number=-9 text=a", "number=9 text=a", "number=1 text=b"]])
    }

    @Test func `texts of any length are in the order of their bytes, whatever they share`() throws {
        var generator = SeededGenerator(for: "order of texts")
        let staging = try Self.staging(#""text""#)
        let letters = ["a", "a", "b", "\u{0}", "é"]
        for _ in 0..<Cases.count(20, of: 100) {
            var texts: Set<String> = []
            for _ in 0..<200 {
                let length = Int.random(in: 0...12, using: &generator)
                texts.insert((0..<length).map { _ in letters.randomElement(using: &generator)! }.joined())
            }
            let expected = texts.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            let records = expected.shuffled(using: &generator).map { text in
                "{\"text\": \"\(text.replacing("\u{0}", with: "\\u0000"))\", \"number\": 1}"
            }
            let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")
            #expect(staged.merged("Thing") == [expected.map { "number=1 text=\($0)" }])
        }
    }

    @Test func `a table finds its rows by identity only`() throws {
        let staging = try Self.staging(#""number""#)
        let table = try #require(try staging.stage(#"{"Thing": [{"number": 7}, {"number": 0}]}"#).rows.tables[0])
        let find = { (number: Int64) in
            let cells = [Cell.integer(number), .absent, .absent, .absent]
            return cells.withUnsafeBufferPointer { table.find(identity: $0.baseAddress!, concreteEntity: 0) }
        }
        #expect([7, 0, 1, Int64.min].map(find) == [0, 1, nil, nil])
    }
}
